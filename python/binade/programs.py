"""The programs that an installed package has: ``binade`` and ``binade-run``.

They are in ``binade/native/bin``. A wheel of ``utils/build_wheel.sh`` has the libraries
that they need, and the linker that makes kernels.
"""

from __future__ import annotations

import os
import pathlib
import sys
from typing import NoReturn

NATIVE = pathlib.Path(__file__).parent / "native"


def use_own_programs() -> None:
    """Lets commands find the package's programs, and the compiler its linker, where it
    has them, unless ``BINADE_PROGRAMS`` and ``BINADE_LLD`` name others."""
    programs = NATIVE / "bin"
    if (programs / "binade").exists():
        os.environ.setdefault("BINADE_PROGRAMS", str(programs))
    if (programs / "ld.lld").exists():
        os.environ.setdefault("BINADE_LLD", str(programs / "ld.lld"))


def binade() -> NoReturn:
    """Becomes ``binade``."""
    _become("binade")


def binade_run() -> NoReturn:
    """Becomes ``binade-run``."""
    _become("binade-run")


def _become(name: str) -> NoReturn:
    use_own_programs()
    # `binade runs` and `binade replay` are scripts of the package, which pip puts
    # in the directory of this one.
    scripts = os.path.dirname(os.path.abspath(sys.argv[0]))
    os.environ["PATH"] = os.pathsep.join(
        [scripts, *filter(None, [os.environ.get("PATH")])]
    )
    os.environ["BINADE_PROGRAMS"] = str(NATIVE / "bin")
    os.execv(NATIVE / "bin" / name, [name, *sys.argv[1:]])
