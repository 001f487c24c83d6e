"""Exception classes, with the exit codes that the ``binade`` drivers use for them."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
from collections.abc import Iterator, Sequence
from typing import Any

_LOG = logging.getLogger("binade")


class BinadeError(Exception):
    """The base class of Binade's errors; ``str(error)`` is the whole diagnostic.

    Attributes:
      exit_code: The exit code of a ``binade`` command for this error (docs/ExitCodes.md).
      where: The file that the error is about, or empty.
      part: The place in that file: ``node '/fc/Gemm' (Gemm)``.
      message: What was found, and what was expected.
      notes: Remedies and consequences.
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
    """An input that is invalid or does not exist; the message says what to do."""

    exit_code = 3


class NumericError(BinadeError):
    """Values from which training cannot continue."""

    exit_code = 4


class AlarmError(NumericError):
    """A step raised alarms and their action is ``stop``; its update has been applied.

    Attributes:
      alarms: The alarms, as ``binade.Alarm``.
      policy: The policy with which the step's policy says to continue; may be empty.
    """

    def __init__(self, alarms: Sequence[Any], policy: str = "") -> None:
        super().__init__("\n".join(map(str, alarms)))
        self.alarms = list(alarms)
        self.policy = policy


class FileError(BinadeError):
    """A file that the system refuses to read or write: no permission, a full disk, no
    directory to write into. A file to read that does not exist is a
    ``RejectedError``."""

    exit_code = 5


class DeviceError(BinadeError):
    """A device that does not exist, or failed."""

    exit_code = 6


class ResourceError(BinadeError):
    """Too little memory or time, or another limit."""

    exit_code = 7


class PeerError(BinadeError):
    """Another process of a distributed run failed, disagrees, or does not answer."""

    exit_code = 9


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
        PeerError,
        InternalError,
    )
}


def make_error(
    text: str, exit_code: int, where: str, part: str, message: str, notes: Sequence[str]
) -> BinadeError:
    """Returns an error of the class that has the exit code; the extension raises it."""
    error = _CLASSES.get(exit_code, BinadeError)(
        text, where=where, part=part, message=message, notes=notes
    )
    error.exit_code = exit_code
    return error


# The same lists as in ``systemError`` of the compiler and the runtime.
_NO_SUCH_PATH = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
_NO_RESOURCES = (errno.ENOMEM, errno.EMFILE, errno.ENFILE)


def classify_system_error(error: OSError) -> type[BinadeError]:
    """Returns the class of the error that the compiler raises for a failed system call."""
    if error.errno in _NO_SUCH_PATH:
        return RejectedError
    return ResourceError if error.errno in _NO_RESOURCES else FileError


def _make_system_error(
    kind: type[BinadeError], path: str | os.PathLike[str], attempt: str, error: OSError
) -> BinadeError:
    where = os.fspath(path)
    message = f"{attempt}: {error.strerror or error}"
    return kind(f"{where}: error: {message}", where=where, message=message)


@contextlib.contextmanager
def reading(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turns an OSError that is raised inside into an error about the file at ``path``.

    Raises:
      RejectedError: If the path leads to no file, or to a directory.
      FileError: If the system refuses to read it.
    """
    try:
        yield
    except IsADirectoryError as error:
        raise _make_system_error(RejectedError, path, "cannot read", error) from error
    except OSError as error:
        kind = classify_system_error(error)
        raise _make_system_error(kind, path, "cannot read", error) from error


@contextlib.contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turns an OSError into an error about a file that is being written. A missing
    directory is a FileError here, because no input is wrong.

    Raises:
      FileError: If the system refuses to write it.
    """
    try:
        yield
    except OSError as error:
        kind = classify_system_error(error)
        kind = FileError if kind is RejectedError else kind
        raise _make_system_error(kind, path, "cannot write", error) from error


def warn(text: str) -> None:
    """Logs a warning of the compiler or the runtime."""
    _LOG.warning("%s", text)
