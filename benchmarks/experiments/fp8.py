"""Compares the loss of FP8 policies with that of bf16-amp."""

from __future__ import annotations

import pathlib
import statistics

from training import COURSE, MODEL, Runs, describe, find_text, get_memory, table

BASE = "bf16-amp"
# OLMo-1B, training loss against that in BF16 (COAT, table 3): Transformer Engine and COAT.
PUBLISHED = {"fp8-current": 3.001 / 2.995 - 1, "coat": 3.008 / 2.995 - 1}
POLICIES = [
    BASE, "fp8-current", "fp8-delayed", "fp8-block", "mxfp8", "fp8-lm", "coat",
]  # fmt: skip


def run(runs: Runs, seeds: int) -> None:
    compare(runs, MODEL, POLICIES, 2e-3, 150, seeds)


def compare(runs: Runs, model: pathlib.Path, policies: list[str], rate: float,
            steps: int, seeds: int, window: int = 128) -> None:  # fmt: skip
    """Prints a line for each policy, of which the first is the baseline of the others."""
    trained = runs.train(model, [
        [*find_text(runs.out, window), *COURSE, "--policy", policy, "--lr", f"{rate:g}",
         "--steps", str(steps), "--seed", str(seed)]
        for policy in policies for seed in range(seeds)
    ])  # fmt: skip
    losses = {
        policy: [record["loss"] for record in trained[i * seeds : (i + 1) * seeds]]
        for i, policy in enumerate(policies)
    }
    rows = []
    for policy in policies:
        gaps = [100 * (x / y - 1) for x, y in zip(losses[policy], losses[BASE])]
        memory = get_memory(runs.out, "--policy", policy, model=model)
        published = PUBLISHED.get(policy)
        rows.append([
            f"`{policy}`", describe(losses[policy]),
            f"{statistics.mean(gaps):+.2f} ({min(gaps):+.2f} to {max(gaps):+.2f})"
            if policy != BASE else "",
            f"{100 * published:+.2f}" if published else "",
            f"{memory['saved']:.1f}", f"{memory['state']:.1f}",
        ])  # fmt: skip
    print(table(["policy", "held-out loss", "spread", "gap, % of loss", "published",
                 "saved MiB", "states MiB"], rows))  # fmt: skip
