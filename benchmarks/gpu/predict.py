#!/usr/bin/env python3
"""Predicts the rows of the tables for an H200, from the code of the kernels.

    .venv/bin/python benchmarks/gpu/predict.py

Needs no GPU: compiles what `prepare.sh` does and counts what the kernels move and
execute. Writes results/predicted-h200.json and .md. What is assumed is written there.
"""

from __future__ import annotations

import argparse
import datetime
import json
import pathlib
import sys
import tempfile

import report
from artifacts import compile_case, find_commit
from bundles import Bundle
from cases import CASES, PEER_BYTES, TINY, Case, Sizes
from counts import Work, count
from steps import Step, compile_step, count_records, list_steps, walk

COPY = 4.3e12  # Bytes per second, read and written.
CYCLES = 132 * 1.98e9  # Of all multiprocessors, per second.
# Threads per cycle of a multiprocessor.
RATES = {"instructions": 128, "integers": 64, "special": 16}
MMA = 613e12  # FLOPs per second of mma.sync.
KERNEL = 1.5e-6  # Seconds from the start of one kernel of a graph to the next's.
PRODUCTS = {"F32": 51e12, "BF16": 788e12, "F16": 788e12, "F8_E4M3": 1500e12,
            "F8_E5M2": 1500e12}  # fmt: skip
ASSUMPTIONS = [
    f"memory moves {COPY / 1e12} TB/s, as a copy that was measured on an H200 does, and "
    "every useful byte is moved once",
    f"132 multiprocessors at 1.98 GHz issue {RATES['instructions']} instructions of threads "
    f"per cycle, {RATES['integers']} on integers and {RATES['special']} special functions",
    "a kernel takes the longest of these times: they overlap wholly, and neither latency "
    "nor occupancy counts. Measured times are therefore longer",
    "instructions are those that a block of the kernel's PTX executes, with what the "
    "assembler makes of each (benchmarks/gpu/counts.py)",
    f"products of Binade's own kernels run at {MMA / 1e12:.0f} TFLOP/s, 62 % of what the "
    "matrix units do with instructions that only one chip has",
    f"the kernels of a graph start {KERNEL * 1e6} us one after the other, if they are shorter",
    "products run at 51 (f32), 788 (16 bits) or 1500 (8 bits) TFLOP/s, whatever their size",
    "a peer takes at least the time that its bytes take in a copy: ratios to peers are "
    "upper bounds of Binade's best case",
]


def predict_launch(work: Work, moved: int) -> tuple[float, str]:
    """Seconds, and what limits it."""
    times = {"memory": moved / COPY, "launches": KERNEL * work.kernels}
    times["products"] = work.products / MMA
    for name, rate in RATES.items():
        times[name] = getattr(work, name) / (rate * CYCLES)
    limit = max(times, key=times.get)
    return times[limit], limit


def predict_case(case: Case, sizes: Sizes, folder: pathlib.Path) -> dict:
    compile_case(case, sizes, folder)
    bundle = Bundle(folder / f"{case.name}.bnd")
    seconds, parts, work = 0.0, [], Work()
    for record in bundle.plan["records"]:
        done = count(bundle, record)
        taken, limit = predict_launch(done, bundle.count_bytes(record))
        work.add(done, 1)
        seconds += taken
        parts.append((taken, limit))
    moved, elements = case.count_bytes(bundle.bytes_of), case.count_elements(sizes)
    row = report.kernel_row(case, moved, 1e3 * seconds, COPY / 1e9)
    row |= {
        "limit": max(parts)[1],
        "launches": len(parts),
        "per_element": {
            "bytes": round(moved / elements, 3),
            **{name: round(getattr(work, name) / elements, 2) for name in RATES},
        },
    }
    for peer, goal in case.peers.items():
        least = PEER_BYTES.get(peer, moved / elements) * elements / COPY
        row["peers"][peer] = {"ratio": round(seconds / least, 3), "goal": goal}
    return row


def predict_step(step: Step, bundle: Bundle) -> dict:
    seconds, known, limits = 0.0, {}, {}
    for record, times in walk(bundle.plan["records"]):
        if record["kind"] in ("launch", "attention"):
            kernel = record.get("kernel") or record["device_kernel"]
            # Equal kernels do equal work, wherever their operands are.
            if kernel not in known:
                known[kernel] = count(bundle, record)
            work = known[kernel]
        else:
            work = Work(kernels=1)
        taken, limit = predict_launch(work, bundle.count_bytes(record))
        if record["kind"] == "matmul":
            rate = PRODUCTS[bundle.dtype_of(record["lhs"])]
            batch = 1
            for extent in record.get("batch", []):
                batch *= extent
            flops = (
                2 * batch * record.get("m", 1) * record.get("n", 1) * record.get("k", 1)
            )
            if flops / rate > taken:
                taken, limit = flops / rate, "products"
        seconds += times * taken
        limits[limit] = limits.get(limit, 0) + times * taken
    return {
        "part": "steps", "name": step.name, "title": step.title,
        "ms": round(1e3 * seconds, 2), "arena": bundle.plan["arena_bytes"],
        "live": bundle.live_bytes(),
        "records": count_records(bundle), "peers": {},
        "ms_limited_by": {k: round(1e3 * v, 2) for k, v in sorted(limits.items())},
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
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for case in CASES:
            if wanted is None or case.name in wanted:
                rows.append(predict_case(case, sizes, folder))
                print(report.line(rows[-1]), flush=True)
        for step in list_steps(arguments.tiny):
            if wanted is None or step.name in wanted:
                bundle = Bundle(compile_step(step, arguments.tiny, folder))
                rows.append(predict_step(step, bundle))
                print(report.line(rows[-1]), flush=True)
    result = {
        "standing": "predicted",
        "device": "NVIDIA H200",
        "date": datetime.date.today().isoformat(),
        "commit": find_commit(),
        "copy_gbs": COPY / 1e9,
        "assumptions": ASSUMPTIONS,
        "rows": rows,
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / "predicted-h200.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    path.with_suffix(".md").write_text(report.render_file(path))
    print(path)


if __name__ == "__main__":
    sys.exit(main())
