"""Profiles a step by timing its records one by one."""

from __future__ import annotations

import collections
import json
import pathlib
import tempfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runtime import Program

LINES = 24  # Of the page's table, those with the most time.


def measure(program: Program, steps: int) -> dict:
    """Of `steps` steps, by kernel or kind of call and the bytes that a call moves:
    milliseconds in all, calls, bytes, operations, and the share of the roofline. What runs
    them one by one takes longer than a graph."""
    program.set_profiling(True)
    for _ in range(steps):
        program.run()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "trace.json"
        program.write_trace(path)
        trace = json.loads(path.read_text())
    program.set_profiling(False)
    return summarize(trace, steps)


def summarize(trace: dict, steps: int) -> dict:
    rows = collections.defaultdict(lambda: [0.0, 0, 0, 0.0, 0])
    implementations, total = {}, 0.0
    for event in trace["traceEvents"]:
        arguments = event.get("args", {})
        if event["ph"] != "X":
            continue
        if event["cat"] == "step":
            total += event["dur"]
        elif event["cat"] != "loop":
            name = (
                event["name"]
                if event["cat"] == "transfer"
                else event["name"].split()[0]
            )
            key = (
                event["cat"],
                name,
                arguments.get("bytes", 0),
                arguments.get("flops", 0),
            )
            row = rows[key]
            row[0] += event["dur"]
            row[1] += 1
            row[2] += arguments.get("bytes", 0)
            row[3] += arguments.get("roofline", 0) * event["dur"]
            row[4] += arguments.get("flops", 0)
            implementations[key] = arguments.get("implementation", "")
    lines = [
        {"kind": kind, "name": name, "ms": round(us / 1e3, 3), "calls": calls,
         "bytes": moved, "flops": flops, "roofline": round(least / us, 3) if us else 0,
         "implementation": implementations[key]}
        for key, (us, calls, moved, least, flops) in rows.items()
        for kind, name in [key[:2]]
    ]  # fmt: skip
    lines.sort(key=lambda line: -line["ms"])
    ceilings = trace["otherData"]["ceilings"]["sources"]
    return {"steps": steps, "ms": round(total / 1e3, 3), "ceilings": ceilings,
            "kinds": len(lines), "lines": lines}  # fmt: skip


def render(profile: dict) -> str:
    """As a table, with what it was compared with."""
    text = f"{profile['ms']:.2f} ms in {profile['steps']} steps, one record after the other"
    if profile["kinds"] > LINES:
        text += f"; of {profile['kinds']} kinds those with the most time"
    text += ".\n\n| share | ms | calls | GB/s | roofline | kind | name |\n"
    text += "|---" * 7 + "|\n"
    for line in profile["lines"][:LINES]:
        gbs = line["bytes"] / line["ms"] / 1e6 if line["ms"] else 0
        name = f"{line['name']} ({line['implementation']})"
        text += (
            f"| {100 * line['ms'] / profile['ms']:.1f} % | {line['ms']:.2f} | {line['calls']} "
            f"| {gbs:.0f} | {100 * line['roofline']:.0f} % | {line['kind']} "
            f"| {name if line['implementation'] else line['name']} |\n"
        )
    return text + "".join(f"\n- {source}" for source in profile["ceilings"]) + "\n"
