"""Values of options that several commands take."""

from __future__ import annotations

import argparse


def split_names(text: str) -> list[str]:
    """P,Q,..."""
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise argparse.ArgumentTypeError(
            f"expected names with commas between, got '{text}'"
        )
    return parts


def split_numbers(text: str) -> list[int]:
    """N,M,..."""
    try:
        return [int(part) for part in split_names(text)]
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"expected numbers with commas between, got '{text}'"
        ) from error


def parse_count(text: str) -> int:
    """A number from 0 on."""
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"expected a number from 0 on, got '{text}'")
    return int(text)


def parse_positive(text: str) -> int:
    """A number from 1 on."""
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"expected a number from 1 on, got '{text}'")
    return int(text)
