"""Compares policies in 4 and 8 bits with bf16-amp by paired seeds.

Runs with the same seed see the same data in the same order and begin with the same weights, so
that the difference between two policies varies less than the loss does between seeds.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from training import COURSE, MODEL, Runs, find_text, table

BASE = "bf16-amp"
POLICIES = [
    BASE,
    "fp8-current",
    "mxfp8",
    "mxfp4",
    "nvfp4",
    "nvfp4-four-six",
    "quartet2",
]
STEPS, RATE = 60, 2e-3


def describe_gaps(gaps: Sequence[float]) -> list[str]:
    """The mean of paired differences, its standard error, and their ratio."""
    mean = statistics.mean(gaps)
    error = statistics.stdev(gaps) / math.sqrt(len(gaps))
    return [f"{mean:+.2f}", f"{error:.2f}", f"{mean / error:+.1f}"]


def run(runs: Runs, seeds: int) -> None:
    trained = runs.train(MODEL, [
        [*find_text(runs.out), *COURSE, "--policy", policy, "--lr", f"{RATE:g}", "--clip", "1",
         "--steps", str(STEPS), "--seed", str(seed)]
        for seed in range(seeds) for policy in POLICIES
    ])  # fmt: skip
    losses = {
        policy: [record["loss"] for record in trained[i :: len(POLICIES)]]
        for i, policy in enumerate(POLICIES)
    }
    rows = []
    for policy in POLICIES:
        row = [f"`{policy}`", f"{statistics.mean(losses[policy]):.4f}"]
        if seeds > 1:
            row.append(f"{statistics.stdev(losses[policy]):.4f}")
            gaps = [100 * (x / y - 1) for x, y in zip(losses[policy], losses[BASE])]
            row += describe_gaps(gaps) if policy != BASE else ["", "", ""]
        rows.append(row)
    head = ["policy", "held-out loss", "deviation of seeds", "gap, % of loss",
            "standard error", "gap / error"]  # fmt: skip
    print(f"{seeds} seeds, {STEPS} steps\n")
    print(table(head[: len(rows[0])], rows))
