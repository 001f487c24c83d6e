"""What goes wrong, with the exit code that the ``binade`` drivers have for it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

_LOG = logging.getLogger("binade")


class BinadeError(Exception):
    """An error of Binade; as text, the whole diagnostic.

    Attributes:
      exit_code: What a ``binade`` command ends with for it (docs/ExitCodes.md).
      where: The file that it is about; empty where there is none.
      part: The place in that file: ``node '/fc/Gemm' (Gemm)``.
      message: What was found, and what was expected.
      notes: What helps, and what follows from it.
    """

    exit_code = 70

    def __init__(
        self,
        text: str,
        *,
        where: str = "",
        part: str = "",
        message: str = "",
        notes: Sequence[str] = (),
    ) -> None:
        super().__init__(text)
        self.where = where
        self.part = part
        self.message = message or text
        self.notes = list(notes)


class UsageError(BinadeError, ValueError):
    """An argument that cannot be understood."""

    exit_code = 2


class RejectedError(BinadeError):
    """An input that cannot be used; the text says what to do about it."""

    exit_code = 3


class NumericError(BinadeError):
    """Numbers that training cannot go on from."""

    exit_code = 4


class AlarmError(NumericError):
    """Alarms of a step, where they are to stop training; the step itself is done.

    Attributes:
      alarms: What was found.
      policy: Under which the step's policy would have training go on; empty for none.
    """

    def __init__(self, alarms: Sequence[Any], policy: str = "") -> None:
        super().__init__("\n".join(map(str, alarms)))
        self.alarms = list(alarms)
        self.policy = policy


class FileError(BinadeError):
    """A file that the system does not read or write."""

    exit_code = 5


class DeviceError(BinadeError):
    """A device that is not there, or failed."""

    exit_code = 6


class ResourceError(BinadeError):
    """Too little memory or time, or another limit."""

    exit_code = 7


class InternalError(BinadeError):
    """A bug in Binade; please report it with what led to it."""

    exit_code = 70


_CLASSES = {
    kind.exit_code: kind
    for kind in (
        UsageError,
        RejectedError,
        NumericError,
        FileError,
        DeviceError,
        ResourceError,
        InternalError,
    )
}


def make_error(
    text: str, exit_code: int, where: str, part: str, message: str, notes: Sequence[str]
) -> BinadeError:
    """The error that the extension raises, of the class of its exit code."""
    error = _CLASSES.get(exit_code, BinadeError)(
        text, where=where, part=part, message=message, notes=notes
    )
    error.exit_code = exit_code
    return error


def warn(text: str) -> None:
    """Logs a warning of the compiler or the runtime."""
    _LOG.warning("%s", text)
