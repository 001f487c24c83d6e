"""Parts of run.py: reads the hardware counters of the kernels of rows, by Nsight Compute.

ncu starts a process for each row, which runs the bundle once: a step as users run it, other
rows by their own kernels. The first call of each kernel is executed several times, to read all
counters, at a fixed clock that is lower than usual. The milliseconds of a row are the sum of
these calls, not the time of the row. BINADE_NCU_OUTPUT names a folder that keeps what ncu prints.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

import contractions
import kernels
import numpy as np
from artifacts import list_made, read_manifest, sizes_of
from batches import draw_batch
from bundles import Bundle
from cases import CASES
from contraction_cases import CONTRACTIONS
from contraction_inputs import draw_inputs
from counter_table import read_counters, summarize
from rows import Rows
from runtime import Program
from steps import list_steps

NCU = "ncu"
# Where CUDA's packages put it, if it is not on the path.
FOLDERS = ("/usr/local/cuda/bin", "/opt/nvidia/nsight-compute")
SECTIONS = (
    "SpeedOfLight", "MemoryWorkloadAnalysis", "ComputeWorkloadAnalysis", "SchedulerStats",
    "WarpStateStats", "Occupancy", "LaunchStats",
)  # fmt: skip
FIRST_CALLS = "::regex:.+:1"  # Of each kernel, in any context and stream.


def find_ncu() -> str | None:
    """Returns the program on the path, or else the last of those in FOLDERS."""
    if found := shutil.which(NCU):
        return found
    installed = [
        str(path)
        for folder in FOLDERS
        for path in sorted(pathlib.Path(folder).glob(f"**/{NCU}"))
        if path.is_file()
    ]
    return installed[-1] if installed else None


def run_row(part: str, folder: pathlib.Path, name: str) -> None:
    """Runs the bundle of a row once, in a process of its own."""
    path, random = folder / part / f"{name}.bnd", np.random.default_rng(0)
    manifest = read_manifest(folder)
    if part == "steps":
        program = Program(path)
        for batch, value in draw_batch(Bundle(path).plan, random).items():
            program["batch", batch][...] = value
        program.run()
    elif part == "kernels":
        (case,) = [case for case in CASES if case.name == name]
        inputs = kernels.Inputs(sizes_of(manifest))
        kernels.load(case, folder / part, inputs).run()
    else:
        (case,) = [case for case in CONTRACTIONS[part] if case.name == name]
        case = case.shrink() if manifest["tiny"] else case
        contractions.load(path, draw_inputs(case, random), "own", runs=1)


def measure(part: str, folder: pathlib.Path, name: str, ncu: str) -> list[dict]:
    sections = [word for section in SECTIONS for word in ("--section", section)]
    done = subprocess.run(
        [ncu, "--csv", "--page", "raw", "--print-units", "base", *sections,
         "--kernel-id", FIRST_CALLS, sys.executable, __file__, "--row", part,
         str(folder), name],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if keep := os.environ.get("BINADE_NCU_OUTPUT"):
        (pathlib.Path(keep) / f"{part}-{name}.csv").write_text(done.stdout)
    if done.returncode:
        raise RuntimeError(f"{name}: {(done.stdout + done.stderr).strip()[-300:]}")
    return [summarize(counters) for counters in read_counters(done.stdout)]


def main(part: str, folder: pathlib.Path, out: pathlib.Path) -> None:
    rows, ncu = Rows(out), find_ncu()
    if not ncu:
        raise SystemExit(f"{NCU}, NVIDIA's Nsight Compute, is not installed")
    tiny = read_manifest(folder)["tiny"]
    rows_of = {"kernels": CASES, "steps": list_steps(tiny), **CONTRACTIONS}
    for case in list_made(rows_of[part], folder / part):
        counted = measure(part, folder, case.name, ncu)
        ms = sum(kernel.get("ms", 0) for kernel in counted)
        rows.add(
            {
                "part": f"{part}-counters",
                "name": case.name,
                "title": case.title,
                "ms": round(ms, 4),
                "counters": counted,
            }
        )


if __name__ == "__main__":
    if sys.argv[1] == "--row":
        run_row(sys.argv[2], pathlib.Path(sys.argv[3]), sys.argv[4])
    else:
        main(sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]))
