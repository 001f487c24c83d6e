"""Momentum in 8 bits by a linear code book: with Muon, and with AdamW, whose second moments it
rounds to 0."""

from __future__ import annotations

import math
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
        losses = [record["loss"] for record in records]
        finished = [loss for loss in losses if math.isfinite(loss)]
        rows.append([
            optimizer, kind, f"{len(losses) - len(finished)} of {seeds}",
            f"{statistics.median(finished):.4f}" if finished else "",
            f"{min(finished):.4f} to {max(finished):.4f}" if finished else "",
        ])  # fmt: skip
    print(table(["optimizer", "states", "stopped by their numbers", "held-out loss, median",
                 "of seeds"], rows))  # fmt: skip
