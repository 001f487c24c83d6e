#!/usr/bin/env python3
"""Prints a table of training runs, one row per run directory.

usage: compare_runs.py RUN...

Reads metrics.jsonl (loss, time and skipped steps per step) and run.json (policy, bytes
of the arena, ops and casts per format), which `binade train` writes.
"""

from __future__ import annotations

import json
import pathlib
import statistics
import sys


def describe(run: pathlib.Path) -> list[str]:
    """The cells of one row."""
    steps = [
        json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()
    ]
    about = json.loads((run / "run.json").read_text())
    # The first steps fill caches.
    times = [step["ms"] for step in steps[len(steps) // 10 :]]
    last = [step["loss"] for step in steps[-10:] if step["loss"] is not None]
    formats = ", ".join(f"{n} {name}" for name, n in sorted(about["ops"].items()))
    casts = ", ".join(f"{n} to {name}" for name, n in sorted(about["casts"].items()))
    return [
        about["policy"],
        f"{statistics.fmean(last):.4f}",
        f"{statistics.median(times):.0f}",
        f"{about['arena_bytes'] / 2**20:.0f}",
        formats,
        casts or "none",
        str(sum(step["skipped"] for step in steps)),
    ]


def main() -> None:
    header = ["policy", "loss", "ms/step", "MiB", "ops", "casts", "skipped"]
    rows = [header, *(describe(pathlib.Path(run)) for run in sys.argv[1:])]
    widths = [max(len(row[i]) for row in rows) for i in range(len(header))]
    print()
    for i, row in enumerate(rows):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
        if i == 0:
            print("  ".join("-" * width for width in widths))
    print("\nloss: mean of the last 10 steps; MiB: peak of all tensors of a step")


if __name__ == "__main__":
    main()
