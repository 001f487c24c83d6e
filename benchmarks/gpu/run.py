#!/usr/bin/env python3
"""Runs every check and measurement that needs a GPU, from what prepare.sh has made.

    benchmarks/gpu/run.sh [--quick] [--only NAME,...] [...] [PART...]

Needs NVIDIA's driver, Python with NumPy and ml_dtypes and, for peers, PyTorch; nothing of
Binade's compiler, LLVM or CUDA. Takes at most eight minutes, with --quick three: each part
ends after its time, what it has measured is kept, and the next part begins. Parts, in the
order in which they run; those with an asterisk only if they are named:

  conversions  every edge of every narrow format, by the device's instructions
  expansion    formats that expand ranges: the bits of the reference
  records      small bundles, each record from the CPU's bytes, by the bundle's own
               kernels and by NVIDIA's libraries, twice
  models       small models in several policies, on the CPU and twice on the device
  steps        GPT-2 and Llama: time, memory and where the time goes, against
               torch.compile
  attention    forward and backward, against cuDNN and FlashAttention
  head         heads with their loss, against torch.compile, in one piece and in chunks,
               and Liger
  kernels      updates and quantizers against a copy, PyTorch, bitsandbytes, torchao
  matmuls      FP8 matmuls against PyTorch's
  launches     how many kernels a step launches, and the time between them
  statistics   what all statistics in each step cost
  rates *      what memory, caches, arithmetic units, launches, matmuls and fused
               attention reach, for models of costs
  autotune *   GPT-2 against torch.compile with max-autotune
  attention-counters, kernels-counters, steps-counters *
               hardware counters of the kernels of rows, by Nsight Compute

Writes DEVICE-DATE.json and .md into --out (benchmarks/gpu/results), anew with each result
that is there, so that a run that is cut off keeps what it had: commit them. A later run of
the same artifacts on the same device adds to this file, and replaces only the rows that it
measures.
Exit codes: 0; 1 if a part failed; 2 for a wrong command line; 6 without a device.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import report
import selection
from artifacts import FOLDER, find_commit, find_missing, read_manifest
from machine import find_device, make_environment
from parts import (
    DEVICE_SECONDS,
    PARTS,
    QUICK_SECONDS,
    add_arguments,
    choose,
)
from result_file import ResultFile

HERE = pathlib.Path(__file__).resolve().parent
POLL = 0.5  # Seconds between looks at what a part has written.
NO_DEVICE = 6


def stop(child: subprocess.Popen) -> None:
    """And whatever it has started: nothing may hold the device when the next begins."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def explain(status: str, child: subprocess.Popen, said: str, limit: float) -> str:
    if status == "stopped":
        return f"not done after {limit:.0f} s"
    return said.split("\n")[-1][:500] or f"exit code {child.returncode}"


def run_program(
    name: str, limit: float, artifacts: pathlib.Path, folder: pathlib.Path,
    environment: dict, results: ResultFile,
) -> None:  # fmt: skip
    """Runs the program of a part, and adds what it writes."""
    part = results.parts[-1]
    out, errors = folder / f"{name}.json", folder / f"{name}.txt"
    start, seen = time.perf_counter(), None
    with errors.open("w") as log:
        child = subprocess.Popen(
            [sys.executable, HERE / PARTS[name].program, *PARTS[name].arguments,
             str(artifacts), str(out)],
            env=environment, stderr=log, start_new_session=True,
        )  # fmt: skip
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(POLL)
                part["seconds"] = round(time.perf_counter() - start, 1)
                isOver = child.returncode is not None or part["seconds"] > limit
                if isOver:
                    break
                if out.exists() and (now := out.stat().st_mtime_ns) != seen:
                    seen = now
                    results.update(json.loads(out.read_text()))
        finally:
            stop(child)
    said = errors.read_text().strip()
    if child.returncode == 0:
        part["status"] = "passed"
    else:
        isStopped = child.returncode == -signal.SIGKILL and part["seconds"] > limit
        part["status"] = "stopped" if isStopped else "failed"
        part["message"] = explain(part["status"], child, said, limit)
        if not isStopped:
            print(said, file=sys.stderr)
    if out.exists():
        results.update(json.loads(out.read_text()))


