"""Converts Python arguments to the compiler's options."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from binade import _core, policies
from binade.errors import UsageError
from binade.parser import suggest


@dataclass(frozen=True)
class Schedules:
    """Schedules of hyper-parameters, as the command line takes them."""

    texts: list[str] = field(default_factory=list)  # Values of --schedule.
    warmup: str = "0"  # The value of --warmup.
    steps: int = 0  # The number of steps; 0 if it is unknown.


def has_option(owner: object, name: str) -> bool:
    """Whether an object of the extension has a property of that name."""
    return isinstance(getattr(type(owner), name, None), property)


def set_option(owner: object, name: str, value: object) -> None:
    """Sets an option of the compiler; a list option accepts a single value as well.

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
      UsageError: If they are not a dictionary of whole numbers.
    """
    try:
        options.set_dims(dict(dims or {}))
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"dims are a dictionary, such as {{'batch': 64}}, got {dims!r}"
        ) from error


def as_texts(value: object, what: str) -> list[str]:
    """Returns a list of strings from one string or a sequence of strings.

    Raises:
      UsageError: If the value is neither.
    """
    if isinstance(value, str):
        return [value]
    if isinstance(value, Sequence) and all(isinstance(one, str) for one in value):
        return list(value)
    raise UsageError(f"{what} is a text or a list of texts, got {value!r}")


def as_mapping(value: Any, what: str) -> dict[str, str]:
    """Returns a dictionary of strings; None is empty. ``what`` begins the error message.

    Raises:
      UsageError: If it is not a dictionary.
    """
    given = value if value is not None else {}
    if not isinstance(given, Mapping) or not all(
        isinstance(text, str) for pair in given.items() for text in pair
    ):
        raise UsageError(f"{what}, got {value!r}")
    return dict(given)


@contextlib.contextmanager
def make_options(
    policy: str | os.PathLike | Mapping[str, Any],
    threads: int,
    given: Mapping[str, Any],
) -> Iterator[tuple[_core.ImportOptions, _core.CompileOptions]]:
    """Yields the compiler's options for Python arguments. A policy that is a dictionary
    is in a temporary file until the context ends.

    Raises:
      UsageError: If there is no such option, or it has another type.
    """
    choices = dict(given, threads=threads)
    choices["settings"] = _as_assignments(choices.get("settings"))
    choices["groups"] = [
        f"{glob}:{';'.join(_as_assignments(values))}"
        for glob, values in (choices.get("groups") or {}).items()
    ]
    choices["states"] = as_texts(choices.get("states") or [], "states")
    if choices.get("recompute_matmuls") and not choices.get("activation_memory"):
        raise UsageError(
            "recompute_matmuls needs activation_memory, the limit that it helps to meet"
        )
    with policies.as_file(policy) as choices["policy"]:
        options = (_core.ImportOptions(), _core.CompileOptions())
        for name, value in choices.items():
            owner = next((one for one in options if has_option(one, name)), None)
            if owner is None:
                names = [
                    known
                    for one in options
                    for known in dir(one)
                    if has_option(one, known)
                ]
                raise UsageError(f"there is no option '{name}'{suggest(name, names)}")
            set_option(owner, name, value)
        yield options


def _as_assignments(values: Mapping[str, float | str] | None) -> list[str]:
    if not isinstance(values or {}, Mapping):
        raise UsageError(
            f"hyper-parameters are a dictionary, such as {{'lr': 3e-4}}, got {values!r}"
        )
    return [f"{name}={value}" for name, value in (values or {}).items()]


def as_schedules(schedule: object, warmup: object, steps: object) -> Schedules:
    """Returns the schedules of a step from the arguments of ``compile``.

    Raises:
      UsageError: If `schedule` is neither a string nor a dictionary of strings, `warmup`
        neither a count nor a string, or `steps` no positive integer.
    """
    if isinstance(schedule, str):
        texts = [schedule]
    else:
        given = as_mapping(
            schedule,
            "a schedule is a name, such as 'cosine', or a dictionary of names and "
            "expressions, such as {'lr': 'base * cosine(step, steps)'}",
        )
        texts = [f"{name}={text}" for name, text in given.items()]
    if isinstance(warmup, bool) or not isinstance(warmup, (int, np.integer, str)):
        raise UsageError(
            f"warmup is a number of steps or a percentage such as '5%', got {warmup!r}"
        )
    if steps is not None and (
        isinstance(steps, bool) or not isinstance(steps, (int, np.integer)) or steps < 1
    ):
        raise UsageError(f"steps is a whole number from 1 on, got {steps!r}")
    count = 0 if steps is None else int(steps)  # type: ignore[call-overload]
    return Schedules(texts, str(warmup), count)


def check_seed(seed: object) -> None:
    """Checks that a seed is an unsigned 64-bit integer.

    Raises:
      UsageError: If it is not.
    """
    if not isinstance(seed, (int, np.integer)) or not 0 <= seed < 1 << 64:
        raise UsageError(f"a seed is a whole number from 0 to 2^64 - 1, got {seed!r}")
