"""Compares optimizers, each with its best learning rate: losses and memory of states."""

from __future__ import annotations

import math
import statistics

from training import COURSE, MODEL, Runs, describe, find_text, get_memory, table

STEPS = 150
# Rules with rates to choose from.
RATES = {
    "adamw": ["1e-3", "2e-3", "4e-3"],
    "lion": ["4e-4", "8e-4", "1.6e-3"],
    "tiger": ["1e-2", "2e-2", "4e-2"],
    "lamb": ["1e-2", "2e-2", "4e-2"],
    "muon": ["1e-2", "2e-2", "4e-2"],
    "sgd": ["0.03", "0.1", "0.3"],
}
MORE = {"sgd": ["--set", "momentum=0.9"]}
# Whose states accumulate the gradients of several batches.
IN_MOMENTUM = ["tiger", "sgd"]


def run(runs: Runs, seeds: int) -> None:
    cells = [(rule, rate) for rule, rates in RATES.items() for rate in rates]
    trained = runs.train(MODEL, [
        [*find_text(runs.out), *COURSE, "--policy", "bf16-amp", "--optimizer", rule,
         *MORE.get(rule, []), "--lr", rate, "--steps", str(STEPS), "--seed", str(seed)]
        for rule, rate in cells for seed in range(seeds)
    ])  # fmt: skip
    losses: dict[tuple[str, str], list[float]] = {}
    for i, cell in enumerate(cells):
        found = [record["loss"] for record in trained[i * seeds : (i + 1) * seeds]]
        losses[cell] = [math.inf if math.isnan(loss) else loss for loss in found]
    middle = {cell: statistics.mean(found) for cell, found in losses.items()}
    rows = []
    for rule, rates in RATES.items():
        rate = min(rates, key=lambda x: middle[rule, x])
        options = ["--policy", "bf16-amp", "--optimizer", rule, *MORE.get(rule, [])]
        one = get_memory(runs.out, *options)
        options += ["--accumulate-in-momentum"] if rule in IN_MOMENTUM else []
        four = get_memory(runs.out, *options, "--accumulate", "4")
        kept = four["state"] + four["gradient"]
        rows.append([
            f"`{rule}`", rate, describe(losses[rule, rate]),
            ", ".join(f"{middle[rule, x]:.3f} with {x}" for x in rates if x != rate),
            f"{one['state']:.1f}", f"{kept:.1f}",
        ])  # fmt: skip
    rows.sort(key=lambda row: float(row[2].split()[0]))
    print(table(["optimizer", "rate", "held-out loss", "spread", "other rates",
                 "states MiB", "states and sums of 4 batches MiB"], rows))  # fmt: skip
