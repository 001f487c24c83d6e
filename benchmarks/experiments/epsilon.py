"""Adam's epsilon, and its moments in f16: squares of small gradients are 0 there."""

from __future__ import annotations

from training import COURSE, MODEL, Runs, find_text, table

EPSILONS = ["1e-8", "1e-7", "1e-5"]
STATES = ["f32", "bf16", "f16"]
STEPS = 40


def run(runs: Runs, seeds: int) -> None:
    cells = [(states, eps) for states in STATES for eps in EPSILONS]
    found = runs.train(MODEL, [
        [*find_text(runs.out), *COURSE, "--policy", "fp16-amp", "--states", states,
         "--lr", "2e-3", "--set", f"eps={eps}", "--steps", str(STEPS), "--seed", str(seed)]
        for states, eps in cells for seed in range(seeds)
    ])  # fmt: skip
    rows = []
    for i, (states, eps) in enumerate(cells):
        losses = [record["loss"] for record in found[i * seeds : (i + 1) * seeds]]
        rows.append([f"`{states}`", eps, ", ".join(f"{loss:.3f}" for loss in losses)])
    print(table(["moments", "eps", "held-out losses"], rows))
