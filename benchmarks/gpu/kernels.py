"""Part of run.py: times kernels against a memory copy and against peers."""

from __future__ import annotations

import pathlib
import sys

import ml_dtypes
import numpy as np
import peers
import report
import timing
from artifacts import list_made, read_manifest, sizes_of
from cases import CASES, COPY, Case, Sizes, Update, list_tensors
from rows import Rows
from runtime import Program

ROUNDS = 25


class Inputs:
    """Random numbers, drawn once."""

    def __init__(self, sizes: Sizes):
        self.sizes, self.random = sizes, np.random.default_rng(0)
        self.updates: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self.wide = None

    def values(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Of each tensor a parameter and its gradient."""
        if not self.updates:
            for name, shape in list_tensors(self.sizes).items():
                value = self.random.standard_normal(shape, np.float32)
                self.updates[name] = 0.02 * value, 1e-3 * value[::-1]
        return self.updates

    def x(self) -> np.ndarray:
        if self.wide is None:
            shape = (self.sizes.rows, self.sizes.columns)
            self.wide = self.random.standard_normal(shape, np.float32)
        return self.wide


def load(case: Case, folder: pathlib.Path, inputs: Inputs) -> Program:
    program = Program(folder / f"{case.name}.bnd")
    if isinstance(case, Update):
        for name, (value, gradient) in inputs.values().items():
            program["parameter", name][...] = value
            program["buffer", f"gradient/{name}"][...] = gradient
        return program
    program["buffer", "x"][...] = inputs.x().astype(ml_dtypes.bfloat16)
    for vector in case.vectors:
        program["buffer", vector.split(":")[0]][...] = 1
    return program


def make_peers(case: Case, inputs: Inputs, notes: list[str]) -> dict[str, timing.Call]:
    made = {}
    for peer in case.peers if peers.HAS_DEVICE else ():
        try:
            if isinstance(case, Update):
                made[peer] = peers.UPDATES[peer](inputs.values())
            else:
                made[peer] = peers.quantizer(case, peer, inputs.x())
            made[peer]()  # What fails only when it runs is left out as well.
        except Exception as error:  # Of a package that is not Binade's: a remark.
            made.pop(peer, None)
            notes.append(f"{peer}: {type(error).__name__}: {str(error)[:200]}")
            print(f"  {case.name}: no {notes[-1]}", flush=True)
    return made


COPY_OF_SIZE = "a copy of as many bytes"


def measure_copy(folder: pathlib.Path, moved: int, inputs: Inputs, rows: Rows) -> float:
    """GB/s of PyTorch's copy or, where that is missing, of a kernel that negates."""
    program = load(COPY, folder, inputs)
    calls = {"kernel": (program.run, moved)}
    if peers.HAS_DEVICE:
        calls["torch"] = peers.copy(1 << 30)
    times = timing.alternate({name: call for name, (call, _) in calls.items()}, ROUNDS)
    speeds = {n: calls[n][1] / timing.median(t) / 1e6 for n, t in times.items()}
    rows.note(copy_gbs=speeds.get("torch", speeds["kernel"]), copies_gbs=speeds)
    return rows.facts["copy_gbs"]


def measure(
    case: Case, folder: pathlib.Path, moved: int, inputs: Inputs, copy_gbs: float
) -> dict:
    """The row of a case that moves as many useful bytes."""
    program, notes = load(case, folder, inputs), []
    sides = {"binade": program.run, **make_peers(case, inputs, notes)}
    if peers.HAS_DEVICE:  # As large, so that what a call costs by itself is in both.
        sides[COPY_OF_SIZE] = peers.copy(moved // 8)[0]
    times = timing.alternate(sides, ROUNDS)
    ours = times["binade"]
    if COPY_OF_SIZE in times:
        copy_gbs = moved / timing.median(times[COPY_OF_SIZE]) / 1e6
    row = report.kernel_row(case, moved, timing.median(ours), copy_gbs)
    for peer in sides:
        if peer not in ("binade", COPY_OF_SIZE):
            row["peers"][peer] = {
                **timing.ratio(ours, times[peer]), "goal": case.peers[peer],
                "ms": round(timing.median(times[peer]), 4),
            }  # fmt: skip
    return row | ({"notes": notes} if notes else {})


def main(folder: pathlib.Path, out: pathlib.Path) -> None:
    manifest, rows = read_manifest(folder), Rows(out)
    inputs, moved = Inputs(sizes_of(manifest)), manifest["bytes"]
    bundles = folder / "kernels"
    copy_gbs = measure_copy(bundles, moved[COPY.name], inputs, rows)
    for case in list_made(CASES, bundles):
        rows.add(measure(case, bundles, moved[case.name], inputs, copy_gbs))
        if peers.HAS_DEVICE:
            peers.torch.cuda.empty_cache()


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:]))
