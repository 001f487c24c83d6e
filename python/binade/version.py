"""The version of Binade. CMake and pyproject.toml read it from this file."""

import argparse

__version__ = "0.1.0"


def add_version(parser: argparse.ArgumentParser) -> None:
    """Adds ``--version``."""
    parser.add_argument(
        "--version",
        action="version",
        version=f"binade {__version__}",
        help="print the version and exit",
    )
