#!/usr/bin/env python3
"""Reproduces what docs/results.md shows, and prints its tables.

    .venv/bin/python benchmarks/experiments/run.py [NAME ...] [--seeds K] [--jobs N]

state-error  what pairs of state formats do to AdamW's step (COAT, tables 1 and 8)
fp8          loss and memory of FP8 policies against bf16-amp
optimizers   loss and memory of Tiger and others, each with its best rate
nonfinite    runs with a NaN in their data, by what is done about it
four-bit     policies in 4 and 8 bits against bf16-amp, by paired seeds
ablations    NVFP4 without parts of its recipe, by the error of gradients
muon         Muon and AdamW with states in 8 bits by a linear code book
eight-bit    AdamW's states in 32 and 8 bits over a grid of settings
digits       a ResNet with momentum in 8 bits
clamp        layers beyond f16, as T5 has them, and the remedy of clamping
epsilon      Adam's epsilon with moments in f16
fp8-large    as fp8, of a model with 10.7 million parameters, one run each

Without names all but the last are made. Results stay in build/results/runs.jsonl, a line for each
training run, so that a command that was stopped continues where it was: remove the file to
measure anew. BINADE_BUILD names another build directory.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pathlib

from training import ROOT, Runs

EXPERIMENTS = [
    # The last takes longest, and is made by name only.
    "state-error", "fp8", "four-bit", "ablations", "muon", "optimizers", "nonfinite", "eight-bit",
    "digits", "clamp", "epsilon", "fp8-large",
]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "what", nargs="*", metavar="NAME", help=f"experiments: {', '.join(EXPERIMENTS)}"
    )
    parser.add_argument(
        "--seeds", type=int, default=3, help="seeds per setting (default: 3)"
    )
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)),
                        help="runs at the same time (default: one per core)")  # fmt: skip
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/results",
                        help="folder of data and results (default: build/results)")  # fmt: skip
    arguments = parser.parse_args()
    unknown = [name for name in arguments.what if name not in EXPERIMENTS]
    if unknown:
        parser.error(f"no experiment is called {unknown[0]}")
    runs = Runs(arguments.out.resolve(), arguments.jobs)
    for name in arguments.what or EXPERIMENTS[:-1]:
        print(f"\n{name}", flush=True)
        importlib.import_module(name.replace("-", "_")).run(runs, arguments.seeds)


if __name__ == "__main__":
    main()
