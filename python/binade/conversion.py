"""``binade.convert``: changes the formats of an ONNX model as a policy says."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import pathlib
import tempfile
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from binade import _core, policies
from binade.errors import RejectedError, UsageError, writing
from binade.models import serialize_model
from binade.options import as_mapping, set_dims, set_option

if TYPE_CHECKING:
    import onnx

_LOG = logging.getLogger("binade")


def convert(
    model: str | os.PathLike | bytes | onnx.ModelProto,
    *,
    policy: str | os.PathLike | Mapping[str, Any],
    output: str | os.PathLike | None = None,
    io_types: Mapping[str, str] | None = None,
    loss_scale: float | None = None,
    dynamic_scale: bool = False,
    loss_output: str = "",
    ranges: str | os.PathLike | None = None,
    dims: Mapping[str, int] | None = None,
    directory: str | os.PathLike | None = None,
    allow_links: bool = False,
    fail_on_nonfinite: bool = False,
) -> onnx.ModelProto:
    """Changes the formats of an ONNX model as a policy says, like ``binade convert``.

    Keeps the graph's nodes, names, inputs and outputs. The logger ``binade`` reports the
    conversion and each node that stays in f32 at level INFO, and each decision that could
    not be applied as a warning.

    Args:
      model: A path to an ONNX file, or an ``onnx.ModelProto``, or its bytes.
      policy: As for ``binade.compile``.
      output: A file to write the model to. External weights go to the same directory.
      io_types: Formats of inputs and outputs in f32 whose names match a glob:
        ``{"*": "f16"}``; ``"f32"``, ``"f16"`` or ``"bf16"``.
      loss_scale: A power of two by which gradients in f16 are multiplied inside the
        graph; by default the policy's.
      dynamic_scale: Whether the scale is an input of the graph, and its next value an
        output.
      loss_output: The name of the output that is the loss; by default ``"loss"``.
      ranges: A file of ranges that ``binade train --record`` wrote.
      dims: Values of symbolic dimensions that the policy's decisions are based on; the
        dimensions stay symbolic in the model.
      directory: The directory of the external weights of a model that is not a path.
      allow_links: Whether a weights file may have several hard links.
      fail_on_nonfinite: Whether to refuse weights that hold a NaN or an infinity.

    Returns:
      The converted model; external weights are loaded unless ``output`` is given.

    Raises:
      UsageError: If an argument is wrong.
      RejectedError: If there is no such file, it is not an ONNX model, or a name fits
        nothing.
      FileError: If the system refuses to read or write a file.
    """
    import onnx

    conversion = _core.OnnxConversion()
    if loss_scale is not None:
        if not _is_power(loss_scale):
            raise UsageError(
                f"loss_scale is a power of two from 2^-100 to 2^100, got {loss_scale}"
            )
        if dynamic_scale:
            raise UsageError("loss_scale and dynamic_scale exclude each other")
        set_option(conversion, "loss_scale", float(loss_scale))
    set_option(conversion, "dynamic_scale", dynamic_scale)
    conversion.ranges = os.fspath(ranges or "")
    options = _core.ImportOptions()
    set_option(options, "loss_output", loss_output)
    set_option(options, "allow_links", allow_links)
    set_option(options, "fail_on_nonfinite", fail_on_nonfinite)
    set_dims(options, dims)
    conversion.import_options = options
    types = as_mapping(io_types, "io_types are a dictionary, such as {'*': 'f16'}")
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="binade-"))
        path = stack.enter_context(_as_path(model, directory, folder))
        conversion.policy = stack.enter_context(policies.as_file(policy))
        written = os.path.join(folder, "converted.onnx") if output is None else output
        report = _core.convert_model(path, os.fspath(written), conversion, types)
        _log(os.path.basename(path), report)
        return onnx.load(os.fspath(written), load_external_data=output is None)


def _is_power(scale: object) -> bool:
    """Whether a number is a power of two from 2^-100 to 2^100."""
    if isinstance(scale, bool) or not isinstance(scale, (int, float)):
        return False
    return math.frexp(scale)[0] == 0.5 and abs(math.log2(scale)) <= 100


@contextlib.contextmanager
def _as_path(
    model: object, directory: str | os.PathLike | None, folder: str
) -> Iterator[str]:
    """Yields the path of the model's file; writes it to `folder` if it has none."""
    import onnx

    if isinstance(model, (str, os.PathLike)):
        yield os.fspath(model)
        return
    path = os.path.join(folder, "model.onnx")
    if isinstance(model, bytes) and directory is not None:
        try:
            model = onnx.load_model_from_string(model)
        except Exception as error:  # protobuf's, which has no public name.
            raise RejectedError(
                f"{path}: error: not an ONNX model", where=path
            ) from error
    if isinstance(model, onnx.ModelProto) and directory is not None:
        whole = onnx.ModelProto()
        whole.CopyFrom(model)
        onnx.load_external_data_for_model(whole, os.fspath(directory))
        model = whole
    with writing(path):
        pathlib.Path(path).write_bytes(serialize_model(model))
    yield path


def _log(name: str, report: _core.OnnxConversionReport) -> None:
    _LOG.info(
        "%s: %d nodes, %d of them narrow, %d casts added",
        name, report.nodes, report.narrow, report.casts,
    )  # fmt: skip
    scale, reason = report.loss_scale
    if reason:
        _LOG.info("%s: loss scale %g: %s", name, scale, reason)
    for held in report.held:
        _LOG.info("%s: kept in f32: %s", name, held)
    if report.left_whole:
        _LOG.warning("%s: left as it is: %s", name, report.left_whole)
    for node, reason in report.left_out:
        _LOG.info("%s: left in f32: node '%s': %s", name, node, reason)
    for limit in report.limits:
        _LOG.warning("%s: not as decided: %s", name, limit)
    for note in report.notes:
        _LOG.warning("%s: %s", name, note)
