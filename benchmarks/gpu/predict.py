#!/usr/bin/env python3
"""Predicts the rows of the tables for an H100, from the code of the kernels.

    .venv/bin/python benchmarks/gpu/predict.py

Needs no GPU, but ptxas: compiles what `prepare.sh` does and counts what the kernels move
and execute. Writes results/predicted-h100.json and .md. What is assumed is written there.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import json
import pathlib
import sys
import tempfile

import report
from artifacts import compile_case, find_commit
from bundles import Bundle
from cases import CASES, PEER_BYTES, TINY, Case, Sizes
from chips import Chip
from costs import Time
from step_costs import StepCosts, predict_record
from steps import Step, compile_step, count_records, list_steps

CHIP = "sm_90"
# Times of whole steps that peers took.
MEASURED = report.RESULTS / "nvidia-h100-80gb-hbm3-2026-11-27-steps.json"
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
    "cuDNN computes attention, in the time of the law of its measured shapes "
    "(benchmarks/gpu/attention_costs.py)",
    "rates were measured on an H100 or fitted to its kernels (benchmarks/gpu/chips/sm_90.yaml); "
    "of the kernels and matmuls of four steps that were measured, most are predicted within "
    "15 % and all steps within 10 %",
    "kernels whose work depends on values, such as gather_grad, run on random indices",
    "a peer of a kernel takes at least the time that its bytes take: ratios to peers are "
    "upper bounds of Binade's best case; the peers of steps take what they took on the H100",
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
    row |= {
        "limit": time.limit,
        "launches": count_records(bundle),
        "per_element": {
            "bytes": round(moved / elements, 3),
            **count_per_element(costs, elements),
        },
    }
    for peer, goal in case.peers.items():
        least = PEER_BYTES.get(peer, moved / elements) * elements / chip.dram_rate
        row["peers"][peer] = {"ratio": round(time.seconds / least, 3), "goal": goal}
    return row


def find_peers(step: Step, ms: float, known: dict[str, float]) -> dict:
    """Ratios to peers that were measured, and to steps in `known` that are predicted."""
    measured = json.loads(MEASURED.read_text())["rows"]
    row = next((row for row in measured if row["name"] == step.name), {"peers": {}})
    peers = {}
    for peer, goal in step.peers.items():
        theirs = known.get(peer)
        if theirs is None and peer in row["peers"]:
            theirs = row["ms"] / row["peers"][peer]["ratio"]
        if theirs:
            peers[peer] = {"ratio": round(ms / theirs, 3), "goal": goal}
    return peers


def predict_step(step: Step, bundle: Bundle, known: dict[str, float]) -> dict:
    time = sum_times(StepCosts(bundle, Chip.load(CHIP)))
    known[step.name] = ms = 1e3 * time.seconds
    return {
        "part": "steps", "name": step.name, "title": step.title,
        "ms": round(ms, 2), "arena": bundle.plan["arena_bytes"],
        "live": bundle.live_bytes(), "records": count_records(bundle),
        "peers": find_peers(step, ms, known),
        "ms_limited_by": {k: round(1e3 * v, 2) for k, v in sorted(time.limits.items())},
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--out", type=pathlib.Path, default=report.RESULTS, help="folder of results"
    )
    parser.add_argument("--tiny", action="store_true", help="small sizes, for tests")
    parser.add_argument("--only", help="rows to predict: names separated by commas")
    arguments = parser.parse_args()
    sizes = TINY if arguments.tiny else Sizes()
    wanted = arguments.only.split(",") if arguments.only else None
    rows, known = [], {}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for case in CASES:
            if wanted is None or case.name in wanted:
                rows.append(predict_case(case, sizes, folder))
                print(report.line(rows[-1]), flush=True)
        for step in list_steps(arguments.tiny):
            if wanted is None or step.name in wanted:
                bundle = Bundle(compile_step(step, arguments.tiny, folder))
                rows.append(predict_step(step, bundle, known))
                print(report.line(rows[-1]), flush=True)
    result = {
        "standing": "predicted",
        "device": Chip.load(CHIP).name,
        "date": datetime.date.today().isoformat(),
        "commit": find_commit(),
        "copy_gbs": Chip.load(CHIP).dram_rate / 1e9,
        "assumptions": ASSUMPTIONS,
        "rows": rows,
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / "predicted-h100.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    path.with_suffix(".md").write_text(report.render_file(path))
    print(path)


if __name__ == "__main__":
    sys.exit(main())
