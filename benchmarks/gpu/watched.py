"""Part of run.py: the cost of computing statistics in each step."""

from __future__ import annotations

import pathlib
import sys

import numpy as np
import timing
from artifacts import list_made, read_manifest
from batches import draw_batch
from bundles import Bundle
from rows import Rows
from runtime import Program
from steps import Watched, list_watched

BLOCKS, ROUNDS = 2, 10
WITHOUT = "without statistics"
MOST_APART = 1e-4  # Of the loss of the second step.


def measure_alone(path: pathlib.Path, rounds: int) -> tuple[list[float], float]:
    """Milliseconds of steps, and the loss of the second, of a program that has the device
    to itself."""
    program = Program(path)
    for name, value in draw_batch(Bundle(path).plan, np.random.default_rng(0)).items():
        program["batch", name][...] = value
    for _ in range(2):  # The second is captured as a graph.
        program.run()
    loss = float(program["metric", "loss"])
    return timing.alternate({"": program.run}, rounds, warmup=0)[""], loss


def measure(watched: Watched, folder: pathlib.Path, rounds: int) -> dict:
    """Blocks of steps with and without, one after the other."""
    paths = {
        WITHOUT: folder / f"{watched.name}.bnd",
        "binade": folder / f"{watched.name}-watched.bnd",
    }
    times, losses = {name: [] for name in paths}, {}
    for _ in range(BLOCKS):
        for name, path in paths.items():
            more, losses[name] = measure_alone(path, rounds)
            times[name] += more
    # A watched value is in memory: a kernel that would have kept it in registers is
    # another one.
    apart = abs(losses["binade"] / losses[WITHOUT] - 1)
    if not apart <= MOST_APART:
        raise RuntimeError(f"{watched.name}: losses differ: {losses}")
    ports = Bundle(paths["binade"]).plan["ports"]
    return {
        "part": "statistics", "name": f"{watched.name}-watched", "title": watched.title,
        "ms": round(timing.median(times["binade"]), 3),
        "loss_apart": apart,
        "statistics": sum(port["role"] == "statistic" for port in ports),
        "peers": {WITHOUT: timing.ratio(times["binade"], times[WITHOUT])
                  | {"goal": watched.goal,
                     "ms": round(timing.median(times[WITHOUT]), 3)}},
    }  # fmt: skip


def main(folder: pathlib.Path, out: pathlib.Path) -> None:
    tiny, rows = read_manifest(folder)["tiny"], Rows(out)
    for watched in list_made(list_watched(tiny), folder / "statistics"):
        rows.add(measure(watched, folder / "statistics", 1 if tiny else ROUNDS))


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:]))
