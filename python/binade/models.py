"""Reads a model that is given as a path, an ``onnx.ModelProto``, or its bytes."""

from __future__ import annotations

import os
import pathlib
from typing import Any

from binade.errors import UsageError, reading


def read_model(
    model: str | os.PathLike | bytes | Any, directory: str | os.PathLike | None
) -> tuple[bytes, str, bool]:
    """Returns a model's bytes, the path of its file, and whether it is in memory.

    Args:
      model: As for ``binade.compile``.
      directory: The directory of the external weights of a model in memory; the
        returned path then names a file there, which need not exist.

    Raises:
      UsageError: If it is not a model.
      FileError: If the system refuses to read the file.
      RejectedError: If there is no such file.
    """
    if isinstance(model, (str, os.PathLike)):
        path = os.fspath(model)
        with reading(path):
            return pathlib.Path(path).read_bytes(), path, False
    place = os.path.join(os.fspath(directory or "."), "model.onnx")
    return serialize_model(model), place, True


def serialize_model(model: bytes | Any) -> bytes:
    """Returns the bytes of a model in memory.

    Raises:
      UsageError: If it is not a model, or exceeds the 2 GiB of a protobuf message.
    """
    if isinstance(model, bytes):
        return model
    import onnx

    if not isinstance(model, onnx.ModelProto):
        raise UsageError(
            "a model is a path, an onnx.ModelProto or its bytes, got "
            f"{type(model).__name__}"
        )
    try:
        return model.SerializeToString()
    except Exception as error:  # protobuf's, which has no public name.
        raise UsageError(
            f"the model cannot be written ({error}); a model above 2 GiB has to be a "
            "file: pass its path"
        ) from error
