"""Part of run.py: compares a step of GPT-2 with torch.compile in its mode max-autotune, which
takes minutes to compile."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Callable

import numpy as np
import timing
import whole
from artifacts import list_made, read_manifest
from comparison import OURS, Comparison
from rows import Rows
from steps import COMPILED, list_steps

STEP, MODE = "gpt2-bf16", "max-autotune"
PEER = f"{COMPILED}, {MODE}"


def main(folder: pathlib.Path, out: pathlib.Path) -> None:
    tiny, rows = read_manifest(folder)["tiny"], Rows(out)
    steps = {s.name: s for s in list_made(list_steps(tiny), folder / "steps")}
    if STEP not in steps:
        raise SystemExit(f"{folder} has no {STEP}.bnd")
    step, comparison = steps[STEP], Comparison(STEP)
    loaded = whole.LoadedStep(step, folder / "steps", np.random.default_rng(0))
    comparison.sides[OURS] = loaded.program.run
    peak = None

    def make() -> Callable:
        nonlocal peak
        run, peak = whole.make_peer(step, loaded.batch, MODE)
        return run

    comparison.add(PEER, make)
    comparison.measure(whole.ROUNDS)
    row = loaded.describe("autotune") | comparison.describe({PEER: None})
    row["ms"] = round(timing.median(comparison.times[OURS]), 3)
    if peak is not None and PEER in comparison.times:
        ratio = round(row["memory"] / peak(), 3)
        row["memory_peers"] = {PEER: {"ratio": ratio, "goal": None}}
    rows.add(row)


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:]))
