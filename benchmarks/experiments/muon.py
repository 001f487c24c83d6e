"""Momentum in 8 bits by a linear code book: with Muon, and with AdamW, whose second moments it
rounds to 0."""

from __future__ import annotations

import statistics

from training import COURSE, MODEL, Runs, find_text, table

STEPS = 60
RATES = {"muon": "2e-2", "adamw": "2e-3"}
STATES = {"32 bits": "f32", "8 bits, linear": "*:linear8"}


def run(runs: Runs, seeds: int) -> None:
    cells = [(optimizer, kind) for optimizer in RATES for kind in STATES]
    trained = runs.train(MODEL, [
        [*find_text(runs.out), *COURSE, "--policy", "bf16-amp", "--optimizer", optimizer,
         "--lr", RATES[optimizer], "--states", STATES[kind], "--steps", str(STEPS),
         "--seed", str(seed)]
        for optimizer, kind in cells for seed in range(seeds)
    ])  # fmt: skip
    rows = []
    for i, (optimizer, kind) in enumerate(cells):
        records = trained[i * seeds : (i + 1) * seeds]
        # The loss of a run that stopped is that before its first step.
        losses = [record["loss"] for record in records if record["code"] == 0]
        ends = [len(record["training"]) for record in records if record["code"]]
        rows.append([
            f"`{optimizer}`", kind, f"{len(losses)} of {seeds}",
            f"{statistics.median(losses):.4f}" if losses else "",
            f"{min(losses):.4f} to {max(losses):.4f}" if losses else "",
            f"{min(ends)} to {max(ends)}" if ends else "",
        ])  # fmt: skip
    print(table(["optimizer", "states", "runs that end", "held-out loss, median", "of seeds",
                 "others stop after steps"], rows))  # fmt: skip
