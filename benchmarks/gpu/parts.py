"""The parts of run.sh: what runs them, what they read, and how long they may take."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterable

DEVICE_SECONDS = 480  # All parts of a run together may take so long.
QUICK_SECONDS = 180  # The same with --quick.


@dataclasses.dataclass(frozen=True)
class Part:
    program: str
    seconds: int  # It is stopped after so many.
    folder: str = ""  # Of the artifacts; empty if it reads none.
    arguments: tuple[str, ...] = ()  # Of the program, before those that all have.
    isDefault: bool = True  # Others run only if they are named.
    # The same limit with --quick; 0 if the part is not run then.
    quick: int = 0
    # The only rows with --quick; empty for all.
    quick_rows: tuple[str, ...] = ()


# In the order in which they run: checks, then what the goals are about. The limits with
# --quick add up to QUICK_SECONDS; without it a run stops at DEVICE_SECONDS.
PARTS = {
    "conversions": Part("checks.py", 20, "conversions", ("conversions",)),
    "expansion": Part("checks.py", 20, "expansion", ("expansion",)),
    "records": Part("records.py", 45, "records", quick=20),
    "models": Part("checks.py", 45, "models", ("models",)),
    "steps": Part("whole.py", 240, "steps", quick=70,
                  quick_rows=("gpt2-bf16", "gpt2-coat")),
    "attention": Part("contractions.py", 60, "attention", ("attention",), quick=30),
    "head": Part("contractions.py", 60, "head", ("head",), quick=20),
    "kernels": Part("kernels.py", 135, "kernels", quick=40),
    "matmuls": Part("contractions.py", 40, "matmuls", ("matmuls",)),
    "launches": Part("launches.py", 90, "steps"),
    "statistics": Part("watched.py", 60, "statistics"),
    "loop": Part("loop.py", 90, "kernels", isDefault=False),
    "rates": Part("rates.py", 170, isDefault=False),
    "autotune": Part("autotune.py", 300, "steps", isDefault=False),
    "attention-counters": Part("counters.py", 90, "attention", ("attention",),
                               isDefault=False),
    "kernels-counters": Part("counters.py", 90, "kernels", ("kernels",), isDefault=False),
    "steps-counters": Part("counters.py", 150, "steps", ("steps",), isDefault=False),
}  # fmt: skip


def choose(names: Iterable[str], isQuick: bool) -> list[str]:
    """Returns those of the parts `names` that a run of no named parts has, in their order."""
    return [
        name
        for name, part in PARTS.items()
        if name in names and (part.quick if isQuick else part.isDefault)
    ]


def add_arguments(parser: argparse.ArgumentParser, default: str) -> None:
    """Adds the arguments that choose parts, and rows of them, to a command line."""
    parser.add_argument(
        "parts", nargs="*", type=parse_part, metavar="PART",
        help=f"parts (default: {default})",
    )  # fmt: skip
    parser.add_argument(
        "--only", type=parse_names, default=(), metavar="NAME,...",
        help="rows of these parts (default: all)",
    )  # fmt: skip


def parse_names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


def parse_part(name: str) -> str:
    if name not in PARTS:
        raise argparse.ArgumentTypeError(
            f"no part is called {name}; there are {', '.join(PARTS)}"
        )
    return name
