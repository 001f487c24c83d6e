"""Parsers for option values that several commands share, and for commands that runs record."""

from __future__ import annotations

import argparse
from collections.abc import Sequence


def split_names(text: str) -> list[str]:
    """Parses names separated by commas: ``P,Q,...``."""
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise argparse.ArgumentTypeError(
            f"expected names with commas between, got '{text}'"
        )
    return parts


def split_numbers(text: str) -> list[int]:
    """Parses integers separated by commas: ``N,M,...``."""
    try:
        return [int(part) for part in split_names(text)]
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"expected numbers with commas between, got '{text}'"
        ) from error


def parse_count(text: str) -> int:
    """Parses an integer that is at least 0."""
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"expected a number from 0 on, got '{text}'")
    return int(text)


def parse_positive(text: str) -> int:
    """Parses an integer that is at least 1."""
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"expected a number from 1 on, got '{text}'")
    return int(text)


def find_value(words: Sequence[str], option: str) -> str | None:
    """Returns the last value that a command has for an option, or None."""
    found = None
    for word, follows in zip(words, [*words[1:], ""]):
        if word == option:
            found = follows
        elif word.startswith(option + "="):
            found = word.partition("=")[2]
    return found
