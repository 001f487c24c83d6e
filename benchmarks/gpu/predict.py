#!/usr/bin/env python3
"""Predicts the rows of the tables for an H100, from the code of the kernels.

    .venv/bin/python benchmarks/gpu/predict.py

Needs no GPU, but ptxas: compiles what `prepare.sh` does and counts what the kernels move
and execute. Prints every goal with the numbers that are divided, and writes them, the rows
and what is assumed to results/predicted-h100.json and .md.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import json
import pathlib
import sys
import tempfile
from collections.abc import Callable, Iterator

import calibration
import report
from artifacts import compile_case, find_commit
from bundles import Bundle
from cases import CASES, TINY, Case, Sizes
from chips import Chip
from contraction_cases import CONTRACTIONS, LIBRARY, name_library_row
from contraction_modules import Contraction
from costs import Time
from goals import judge, list_file_goals
from measured import MeasuredPeers
from parts import parse_names
from step_costs import StepCosts, predict_record
from steps import STEPS, Step, compile_step, count_records, list_steps

CHIP = "sm_90"
ASSUMPTIONS = [
    "a kernel takes the time to start, the time of one block, and the time of its slowest "
    "limit: bytes from DRAM or L2, instructions, those of the ALU and of special functions, "
    "matrix instructions, starts of blocks, latency of waves of blocks. Limits that are close "
    "to each other add up in part (benchmarks/gpu/costs.py)",
    "instructions, bytes and waits for loads are those that one block of the kernel's PTX "
    "executes (benchmarks/gpu/counts.py)",
    "L2 hits follow from reuse distances in the block, and from the bytes that records "
    "before have accessed",
    "matmuls take what measured matmuls of similar shapes take (lib/Costs)",
    "cuDNN computes attention of steps, in the time of the law of its measured shapes "
    "(benchmarks/gpu/attention_costs.py)",
    "rates were measured on an H100 or fitted to its kernels (benchmarks/gpu/chips/sm_90.yaml); "
    "of the kernels and matmuls of four steps that were measured, most are predicted within "
    "15 % and all steps within 10 %",
    "kernels whose work depends on values, such as gather_grad, run on random indices",
    "peers take what they took on the H100: the newest committed result that has them",
    "a step takes the memory that its plan reserves: measured steps took 0.1 % more",
]


def sum_times(costs: StepCosts) -> Time:
    """Seconds of all records, and of those of each limit."""
    seconds, limits = 0.0, collections.Counter()
    for cost, times in costs.walk():
        time = predict_record(cost, costs.chip)
        seconds += times * time.seconds
        limits[time.limit] += times * time.seconds
    return Time(seconds, dict(limits))


def count_per_element(costs: StepCosts, elements: int) -> dict[str, float]:
    """Instructions of all kernels that were counted."""
    total = collections.Counter()
    for launches in costs.counted.values():
        for launch in launches:
            for name in ("instructions", "alu", "special"):
                total[name] += launch.grid * getattr(launch.work, name)
    return {name: round(value / elements, 2) for name, value in total.items()}


def predict_case(case: Case, sizes: Sizes, folder: pathlib.Path) -> dict:
    compile_case(case, sizes, folder)
    bundle, chip = Bundle(folder / f"{case.name}.bnd"), Chip.load(CHIP)
    costs = StepCosts(bundle, chip)
    time = sum_times(costs)
    moved, elements = case.count_bytes(bundle.bytes_of), case.count_elements(sizes)
    row = report.kernel_row(case, moved, 1e3 * time.seconds, chip.dram_rate / 1e9)
    return row | {
        "limit": time.limit,
        "launches": count_records(bundle),
        "per_element": {
            "bytes": round(moved / elements, 3),
            **count_per_element(costs, elements),
        },
    }


def predict_contraction(
    part: str, case: Contraction, folder: pathlib.Path
) -> Iterator[dict]:
    """Yields the row by own kernels and, of attention, the row by a library."""
    compile_case(case, Sizes(), folder)
    bundle, chip = Bundle(folder / f"{case.name}.bnd"), Chip.load(CHIP)
    moved = case.count_bytes(bundle.bytes_of)
    time = sum_times(StepCosts(bundle, chip, "own"))
    row = {"part": part, **case.make_row(1e3 * time.seconds), "limit": time.limit}
    if case.share is not None:
        row |= report.compare_with_copy(case, moved, row["ms"], chip.dram_rate / 1e9)
    yield row
    if case.library_peers is not None:
        time = sum_times(StepCosts(bundle, chip, "library"))
        row = case.make_row(1e3 * time.seconds) | name_library_row(case)
        yield {"part": part, **row, "limit": time.limit}


def predict_step(step: Step, bundle: Bundle) -> dict:
    time = sum_times(StepCosts(bundle, Chip.load(CHIP)))
    return {
        "part": "steps", "name": step.name, "title": step.title,
        "ms": round(1e3 * time.seconds, 2), "arena": bundle.plan["arena_bytes"],
        "live": bundle.live_bytes(), "records": count_records(bundle),
        "ms_limited_by": {k: round(1e3 * v, 2) for k, v in sorted(time.limits.items())},
    }  # fmt: skip


def add_peers(
    rows: list[dict], definitions: dict[tuple[str, str], Case | Step]
) -> None:
    """Adds the ratios of predicted times and memory to those of peers."""
    measured = MeasuredPeers(Chip.load(CHIP).name)
    own: dict[str, float | None] = {step.name: None for step in STEPS}
    own |= {row["name"]: row["ms"] for row in rows if row["part"] == "steps"}
    for row in rows:
        row["peers"] = {}
        definition = definitions[row["part"], row["name"].removesuffix(LIBRARY)]
        is_library = row["name"].endswith(LIBRARY)
        peers = definition.library_peers if is_library else definition.peers
        measured.compare(row, peers, own)
        if isinstance(definition, Step):
            measured.compare_memory(row, definition.memory_peers)


def predict_all(wanted: Callable[[str], bool], tiny: bool) -> list[dict]:
    """Returns the rows of the tables; `wanted` says which, by their names."""
    rows, definitions = [], {}

    def add(definition: Case | Step, row: dict) -> None:
        definitions[row["part"], row["name"].removesuffix(LIBRARY)] = definition
        rows.append(row)
        print(report.line(row), flush=True)

    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for case in filter(lambda case: wanted(case.name), CASES):
            add(case, predict_case(case, TINY if tiny else Sizes(), folder))
        for part, cases in CONTRACTIONS.items():
            for case in filter(lambda case: wanted(case.name), cases):
                case = case.shrink() if tiny else case
                for row in predict_contraction(part, case, folder):
                    add(case, row)
        for step in filter(lambda step: wanted(step.name), list_steps(tiny)):
            bundle = Bundle(compile_step(step, tiny, folder))
            add(step, predict_step(step, bundle))
    add_peers(rows, definitions)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out", type=pathlib.Path, default=report.RESULTS, help="folder of results"
    )
    parser.add_argument("--tiny", action="store_true", help="small sizes, for tests")
    parser.add_argument(
        "--only", type=parse_names, metavar="NAME,...", help="rows (default: all)"
    )
    arguments = parser.parse_args()
    only, chip = arguments.only, Chip.load(CHIP)
    result = {
        "standing": "predicted",
        "device": chip.name,
        "date": datetime.date.today().isoformat(),
        "commit": find_commit(),
        "copy_gbs": chip.dram_rate / 1e9,
        "assumptions": ASSUMPTIONS,
        "rows": predict_all(lambda name: not only or name in only, arguments.tiny),
        "calibration": calibration.judge(chip),
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / "predicted-h100.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    report.write_pages(arguments.out)
    found = list_file_goals(result)
    for goal in found:
        print(goal)
    print(judge(found))
    print(path)


if __name__ == "__main__":
    sys.exit(main())
