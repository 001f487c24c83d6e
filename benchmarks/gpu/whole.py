"""Part of run.py: compares time and memory of whole training steps with PyTorch's."""

from __future__ import annotations

import gc
import pathlib
import sys
from collections.abc import Callable

import numpy as np
import peers
import profiles
import timing
from artifacts import list_made, read_manifest
from batches import draw_batch
from bundles import Bundle
from cases import ROOT
from comparison import OURS, Comparison
from device import DeviceMemory
from rows import Rows
from runtime import Program
from steps import COMPILED, Step, count_records, list_steps

sys.path.insert(0, str(ROOT / "examples/char-gpt"))

ROUNDS = 10
PROFILED = 3  # Steps.


def make_peer(
    step: Step, batch: dict[str, np.ndarray], mode: str | None = None
) -> tuple[Callable, Callable]:
    """A step of torch.compile in one of its modes, and what memory it took at most."""
    import models

    torch = peers.torch
    before = torch.cuda.memory_allocated()
    with torch.device("cuda"):  # Weights are drawn there.
        module = models.PEERS[step.model]()
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3, fused=True)
    inputs = {name: torch.from_numpy(value).cuda() for name, value in batch.items()}

    def loss(input_ids, labels):
        with torch.autocast("cuda", torch.bfloat16):
            return models.cross_entropy(module(input_ids), labels)

    compiled = torch.compile(loss, dynamic=False, mode=mode)

    def run() -> None:
        if mode is not None:  # The results of the last run's graph may be overwritten.
            torch.compiler.cudagraph_mark_step_begin()
        optimizer.zero_grad(set_to_none=True)
        compiled(**inputs).backward()
        optimizer.step()

    torch.cuda.reset_peak_memory_stats()
    return peers.synchronized(run), lambda: torch.cuda.max_memory_allocated() - before


class LoadedStep:
    """A step that has run, with the memory that it takes."""

    def __init__(self, step: Step, folder: pathlib.Path, random: np.random.Generator):
        path = folder / f"{step.name}.bnd"
        self.step, self.bundle = step, Bundle(path)
        self.batch = draw_batch(self.bundle.plan, random)
        memory = DeviceMemory()
        before = memory.free()
        self.program = Program(path)
        for name, value in self.batch.items():
            self.program["batch", name][...] = value
        for _ in range(2):  # The second is captured as a graph.
            self.program.run()
        self.memory = before - memory.free()

    def describe(self, part: str) -> dict:
        step, bundle = self.step, self.bundle
        return {
            "part": part, "name": step.name, "title": step.title,
            "arena": bundle.plan["arena_bytes"], "live": bundle.live_bytes(),
            "memory": self.memory, "records": count_records(bundle),
        }  # fmt: skip


class Known:
    """Times and memory of torch.compile by models, and of Binade's own steps by names, for
    the steps that are compared with them; or why they are missing."""

    def __init__(self):
        self.times: dict[str, list[float]] = {}
        self.memory: dict[str, int] = {}
        self.missing: dict[str, str] = {}

    def add(
        self, step: Step, memory: int, comparison: Comparison, peak: Callable | None
    ) -> None:
        """Adds what was measured of a step and, if it ran, of its peer."""
        times = comparison.times
        self.times[step.name], self.memory[step.name] = times[OURS], memory
        if COMPILED in times and peak is not None:
            self.times[step.model], self.memory[step.model] = times[COMPILED], peak()
        elif COMPILED in comparison.unavailable:
            self.missing[step.model] = comparison.unavailable[COMPILED]

    def compare(self, row: dict, step: Step, times: list[float]) -> None:
        """Adds ratios to the row, and the reasons why others are missing."""
        for kind, peers_of_kind in (("", step.peers), ("memory_", step.memory_peers)):
            found, missing = {}, {}
            for peer, goal in peers_of_kind.items():
                key = step.model if peer == COMPILED else peer
                if key not in self.times:
                    reason = self.missing.get(
                        key, f"{key} was not measured in this run"
                    )
                    missing[peer] = {"goal": goal, "reason": reason}
                elif kind:
                    ratio = round(row["memory"] / self.memory[key], 3)
                    found[peer] = {
                        "ratio": ratio,
                        "goal": goal,
                        "bytes": self.memory[key],
                    }
                else:
                    ms = round(timing.median(self.times[key]), 3)
                    ratio = timing.ratio(times, self.times[key])
                    found[peer] = {**ratio, "goal": goal, "ms": ms}
            row[f"{kind}peers"] = found
            if missing:
                row[f"{kind}unavailable"] = missing


def measure(
    step: Step, folder: pathlib.Path, known: Known, random: np.random.Generator
) -> dict:
    """The row; what it measures of peers, and of the step itself, is added to `known`."""
    loaded, comparison = LoadedStep(step, folder, random), Comparison(step.name)
    program = loaded.program
    row = loaded.describe("steps")
    comparison.sides[OURS] = program.run
    peak = None

    def make() -> Callable:
        nonlocal peak
        run, peak = make_peer(step, loaded.batch)
        return run

    if step.model not in known.times:
        comparison.add(COMPILED, make)
    comparison.measure(ROUNDS)
    times = comparison.times
    row["ms"] = round(timing.median(times[OURS]), 3)
    row["loss"] = float(program["metric", "loss"])
    if not np.isfinite(row["loss"]):
        raise RuntimeError(f"{step.name}: the loss is {row['loss']}")
    known.add(step, row["memory"], comparison, peak)
    known.compare(row, step, times[OURS])
    records = loaded.bundle.plan["records"]
    row["profile"] = profiles.measure(program, PROFILED, records)
    return row


def release() -> None:
    """Frees what PyTorch holds of the last step."""
    if peers.HAS_DEVICE:
        peers.torch.compiler.reset()
        gc.collect()
        peers.torch.cuda.empty_cache()


def main(folder: pathlib.Path, out: pathlib.Path) -> None:
    tiny, rows, known = read_manifest(folder)["tiny"], Rows(out), Known()
    random = np.random.default_rng(0)
    for step in list_made(list_steps(tiny), folder / "steps"):
        rows.add(measure(step, folder / "steps", known, random))
        release()


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:]))
