"""Files with options of ``binade train``, such as the ``run.yaml`` of a run, as arguments of
the commands that train or compile a model."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from binade.errors import RejectedError

_SUFFIXES = (".yaml", ".yml")


def expand(words: Sequence[str] | None, ignored: Sequence[str] = ()) -> list[str]:
    """Replaces a model that is a YAML file by the model and the options in this file.

    Args:
      words: The arguments of a command; None for those of the process. Options among them
        replace those of the file.
      ignored: Options that the command sets itself, such as ``--out``.

    Raises:
      RejectedError: If the file is missing or invalid.
    """
    words = list(sys.argv[1:] if words is None else words)
    if not words or not words[0].endswith(_SUFFIXES):
        return words
    given = {word.partition("=")[0] for word in words[1:]}
    options = _read(words[0])
    expanded = [str(options.pop("model"))]
    for key, value in options.items():
        if f"--{key}" not in given and f"--{key}" not in ignored:
            expanded += _list_words(key, value)
    return [*expanded, *words[1:]]


def _read(path: str) -> dict[str, Any]:
    try:
        options = yaml.load(Path(path).read_bytes(), yaml.BaseLoader)  # Only text.
    except OSError as error:
        raise RejectedError(f"{path}: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise RejectedError(f"{path}: {error}") from error
    if not isinstance(options, dict) or not all(
        isinstance(key, str) for key in options
    ):
        raise RejectedError(
            f"{path}: expected the options of a command, as run.yaml has them"
        )
    if not isinstance(options.get("model"), str):
        raise RejectedError(
            f"{path}: has no model: add a line such as 'model: model.onnx'"
        )
    return options


def _list_words(key: str, value: Any) -> Iterator[str]:
    """The words of one option; ``binade train`` checks them."""
    if isinstance(value, dict):
        yield from (f"--{key}={name}={one}" for name, one in value.items())
    elif isinstance(value, list):
        yield from (f"--{key}={one}" for one in value)
    elif value == "true":
        yield f"--{key}"
    elif value != "false":
        yield f"--{key}={value}"
