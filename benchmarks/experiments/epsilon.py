"""Adam's epsilon, and its moments in f16: squares of small gradients are 0 there."""

from __future__ import annotations

import json
from collections.abc import Sequence

from training import (
    COURSE,
    MODEL,
    ROOT,
    Runs,
    find_text,
    shorten,
    table,
    write_records,
)

EPSILONS = ["1e-8", "1e-7", "1e-5"]
STATES = ["f32", "bf16", "f16"]
STEPS = 40
RESULTS = ROOT / "docs/results/epsilon.json"


def run(runs: Runs, seeds: int) -> None:
    cells = [(states, eps) for states in STATES for eps in EPSILONS]
    found = runs.train(MODEL, [
        [*find_text(runs.out), *COURSE, "--policy", "fp16-amp", "--states", states,
         "--lr", "2e-3", "--set", f"eps={eps}", "--steps", str(STEPS), "--seed", str(seed)]
        for states, eps in cells for seed in range(seeds)
    ])  # fmt: skip
    records = [
        {
            "states": states,
            "eps": eps,
            "losses": [shorten(one["loss"]) for one in found[i * seeds :][:seeds]],
        }
        for i, (states, eps) in enumerate(cells)
    ]
    write_records(RESULTS, records)
    print(make_table(records))


def read() -> list[dict]:
    """Returns the results: a record for each format and epsilon, with a loss per seed."""
    return json.loads(RESULTS.read_text())


def make_table(records: Sequence[dict]) -> str:
    """Returns the table of docs/Underflow.md."""

    def show(loss: float | None) -> str:
        return "nan" if loss is None else f"{loss:.3f}"

    return table(["moments", "eps", "held-out losses"], [
        [f"`{one['states']}`", one["eps"], ", ".join(map(show, one["losses"]))]
        for one in records
    ])  # fmt: skip
