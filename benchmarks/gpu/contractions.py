"""Parts of run.py: attention against cuDNN and FlashAttention, heads with their loss against
PyTorch's and Liger's, and FP8 matmuls against PyTorch's."""

from __future__ import annotations

import os
import pathlib
import sys

import contraction_peers
import numpy as np
import peers
import profiles
import report
import timing
from artifacts import list_made, read_manifest
from comparison import OURS, Comparison
from cases import COMPILED
from contraction_cases import CHUNKED, CONTRACTIONS, name_library_row
from contraction_inputs import draw_inputs
from contraction_modules import Contraction, Head
from rows import Rows
from runtime import Program

ROUNDS = 25
PROFILED = 3  # Steps.
OWN = f"{OURS}, own kernels"
COPY = "a copy of as many bytes"
LIBRARIES = ("cublas", "cudnn")


def load(path: pathlib.Path, inputs: dict, by: str, runs: int = 2) -> Program:
    """Loads a bundle that runs by its own kernels (`own`) or by libraries (`library`), and runs
    it: the second run is captured as a graph."""
    os.environ["BINADE_CONTRACTION"] = by
    program = Program(path)
    for key, value in inputs.items():
        target = program[key]
        target[...] = value.view(target.dtype)
    for _ in range(runs):
        program.run()
    return program


def find_libraries(profile: dict) -> str:
    """Returns the implementations of records by libraries."""
    names = {line["implementation"] for line in profile["lines"]}
    return "; ".join(sorted(name for name in names if name.startswith(LIBRARIES)))


def make_rows(case: Contraction, comparison: Comparison, libraries: str) -> list[dict]:
    """Returns the row of a case, and another if both a library and Binade's own kernels
    compute it."""
    by_library = case.library_peers is not None
    row = case.make_row(timing.median(comparison.times[OURS]))
    if not by_library or not libraries:
        row |= comparison.describe(case.peers)
        for peer, goal in (case.library_peers or {}).items():
            missing = {
                "goal": goal,
                "reason": "no library computes Binade's attention here",
            }
            row.setdefault("unavailable", {})[f"{peer}, by a library"] = missing
        return [row | ({"implementation": libraries} if libraries else {})]
    row |= comparison.describe(case.library_peers)
    row |= name_library_row(case) | {"implementation": libraries}
    own = case.make_row(timing.median(comparison.times[OWN]))
    return [row, own | comparison.describe(case.peers, OWN)]


def measure(case: Contraction, folder: pathlib.Path, moved: int) -> list[dict]:
    """Returns the rows of a case that moves `moved` bytes at least."""
    inputs = draw_inputs(case, np.random.default_rng(0))
    path = folder / f"{case.name}.bnd"
    program, comparison = load(path, inputs, "library"), Comparison(case.name)
    profile = profiles.measure(program, PROFILED)
    libraries = find_libraries(profile)
    comparison.sides[OURS] = program.run
    if case.library_peers is not None and libraries:
        comparison.sides[OWN] = load(path, inputs, "own").run
    for peer in {**case.peers, **(case.library_peers or {})}:
        comparison.add(peer, lambda peer=peer: contraction_peers.make(case, peer),
                       isSlow=peer in (COMPILED, CHUNKED))  # fmt: skip
    if case.share is not None:
        comparison.add(COPY, lambda: peers.copy(moved // 8))
    comparison.measure(ROUNDS)
    rows = make_rows(case, comparison, libraries)
    if COPY in comparison.times:
        copy_gbs = moved / timing.median(comparison.times[COPY]) / 1e6
        rows[0] |= report.compare_with_copy(case, moved, rows[0]["ms"], copy_gbs)
    if isinstance(case, Head):
        rows[0]["profile"] = profile
    return rows


def main(part: str, folder: pathlib.Path, out: pathlib.Path) -> None:
    manifest, rows = read_manifest(folder), Rows(out)
    for case in list_made(CONTRACTIONS[part], folder / part):
        case = case.shrink() if manifest["tiny"] else case
        moved = manifest["bytes"][case.name]
        for row in measure(case, folder / part, moved):
            rows.add(row | {"part": part})
        if peers.HAS_DEVICE:
            peers.torch.compiler.reset()
            peers.torch.cuda.empty_cache()


if __name__ == "__main__":
    main(sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]))
