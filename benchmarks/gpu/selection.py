"""What a part runs: all rows or some, with all repetitions or fewer. run.py sets it in the
environment of its parts."""

from __future__ import annotations

import os
from collections.abc import Iterable

ROWS, ROUNDS = "BINADE_BENCHMARK_ROWS", "BINADE_BENCHMARK_ROUNDS"
QUICK = "BINADE_BENCHMARK_QUICK"
QUICK_ROUNDS = 8
TINY_ROUNDS = 2  # Of a simulator, whose times mean nothing.


def write(rows: Iterable[str], is_quick: bool, is_tiny: bool) -> dict[str, str]:
    """Returns the variables for a part that runs only `rows`, or all if there are none."""
    rounds = TINY_ROUNDS if is_tiny else QUICK_ROUNDS if is_quick else ""
    return {ROWS: ",".join(rows), ROUNDS: str(rounds), QUICK: "1" if is_quick else ""}


def is_wanted(row: str) -> bool:
    rows = os.environ.get(ROWS)
    return not rows or row in rows.split(",")


def is_quick() -> bool:
    """Whether to leave out peers that take long to compile."""
    return bool(os.environ.get(QUICK))


def count_rounds(rounds: int) -> int:
    """Returns how many of `rounds` repetitions to measure."""
    most = os.environ.get(ROUNDS)
    return min(rounds, int(most)) if most else rounds
