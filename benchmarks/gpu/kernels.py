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
from comparison import OURS, Comparison
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


COPY_OF_SIZE = "a copy of as many bytes"


def measure_copy(folder: pathlib.Path, moved: int, inputs: Inputs, rows: Rows) -> float:
    """GB/s of PyTorch's copy or, where that is missing, of a kernel that negates."""
    comparison, torch_moved = Comparison(COPY.name), 1 << 33
    comparison.sides[OURS] = load(COPY, folder, inputs).run
    comparison.add("torch", lambda: peers.copy(torch_moved // 8))
    comparison.measure(ROUNDS)
    sizes = {"kernel": (OURS, moved), "torch": ("torch", torch_moved)}
    speeds = {
        name: size / timing.median(comparison.times[side]) / 1e6
        for name, (side, size) in sizes.items()
        if side in comparison.times
    }
    rows.note(copy_gbs=speeds.get("torch", speeds["kernel"]), copies_gbs=speeds)
    return rows.facts["copy_gbs"]


def add_peer(comparison: Comparison, case: Case, peer: str, inputs: Inputs) -> None:
    def make() -> timing.Call:
        if isinstance(case, Update):
            return peers.UPDATES[peer](inputs.values())
        return peers.quantizer(case, peer, inputs.x())

    comparison.add(peer, make, isSlow=not isinstance(case, Update))


def measure(
    case: Case, folder: pathlib.Path, moved: int, inputs: Inputs, copy_gbs: float
) -> dict:
    """The row of a case that moves as many useful bytes."""
    program, comparison = load(case, folder, inputs), Comparison(case.name)
    comparison.sides[OURS] = program.run
    for peer in case.peers:
        add_peer(comparison, case, peer, inputs)
    # A copy as large, so that what a call costs by itself is in both.
    comparison.add(COPY_OF_SIZE, lambda: peers.copy(moved // 8))
    comparison.measure(ROUNDS)
    times = comparison.times
    if COPY_OF_SIZE in times:
        copy_gbs = moved / timing.median(times[COPY_OF_SIZE]) / 1e6
    row = report.kernel_row(case, moved, timing.median(times[OURS]), copy_gbs)
    return row | comparison.describe(case.peers)


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
