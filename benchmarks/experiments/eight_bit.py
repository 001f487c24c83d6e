"""The ablation of 8-bit AdamW by Dettmers et al. (2022), over a grid of settings, and how
much 8-bit and 32-bit states mind each setting."""

from __future__ import annotations

import math
import pathlib
import statistics

from training import COURSE, MODEL, Runs, find_text, table

STEPS = 60
FORMATS = pathlib.Path(__file__).with_name("formats")
# Each row has what the row above has, and more; `*` are all parameters, embeddings and
# small ones, too. With table 3 of the paper: per cent of unstable runs, and perplexity.
WIDE, NARROW = "32 bits", "+ 32 bits for embeddings and small ones"
ROWS = {
    WIDE: (["--states", "f32"], "0", "16.7"),
    "8 bits, linear": (["--states", f"*:{FORMATS}/linear8-16384.yaml"], "90", "253.0"),
    "+ dynamic": (["--states", f"*:{FORMATS}/dyn8-16384.yaml"], "10", "18.6"),
    "+ in blocks of 2048": (["--states", "*:dyn8-2048"], "0", "16.8"),
    NARROW: (["--states", "dyn8-2048"], "", ""),
    "+ stable embedding": (["--states", "dyn8-2048", "--stable-embedding"], "0", "16.4"),
    "32 bits with stable embedding": (
        ["--states", "f32", "--stable-embedding"], "0", "16.3",
    ),
}  # fmt: skip
SETTINGS = {"lr": "2e-3", "beta1": "0.9", "beta2": "0.999", "eps": "1e-8"}
GRID = [
    {}, {"lr": "1e-3"}, {"lr": "4e-3"}, {"beta1": "0.87"}, {"beta1": "0.93"},
    {"beta2": "0.99"}, {"beta2": "0.98"}, {"eps": "1e-7"}, {"eps": "1e-6"},
]  # fmt: skip
# Above this much of the 32-bit loss with the same settings a run has not learned.
WORSE = 1.1


def run(runs: Runs, seeds: int) -> None:
    cells = [(kind, place) for kind in ROWS for place in range(len(GRID))]
    trained = runs.train(MODEL, [
        [*find_text(runs.out), *COURSE, "--policy", "bf16-amp", *ROWS[kind][0],
         *(word for name, value in (SETTINGS | GRID[place]).items()
           for word in ("--set", f"{name}={value}")),
         "--steps", str(STEPS), "--seed", str(seed)]
        for kind, place in cells for seed in range(seeds)
    ])  # fmt: skip
    losses: dict[tuple[str, int], list[float]] = {}
    for i, cell in enumerate(cells):
        found = [record["loss"] for record in trained[i * seeds : (i + 1) * seeds]]
        losses[cell] = [math.inf if math.isnan(loss) else loss for loss in found]
    middle = {cell: statistics.median(found) for cell, found in losses.items()}

    rows = []
    for kind, (_, unstable, perplexity) in ROWS.items():
        bad = sum(
            loss > WORSE * middle[WIDE, place]
            for place in range(len(GRID)) for loss in losses[kind, place]
        )  # fmt: skip
        usual = losses[kind, 0]
        rows.append([
            kind, f"{100 * bad / len(GRID) / seeds:.0f} %", f"{unstable} %".lstrip(" %"),
            f"{math.exp(statistics.median(usual)):.2f}",
            f"{math.exp(min(usual)):.2f} to {math.exp(max(usual)):.2f}", perplexity,
        ])  # fmt: skip
    print(f"{len(GRID) * seeds} runs for each row of {STEPS} steps\n")
    print(table(["states", "unstable runs", "published", "perplexity, median",
                 "of seeds", "published"], rows))  # fmt: skip

    print("\nheld-out loss by settings, median and spread of seeds\n")
    rows = []
    for place, changed in enumerate(GRID):
        name = ", ".join(f"{key} {value}" for key, value in changed.items())
        row = [name or ", ".join(f"{key} {value}" for key, value in SETTINGS.items())]
        for kind in (WIDE, NARROW):
            found = losses[kind, place]
            row += [f"{middle[kind, place]:.4f}", f"{max(found) - min(found):.4f}"]
        gap = 100 * (middle[NARROW, place] / middle[WIDE, place] - 1)
        rows.append([*row, f"{gap:+.2f}"])
    print(table(["settings", "32 bits", "spread", "8 bits", "spread", "gap, %"], rows))
