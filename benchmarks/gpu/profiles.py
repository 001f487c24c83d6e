"""Part of run.py: where the time of whole steps goes, by `binade-run --profile`."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from artifacts import read_manifest
from batches import draw_batch
from counts import Bundle
from rows import Rows
from steps import list_steps

from binade import safetensors

STEPS = 3
LINES = 16  # Of the table, those with the most time.


def profile(path: pathlib.Path) -> list[str]:
    plan = Bundle(path).plan
    with tempfile.TemporaryDirectory() as name:
        folder, random = pathlib.Path(name), np.random.default_rng(0)
        batches = [draw_batch(plan, random) for _ in range(STEPS)]
        data = {name: np.concatenate([b[name] for b in batches]) for name in batches[0]}
        safetensors.save(folder / "data.safetensors", data)
        done = subprocess.run(
            [os.environ["BINADE_RUN"], path, "--data", folder / "data.safetensors",
             "--order", "sequential", "--steps", str(STEPS), "--out", folder / "run",
             "--profile", folder / "trace.json"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{path.name}: {done.stderr.strip()}")
    return done.stdout[done.stdout.index("profile:") :].splitlines()[:LINES]


def main(folder: pathlib.Path, out: pathlib.Path) -> None:
    rows, profiles = Rows(out), {}
    for step in list_steps(read_manifest(folder)["tiny"]):
        profiles[step.title] = profile(folder / "steps" / f"{step.name}.bnd")
        rows.note(profiles=profiles)
        print(f"  {step.name}: {profiles[step.title][0]}", flush=True)


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:]))
