"""Arguments of Python as options of the compiler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from binade import _core
from binade.errors import UsageError


def has_option(owner: object, name: str) -> bool:
    """Whether an object of the extension has data of that name: methods are none."""
    return isinstance(getattr(type(owner), name, None), property)


def set_option(owner: object, name: str, value: object) -> None:
    """Sets an option of the compiler; one that is a list takes a single name, too.

    Raises:
      UsageError: If the value has another type.
    """
    value = list(value) if isinstance(value, tuple) else value
    for form in (value, [value]):
        try:
            setattr(owner, name, form)
            return
        except TypeError:
            pass
    raise UsageError(f"option '{name}' cannot be {value!r}")


def set_dims(options: _core.ImportOptions, dims: Mapping[str, int] | None) -> None:
    """Sets the values of symbolic dimensions.

    Raises:
      UsageError: If they are no dictionary of whole numbers.
    """
    try:
        options.set_dims(dict(dims or {}))
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"dims are a dictionary, such as {{'batch': 64}}, got {dims!r}"
        ) from error


def as_texts(value: object, what: str) -> list[str]:
    """One text, or several.

    Raises:
      UsageError: If it is neither.
    """
    if isinstance(value, str):
        return [value]
    if isinstance(value, Sequence) and all(isinstance(one, str) for one in value):
        return list(value)
    raise UsageError(f"{what} is a text or a list of texts, got {value!r}")


def as_mapping(value: Any, what: str) -> dict[str, str]:
    """A dictionary of texts, of which ``what`` says an example in errors.

    Raises:
      UsageError: If it is none.
    """
    given = value if value is not None else {}
    if not isinstance(given, Mapping) or not all(
        isinstance(text, str) for pair in given.items() for text in pair
    ):
        raise UsageError(f"{what}, got {value!r}")
    return dict(given)
