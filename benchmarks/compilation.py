"""Times import and compilation of a model, with a cold and a warm kernel cache."""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import statistics
import subprocess
import tempfile
import time

from runtime import BUILD, ROOT

REPEATS = 5
DEFAULT = ROOT / "examples" / "char-gpt" / "char-gpt.onnx"


def compile_once(model: pathlib.Path, cache: str) -> tuple[float, dict[str, float]]:
    """Seconds in all, and by phase. Weights stay in their files."""
    start = time.perf_counter()
    process = subprocess.run(
        [BUILD / "bin" / "binade", "inspect", model, "--policy", "bf16-amp", "--timing"],
        env=os.environ | {"XDG_CACHE_HOME": cache},
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    phases: dict[str, float] = {}
    # Warnings about the model are on the same stream.
    for name, seconds in re.findall(
        r"^(\w+) +([\d.]+) s$", process.stderr, re.MULTILINE
    ):
        phases[name] = phases.get(name, 0) + float(seconds)
    return time.perf_counter() - start, phases


def measure(arguments: argparse.Namespace) -> None:
    model = arguments.model or DEFAULT
    rows: dict[str, list] = {"cold": [], "warm": []}
    for _ in range(REPEATS):
        with tempfile.TemporaryDirectory() as cache:
            for kind in rows:
                rows[kind].append(compile_once(model, cache))
    print(f"  {model}, bf16-amp, median of {REPEATS}")
    for kind, runs in rows.items():
        whole = statistics.median(seconds for seconds, _ in runs)
        phases = {
            name: statistics.median(phase[name] for _, phase in runs)
            for name in runs[0][1]
        }
        shown = ", ".join(f"{name} {s:.2f}" for name, s in phases.items())
        print(f"  {kind}: {whole:.2f} s ({shown})")
