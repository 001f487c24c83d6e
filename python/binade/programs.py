"""Entry points of an installed package for its executables ``binade`` and ``binade-run``.

The executables are in ``binade/native/bin``. A wheel of ``utils/build_wheel.sh`` also
contains their libraries and the linker for compiled kernels.
"""

from __future__ import annotations

import os
import pathlib
import sys
import sysconfig
from typing import NoReturn

from binade.errors import RejectedError

NATIVE = pathlib.Path(__file__).parent / "native"


def use_own_programs() -> None:
    """Sets ``BINADE_PROGRAMS`` and ``BINADE_LLD`` to the package's executables and linker
    if they exist and the variables are not set."""
    programs = NATIVE / "bin"
    if (programs / "binade").exists():
        os.environ.setdefault("BINADE_PROGRAMS", str(programs))
    if (programs / "ld.lld").exists():
        os.environ.setdefault("BINADE_LLD", str(programs / "ld.lld"))


def binade() -> NoReturn:
    """Replaces the process by ``binade``."""
    _become("binade")


def binade_run() -> NoReturn:
    """Replaces the process by ``binade-run``."""
    _become("binade-run")


def main() -> int:
    """Replaces the process by ``binade``, for ``python -m binade``.

    Returns:
      The exit code, if there is no such program.
    """
    if (NATIVE / "bin" / "binade").exists():
        binade()
    folder = os.environ.get("BINADE_PROGRAMS", "")
    try:
        os.execvp(os.path.join(folder, "binade"), ["binade", *sys.argv[1:]])
    except OSError:
        place = folder or "PATH"
        print(
            f"python -m binade: error: there is no program 'binade' in {place}; "
            "BINADE_PROGRAMS names the directory that has it",
            file=sys.stderr,
        )
    return RejectedError.exit_code


def _become(name: str) -> NoReturn:
    use_own_programs()
    # `binade runs` and `binade replay` are scripts of the package, which pip installs
    # to the same directory as this script, or as this Python.
    scripts = [
        os.path.dirname(os.path.abspath(sys.argv[0])),
        sysconfig.get_path("scripts"),
    ]
    os.environ["PATH"] = os.pathsep.join(
        [*scripts, *filter(None, [os.environ.get("PATH")])]
    )
    os.environ["BINADE_PROGRAMS"] = str(NATIVE / "bin")
    os.execv(NATIVE / "bin" / name, [name, *sys.argv[1:]])
