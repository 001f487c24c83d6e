"""Times the choice of formats for random training steps of up to a million ops."""

from __future__ import annotations

import argparse
import math
import pathlib
import re
import subprocess
import sys
import tempfile

from runtime import BUILD, ROOT

OPT = BUILD / "bin" / "binade-opt"
# Ops of the forward graphs; training steps have three times as many.
SIZES = [1_000, 10_000, 80_000, 300_000]
REPEATS = 3
COSTS = "x86-64-v4-bf16"
POLICIES = {
    "bf16-amp": "",
    "cut": f"extends: bf16-amp\ncut: {{ costs: {COSTS} }}\n",
    "cut of fp8": f"extends: fp8-current\ncut: {{ costs: {COSTS} }}\n",
}
# A line of --mlir-timing.
TIME = r"([\d.]+) \( .*\)  (AssignPrecisionPass|Parser)$"


def write_step(folder: pathlib.Path, ops: int) -> pathlib.Path:
    graph, step = folder / "graph.mlir", folder / "step.mlir"
    generator = [sys.executable, ROOT / "utils" / "generate_graph.py", "--seed", "7"]
    subprocess.run(
        [*generator, "--ops", str(ops), "--flavour", "layers", "-o", graph], check=True
    )
    passes = ["--binade-autodiff-pipeline", "--binade-optimizer-pipeline=optimizer=sgd"]
    subprocess.run([OPT, graph, *passes, "--verify-each=0", "-o", step], check=True)
    graph.unlink()
    return step


def time_assignment(step: pathlib.Path, policy: str) -> tuple[float, float]:
    """Seconds of the pass, and of parsing: the shortest of a few runs."""
    command = [
        OPT, step, f"--binade-assign-precision=policy={policy}", "--mlir-timing",
        "--verify-each=0", "-o", "/dev/null",
    ]  # fmt: skip
    rows = []
    for _ in range(REPEATS):
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        found = re.findall(TIME, done.stderr, re.MULTILINE)
        seconds = {name: float(text) for text, name in found}
        rows.append((seconds["AssignPrecisionPass"], seconds["Parser"]))
    return min(row[0] for row in rows), min(row[1] for row in rows)


def measure(arguments: argparse.Namespace) -> None:
    times: dict[str, list[tuple[int, float]]] = {name: [] for name in POLICIES}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for size in SIZES:
            step = write_step(folder, size)
            with step.open() as lines:
                ops = sum("= binade." in line for line in lines)
            for kind, text in POLICIES.items():
                policy = folder / "policy.yaml"
                policy.write_text(f"name: mine\n{text}")
                assign, parse = time_assignment(step, str(policy) if text else kind)
                times[kind].append((ops, assign))
                print(
                    f"  {ops} ops, {kind}: {assign:.3f} s, {1e6 * assign / ops:.2f} us "
                    f"per op, {assign / parse:.0%} of parsing",
                    flush=True,
                )
    for kind, rows in times.items():
        (few, short), (many, long) = rows[0], rows[-1]
        slope = math.log(long / short) / math.log(many / few)
        print(f"  {kind}: slope {slope:.2f} from {few} to {many} ops")