class Run:
    """Parts of one command, one after the other, until the time of all is over."""

    def __init__(
        self,
        arguments: argparse.Namespace,
        manifest: dict,
        results: ResultFile,
        begin: float,
    ):
        self.arguments, self.manifest, self.results = arguments, manifest, results
        self.artifacts = arguments.artifacts.resolve()
        seconds = QUICK_SECONDS if arguments.quick else DEVICE_SECONDS
        self.end = begin + seconds * arguments.time

    def run(self, name: str, folder: pathlib.Path, environment: dict) -> None:
        part = {"name": name, "status": "failed", "message": "", "seconds": 0.0,
                "commit": find_commit()}  # fmt: skip
        self.results.add(part)
        missing = find_missing(self.artifacts, self.manifest, PARTS[name].folder)
        left = self.end - time.perf_counter()
        if missing:
            part["message"] = missing
        elif left <= 0:
            part |= {"status": "stopped", "message": "no time was left"}
        else:
            isQuick = self.arguments.quick
            limit = PARTS[name].quick if isQuick else PARTS[name].seconds
            limit = min(limit * self.arguments.time, left)
            print(f"{name}: at most {limit:.0f} s", flush=True)
            rows = self.arguments.only or (PARTS[name].quick_rows if isQuick else ())
            chosen = selection.write(rows, isQuick, self.manifest["tiny"])
            # Until the part is over; and afterwards, if this process is ended before.
            part["status"] = "stopped"
            run_program(
                name, limit, self.artifacts, folder, environment | chosen, self.results
            )
        print(f"{name}: {part['status']} after {part['seconds']:.0f} s {part['message']}",
              flush=True)  # fmt: skip
        self.results.write()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_arguments(parser, "those listed above without an asterisk")
    parser.add_argument(
        "--quick", action="store_true",
        help=f"at most {QUICK_SECONDS} s: fewer parts, rows, peers and repetitions",
    )  # fmt: skip
    parser.add_argument(
        "--artifacts", type=pathlib.Path, default=FOLDER, help="what prepare.sh wrote"
    )
    parser.add_argument(
        "--out", type=pathlib.Path, default=report.RESULTS, help="folder of results"
    )
    parser.add_argument(
        "--time", type=float, default=1, help="factor for all time limits"
    )
    arguments = parser.parse_args()
    without = [name for name in arguments.parts if not PARTS[name].quick]
    if arguments.quick and without:
        parser.error(f"--quick does not run part {without[0]}")
    return arguments


def choose_parts(arguments: argparse.Namespace, manifest: dict) -> list[str]:
    prepared = manifest.get("parts", list(PARTS))
    for name in arguments.parts:
        if name not in prepared:
            raise SystemExit(
                f"run: error: {arguments.artifacts} has no part {name}, only "
                f"{', '.join(prepared)}: prepare it with benchmarks/gpu/prepare.sh"
            )
    names = arguments.parts or choose(prepared, arguments.quick)
    made = [pathlib.PurePath(file) for file in manifest.get("files", [])]
    folders = {PARTS[name].folder for name in names}
    rows = {
        path.stem.removesuffix("-cuda") for path in made if path.parts[0] in folders
    }
    for row in arguments.only:
        if row not in rows:
            raise SystemExit(
                f"run: error: no row is called {row} in {', '.join(names)}; there are "
                f"{', '.join(sorted(rows))}"
            )
    return names


def main() -> int:
    begin, arguments = time.perf_counter(), parse()
    artifacts = arguments.artifacts.resolve()
    manifest, environment = read_manifest(artifacts), make_environment(artifacts)
    parts = choose_parts(arguments, manifest)
    if missing := find_missing(artifacts, manifest, "runtime"):
        raise SystemExit(f"run: error: {missing}")
    device = find_device(environment)
    if isinstance(device, str):
        print(
            "run: error: these measurements need a CUDA device, and there is none:\n"
            f"{device}\nrun: note: what is predicted without one: "
            "benchmarks/gpu/results/predicted-h100.md",
            file=sys.stderr,
        )
        return NO_DEVICE
    print(f"{device['device_line']}; driver {device['driver']}", flush=True)
    isSimulated = device["device"].startswith("Simulated")
    about = {
        "standing": "simulated: the times mean nothing" if isSimulated else "measured",
        **device, "date": datetime.date.today().isoformat(),
        "commit": find_commit(), "artifacts": manifest["commit"],
    }  # fmt: skip
    if "+" in manifest["commit"]:  # The commit does not say which files were changed.
        about["prepared"] = manifest["date"]
    arguments.out.mkdir(parents=True, exist_ok=True)
    results = ResultFile(arguments.out, about)
    run = Run(arguments, manifest, results, begin)
    # Who ends this process ends the part that runs, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with tempfile.TemporaryDirectory() as folder:
        for name in parts:
            run.run(name, pathlib.Path(folder), environment)
    print(results.path)
    return int(any(part["status"] != "passed" for part in results.parts))


if __name__ == "__main__":
    sys.exit(main())
