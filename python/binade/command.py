"""Shared by the commands ``python -m binade.*``: imports by name, reports of errors."""

from __future__ import annotations

import faulthandler
import importlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

from binade.errors import (
    BinadeError,
    NumericError,
    RejectedError,
    classify_system_error,
)
from binade.parser import suggest

# Exit codes of the ``binade`` drivers that Python code compares with.
DIFFERENT = 1
REJECTED = RejectedError.exit_code
NUMERIC = NumericError.exit_code


def load_object(reference: str) -> Any:
    """Imports the object that ``package.module:name`` names.

    Modules are looked for in the working directory too, as ``python -m`` does.

    Args:
      reference: For example ``"examples.mlp:make_model"``; dots after the colon
        reach into classes.

    Raises:
      RejectedError: If the text, the module or the name is wrong.
    """
    module_name, colon, path = reference.partition(":")
    if not (module_name and colon and path):
        raise RejectedError(
            f"'{reference}' does not name an object: write package.module:name"
        )
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or module_name
        if module_name == missing or module_name.startswith(missing + "."):
            raise RejectedError(
                f"there is no module '{module_name}'; it is looked for in the "
                "working directory and in PYTHONPATH"
            ) from error
        raise RejectedError(
            f"module '{module_name}' needs module '{missing}', which is not installed"
        ) from error
    for name in path.split("."):
        if not hasattr(found, name):
            near = suggest(name, vars(found)) if hasattr(found, "__dict__") else ""
            raise RejectedError(f"module '{module_name}' has no '{path}'{near}")
        found = getattr(found, name)
    return found


def run_command(
    name: str,
    body: Callable[[Sequence[str] | None], int | None],
    arguments: Sequence[str] | None = None,
) -> int:
    """Runs a command and turns its errors into one line and an exit code.

    Without an error the code is what `body` returns, 0 for None. A signal that means a
    bug is reported with the traceback before it ends the process.
    If the reader of the output has closed its pipe, as ``| head`` does, the process ends
    by SIGPIPE without a message.
    """
    if sys.__stderr__ is not None:
        faulthandler.enable(sys.__stderr__)
    try:
        try:
            return _run(name, body, arguments)
        finally:
            # An error of writing is raised here, not while the interpreter shuts down.
            sys.stdout.flush()
    except BrokenPipeError:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGPIPE)
        raise


def _run(
    name: str,
    body: Callable[[Sequence[str] | None], int | None],
    arguments: Sequence[str] | None,
) -> int:
    try:
        return body(arguments) or 0
    except BrokenPipeError:
        raise
    except BinadeError as error:
        # The compiler's diagnostics name their file.
        text = str(error)
        is_diagnostic = ": error: " in text.partition("\n")[0]
        print(text if is_diagnostic else f"{name}: error: {text}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"{name}: error: {where}{error.strerror or error}", file=sys.stderr)
        return classify_system_error(error).exit_code
    except KeyboardInterrupt:
        print(f"{name}: stopped", file=sys.stderr)
        return 130
