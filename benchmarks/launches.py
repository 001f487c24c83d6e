"""Times a launch on one thread and on all, by its size: what waiting for threads costs."""

from __future__ import annotations

import argparse
import os
import pathlib
import statistics
import tempfile
import time

from runtime import Program, compile_step

THREADS = len(os.sched_getaffinity(0))
SIZES = [1 << power for power in range(10, 21)]
# Of few and of many instructions for an element.
OPS = {"add": "add %x, %y", "gelu": "gelu %x"}
BATCH = 50


def write(op: str, elements: int) -> str:
    """A step of one launch."""
    tensor = f"tensor<{elements}xf32>"

    def port(role: str, name: str) -> str:
        return f'{{binade.role = #binade.role<{role}>, binade.name = "{name}"}}'

    types = ", ".join([tensor] * (1 + op.count(",")))
    return f"""
func.func @step(%x: {tensor} {port("batch", "x")}, %y: {tensor} {port("batch", "y")})
    -> ({tensor} {port("output", "z")}) {{
  %z = binade.{op} : ({types}) -> {tensor}
  return %z : {tensor}
}}"""


def time_runs(program: Program) -> float:
    """Microseconds of a run, the mean of a few in a row."""
    start = time.perf_counter()
    for _ in range(BATCH):
        program.run()
    return 1e6 * (time.perf_counter() - start) / BATCH


def measure(arguments: argparse.Namespace) -> None:
    print(f"  us of a launch in f32, shortest and median: 1 thread, {THREADS} threads")
    for name, op in OPS.items():
        for elements in SIZES:
            with tempfile.TemporaryDirectory() as folder:
                source = pathlib.Path(folder) / "step.mlir"
                source.write_text(write(op, elements))
                bundle = compile_step(
                    source, source.with_suffix(".bnd"), "--from=programs"
                )
                programs = [Program(bundle, threads) for threads in (1, THREADS)]
            times: list[list[float]] = [[], []]
            for i in range(20 * arguments.pairs):
                which = i % len(programs)
                times[which].append(time_runs(programs[which]))
            shown = [f"{min(row):.1f} {statistics.median(row):.1f}" for row in times]
            print(f"  {name} {elements}: {', '.join(shown)}", flush=True)
