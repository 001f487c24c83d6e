"""The version of Binade. CMake and pyproject.toml read it from this file."""

import argparse
import subprocess
from typing import Any

__version__ = "0.1.0"


def describe_version() -> str:
    """Returns the version, and in more lines what ``binade --version`` adds: the commit and
    the versions of libraries, if the program is found."""
    from binade.tracing import find_program

    own = f"binade {__version__}"
    try:
        done = subprocess.run(
            [find_program("binade"), "--version"],
            check=True,
            capture_output=True,
            text=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return own
    lines = done.stdout.splitlines()
    return "\n".join([own, *lines[lines[:1] == [own] :]])


class _PrintVersion(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print(describe_version())
        parser.exit()


def add_version(parser: argparse.ArgumentParser) -> None:
    """Adds ``-V`` and ``--version``."""
    parser.add_argument(
        "-V",
        "--version",
        nargs=0,
        action=_PrintVersion,
        default=argparse.SUPPRESS,
        help="print the versions of Binade and its libraries, and exit",
    )
