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
from device import DeviceMemory
from rows import Rows
from runtime import Program
from steps import COMPILED, Step, count_records, list_steps

sys.path.insert(0, str(ROOT / "examples/char-gpt"))

ROUNDS = 10
PROFILED = 3  # Steps.


def make_peer(step: Step, batch: dict[str, np.ndarray]) -> tuple[Callable, Callable]:
    """A step of torch.compile, and what memory it took at most."""
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

    compiled = torch.compile(loss, dynamic=False)

    def run() -> None:
        optimizer.zero_grad(set_to_none=True)
        compiled(**inputs).backward()
        optimizer.step()

    torch.cuda.reset_peak_memory_stats()
    return peers.synchronized(run), lambda: torch.cuda.max_memory_allocated() - before


def add_peer(
    sides: dict[str, Callable],
    step: Step,
    batch: dict[str, np.ndarray],
    notes: list[str],
) -> Callable | None:
    """Adds torch.compile's step, which has run once, and gives its peak of memory. What
    fails in PyTorch, also when it runs first, is a remark."""
    try:
        run, peak = make_peer(step, batch)
        run()
    except Exception as error:
        notes.append(f"{COMPILED}: {type(error).__name__}: {str(error)[:200]}")
        print(f"  {step.name}: no {notes[-1]}", flush=True)
        return None
    sides[COMPILED] = run
    return peak


def measure(
    step: Step, folder: pathlib.Path, known: dict, random: np.random.Generator
) -> dict:
    """The row; `known` has the times and memory of peers, and of Binade's own steps."""
    path = folder / f"{step.name}.bnd"
    bundle = Bundle(path)
    batch = draw_batch(bundle.plan, random)
    memory = DeviceMemory()
    before = memory.free()
    program = Program(path)
    for name, value in batch.items():
        program["batch", name][...] = value
    for _ in range(2):  # The second is captured as a graph.
        program.run()
    row = {
        "part": "steps", "name": step.name, "title": step.title,
        "arena": bundle.plan["arena_bytes"], "live": bundle.live_bytes(),
        "memory": before - memory.free(),
        "records": count_records(bundle),
        "peers": {}, "memory_peers": {},
    }  # fmt: skip
    sides, peak, notes = {"binade": program.run}, None, []
    if peers.HAS_DEVICE and step.model not in known:
        peak = add_peer(sides, step, batch, notes)
    if notes:
        row["notes"] = notes
    times = timing.alternate(sides, ROUNDS)
    row["ms"] = round(timing.median(times["binade"]), 3)
    row["loss"] = float(program["metric", "loss"])
    if not np.isfinite(row["loss"]):
        raise RuntimeError(f"{step.name}: the loss is {row['loss']}")
    if peak is not None:
        known[step.model] = times[COMPILED], peak()
    known[step.name] = times["binade"], row["memory"]
    row["profile"] = profiles.measure(program, PROFILED)
    for kind, index in (("peers", 0), ("memory_peers", 1)):
        for peer, goal in getattr(step, kind).items():
            found = known.get(step.model if peer == COMPILED else peer)
            if found is None:
                continue
            if index == 0:
                row[kind][peer] = timing.ratio(times["binade"], found[0]) | {
                    "goal": goal
                }
            else:
                ratio = row["memory"] / found[1]
                row[kind][peer] = {"ratio": round(ratio, 3), "goal": goal}
    return row


def main(folder: pathlib.Path, out: pathlib.Path) -> None:
    tiny, rows, known = read_manifest(folder)["tiny"], Rows(out), {}
    random = np.random.default_rng(0)
    for step in list_made(list_steps(tiny), folder / "steps"):
        rows.add(measure(step, folder / "steps", known, random))
        if peers.HAS_DEVICE:
            peers.torch.compiler.reset()
            gc.collect()
            peers.torch.cuda.empty_cache()


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:]))
