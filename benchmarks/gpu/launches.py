"""Part of run.py: counts the kernels that a step launches, and measures the time in which none
runs.

PyTorch's profiler traces all kernels of the process, those of other libraries' graphs, too.
Without it the times of records are added, which events between them prolong. Each step has a
process of its own: a trace slows down what is timed after it.
"""

from __future__ import annotations

import collections
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import peers
import profiles
import timing
import whole
from artifacts import list_made, read_manifest
from comparison import NO_DEVICE
from rows import Rows
from selection import count_rounds
from steps import Step, list_steps

ROUNDS = 10
KINDS = ("kernel", "gpu_memcpy", "gpu_memset")  # Of events of a trace.


def trace(program) -> dict:
    """Returns a trace of one step, as Chrome's tracing has it."""
    if not peers.HAS_DEVICE:
        raise RuntimeError(NO_DEVICE)
    torch = peers.torch
    torch.ones(1, device="cuda").add_(1)  # The profiler needs PyTorch's context.
    torch.cuda.synchronize()
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CUDA]
    ) as profiler:
        program.run()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        return json.loads(path.read_text())


def summarize(trace: dict) -> dict:
    """Returns how many kernels and copies a trace has, their milliseconds, those from the
    first's start to the last's end, those in which none of them runs, and a table by names."""
    events = [e for e in trace["traceEvents"] if e.get("cat") in KINDS]
    if not events:
        raise RuntimeError("the trace has no kernels")
    events.sort(key=lambda event: event["ts"])
    end, idle = events[0]["ts"], 0.0
    names = collections.defaultdict(lambda: [0, 0.0])
    for event in events:
        idle += max(0.0, event["ts"] - end)
        end = max(end, event["ts"] + event["dur"])
        entry = names[event["name"]]
        entry[0] += 1
        entry[1] += event["dur"] / 1e3
    kernels = [event for event in events if event["cat"] == "kernel"]
    table = [[name, calls, round(ms, 4)] for name, (calls, ms) in names.items()]
    return {
        "kernels": len(kernels), "copies": len(events) - len(kernels),
        "kernel_ms": round(sum(event["dur"] for event in events) / 1e3, 4),
        "span_ms": round((end - events[0]["ts"]) / 1e3, 4),
        "idle_ms": round(idle / 1e3, 4), "source": "PyTorch's profiler",
        "by_name": {"columns": ["name", "calls", "ms"],
                    "rows": sorted(table, key=lambda row: -row[2])},
    }  # fmt: skip


def add_records(program) -> dict:
    """Returns the same, as far as the times of records say it."""
    profile = profiles.measure(program, 1)
    ms = sum(line["ms"] for line in profile["lines"] if line["kind"] != "transfer")
    return {"kernel_ms": round(ms, 4), "source": "times of records"}


def measure(step: Step, folder: pathlib.Path) -> dict:
    loaded = whole.LoadedStep(step, folder, np.random.default_rng(0))
    program = loaded.program
    times = timing.alternate({"": program.run}, count_rounds(ROUNDS))[""]
    ms = round(timing.median(times), 3)
    row = {"part": "launches", "name": step.name, "title": step.title, "ms": ms,
           "records": loaded.describe("")["records"]}  # fmt: skip
    try:
        row |= summarize(trace(program))
    except Exception as error:  # Of PyTorch.
        reason = f"{type(error).__name__}: {str(error)[:200]}"
        row |= add_records(program) | {"notes": [f"PyTorch's profiler: {reason}"]}
    row["gap_ms"] = round(row["ms"] - row["kernel_ms"], 4)
    return row


def main(folder: pathlib.Path, out: pathlib.Path) -> None:
    tiny, rows = read_manifest(folder)["tiny"], Rows(out)
    for step in list_made(list_steps(tiny), folder / "steps"):
        one = out.with_name(f"{out.stem}-{step.name}.json")
        done = subprocess.run(
            [sys.executable, __file__, str(folder), str(one), step.name],
            stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"{step.name}: {done.stderr.strip()}")
        rows.add(json.loads(one.read_text()))


def main_of_step(folder: pathlib.Path, out: pathlib.Path, name: str) -> None:
    tiny = read_manifest(folder)["tiny"]
    (step,) = [step for step in list_steps(tiny) if step.name == name]
    out.write_text(json.dumps(measure(step, folder / "steps")))


if __name__ == "__main__":
    if len(sys.argv) > 3:
        main_of_step(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3])
    else:
        main(*map(pathlib.Path, sys.argv[1:]))
