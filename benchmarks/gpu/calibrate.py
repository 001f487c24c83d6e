#!/usr/bin/env python3
"""Calibrates the predictions of costs.py to measurements.

    .venv/bin/python benchmarks/gpu/calibrate.py collect RESULT... --artifacts FOLDER
    .venv/bin/python benchmarks/gpu/calibrate.py fit [--leave-one-out]

`collect` counts the work of the kernels that were measured, in the artifacts that were
measured (prepare.sh at the commit that RESULT names), and adds it with the times to
results/calibration/CHIP.json. Rows that are there from other results stay. `fit` finds the rates that chips/CHIP.yaml
calls fitted, and prints them and the error of each row; --leave-one-out predicts each row
with rates fitted to all other rows.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import math
import pathlib
import random
import sys

from bundles import Bundle
from calibration import (
    TIMER, AttentionRow, Calibration, CopyRow, KernelRow, MatmulRow, Row, find_error, keep_accessed, read, write,
)  # fmt: skip
from chips import FITTED, Chip
from contraction_cases import LIBRARY
from counts import Launch
from step_costs import RecordCost, StepCosts

CHIP = "sm_90"
DRAWS, FIRST_STEP, SHRINK, DRAWS_OF_STEP = 300, 0.2, 0.65, 60
FAR = 0.35  # Larger errors count as this one, so that outliers do not dominate the fit.


def keep_all_accessed(cost: RecordCost) -> tuple[list[Launch], list[list[float]]]:
    """The launches of a record and their shares, by keep_accessed."""
    pairs = zip(cost.launches, cost.cached, strict=True)
    kept = [keep_accessed(*pair) for pair in pairs]
    return [launch for launch, _ in kept], [shares for _, shares in kept]


def make_variants(costs: list[tuple[RecordCost, int]]) -> list:
    """Merges the calls of a kernel that find equal shares of their operands in L2."""
    counted, found = collections.Counter(), {}
    for cost, times in costs:
        launches, cached = keep_all_accessed(cost)
        key = json.dumps(cached)
        counted[key] += times
        found[key] = (launches, cached)
    return [(counted[key], *variant) for key, variant in found.items()]


def collect_case(row: dict, source: str, artifacts: pathlib.Path) -> KernelRow:
    """Returns the row of a case of `kernels` or `attention`, which was timed as a whole."""
    bundle = Bundle(artifacts / f"{row['part']}/{row['name']}.bnd")
    launches, cached = [], []
    for cost, times in StepCosts(bundle, Chip.load(CHIP), "own").walk():
        kept, shares = keep_all_accessed(cost)
        launches += times * kept
        cached += times * shares
    return KernelRow(source, "case", row["ms"] / 1e3, [(1, launches, cached)])


def find_line(lines: list[dict], cost: RecordCost, moved: float) -> dict | None:
    """The line of a profile that has the record; those of matmuls count scales, too."""
    name = cost.record["label"].split()[0]
    flops = cost.matmul.flops if cost.matmul else None
    found = [
        line
        for line in lines
        if line["name"] == name
        and (flops is None or math.isclose(line["flops"], flops * line["calls"]))
    ]
    return min(
        found, key=lambda line: abs(line["bytes"] / line["calls"] - moved), default=None
    )


def collect_step(row: dict, source: str, artifacts: pathlib.Path) -> list[Row]:
    print(f"counting the kernels of {row['name']}", flush=True)
    bundle = Bundle(artifacts / f"steps/{row['name']}.bnd")
    found = collections.defaultdict(list)
    lines = row["profile"]["lines"]
    for cost, times in StepCosts(bundle, Chip.load(CHIP)).walk():
        moved = bundle.count_bytes(cost.record)
        if cost.matmul and cost.matmul.accumulate:
            moved += cost.matmul.m * cost.matmul.n * cost.matmul.out_bytes
        line = find_line(lines, cost, moved)
        if line is None:
            sys.exit(f"{row['name']}: the profile lacks {cost.record['label']}")
        found[lines.index(line)].append((cost, times))
    rows = []
    for number, costs in found.items():
        line = lines[number]
        seconds = line["ms"] / 1e3 / line["calls"] - TIMER
        cost, name = costs[0][0], line["name"]
        if cost.matmul:
            counted = collections.Counter()
            for cost, times in costs:
                counted[cost.matmul] += times
            matmuls = [(times, matmul) for matmul, times in counted.items()]
            rows.append(MatmulRow(source, seconds, matmuls))
        elif cost.attention:
            counted = collections.Counter()
            for cost, times in costs:
                counted[cost.attention] += times
            attention = [(times, one) for one, times in counted.items()]
            rows.append(AttentionRow(source, name, seconds, attention))
        elif cost.launches:
            rows.append(KernelRow(source, name, seconds, make_variants(costs)))
        else:
            calls = sum(times for _, times in costs)
            rows.append(CopyRow(source, name, seconds, calls, cost.copied))
    return rows


def name_source(row: dict, result: dict, known: dict[str, str]) -> str:
    """Returns the name of a row that no other result's row has. `known` has the commits of
    names."""
    name, commit = row["name"], result["artifacts"][:8]
    return name if known.setdefault(name, commit) == commit else f"{name}, {commit}"


def collect(results: list[pathlib.Path], artifacts: pathlib.Path) -> None:
    calibration = read(CHIP)
    known = {row.source: "" for row in calibration.rows}
    for path in results:
        result = json.loads(path.read_text())
        for row in result["rows"]:
            is_step = row["part"] == "steps"
            is_case = row["part"] in ("attention", "kernels")
            if not (is_step or is_case) or row["name"].endswith(LIBRARY):
                continue
            source = name_source(row, result, known)
            calibration.rows = [x for x in calibration.rows if x.source != source]
            if is_step:
                calibration.steps[source] = row["ms"] / 1e3
                calibration.rows += collect_step(row, source, artifacts)
            else:
                calibration.rows.append(collect_case(row, source, artifacts))
    print(write(CHIP, calibration))


def fit(chip: Chip, rows: list[Row], draws: int) -> Chip:
    """Hill climbing with a fixed seed, from the rates of `chip`."""
    random.seed(0)
    rows = [row for row in rows if isinstance(row, KernelRow)]

    def sum_errors(chip: Chip) -> float:
        return sum(min(abs(find_error(row, chip)), FAR) ** 2 for row in rows)

    best, step = sum_errors(chip), FIRST_STEP
    for draw in range(1, draws + 1):
        name = random.choice(FITTED)
        value = getattr(chip, name) * math.exp(random.gauss(0, step))
        other = dataclasses.replace(chip, **{name: value})
        if (errors := sum_errors(other)) < best:
            best, chip = errors, other
        if draw % DRAWS_OF_STEP == 0:
            step *= SHRINK
    return chip


def report(calibration: Calibration, draws: int, is_leaving_out: bool) -> None:
    chip, rows = Chip.load(CHIP), [*calibration.list_comparable()]
    chip = fit(chip, rows, draws)
    for name in FITTED:
        print(f"{name}: {getattr(chip, name):.4g}")
    errors = []
    for row in rows:
        used = chip
        if is_leaving_out:
            others = [other for other in rows if other is not row]
            used = fit(chip, others, draws // 10)
        errors.append(math.expm1(find_error(row, used)))
        print(f"{row.source:12} {row.name:40} {1e6 * row.seconds:9.1f} us "
              f"{100 * errors[-1]:+6.1f} %")  # fmt: skip
    print(f"{sum(abs(x) <= 0.15 for x in errors)} of {len(rows)} are within 15 %")
    for step, seconds in calibration.steps.items():
        predicted = calibration.predict_step(step, chip)
        print(
            f"{step}: {1e3 * seconds:.2f} ms measured, {1e3 * predicted:.2f} predicted"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("collect", help="count the work of measured kernels")
    command.add_argument("results", nargs="+", type=pathlib.Path, metavar="RESULT")
    command.add_argument("--artifacts", type=pathlib.Path, required=True)
    command = commands.add_parser("fit", help="fit rates, and print errors")
    command.add_argument("--draws", type=int, default=DRAWS, help="steps of the search")
    command.add_argument("--leave-one-out", action="store_true")
    arguments = parser.parse_args()
    if arguments.command == "collect":
        collect(arguments.results, arguments.artifacts)
    else:
        report(read(CHIP), arguments.draws, arguments.leave_one_out)


if __name__ == "__main__":
    main()
