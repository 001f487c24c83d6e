"""Profiles a step by timing its records one by one."""

from __future__ import annotations

import collections
import json
import pathlib
import statistics
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from runtime import Program

LINES = 24  # The page shows so many lines, those with the most time.
# Of the table of records: the place in the plan's list, and in the lists of loops; the
# milliseconds of all calls in a step; what a call moves and computes.
COLUMNS = ["path", "label", "kind", "calls", "ms", "bytes", "flops", "implementation"]


def measure(program: Program, steps: int, records: list[dict] | None = None) -> dict:
    """Runs `steps` steps record by record, which takes longer than a graph. Returns the
    total milliseconds, calls, bytes, operations and share of the roofline of each kernel or
    kind of call, separately for each size of its calls; and, if the plan's `records` are
    given, a table of them."""
    program.set_profiling(True)
    for _ in range(steps):
        program.run()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "trace.json"
        program.write_trace(path)
        trace = json.loads(path.read_text())
    program.set_profiling(False)
    profile = summarize(trace, steps)
    if records is not None:
        profile["records"] = {
            "columns": COLUMNS,
            "rows": tabulate(trace, records, steps),
        }
    return profile


def list_calls(records: list[dict], path: str = "") -> Iterator[str]:
    """Yields the path of each record that a step runs, in the order of execution."""
    for number, record in enumerate(records):
        if record["kind"] == "loop":
            for _ in range(record["count"]):
                yield from list_calls(record["body"], f"{path}{number}/")
        else:
            yield f"{path}{number}"


def tabulate(trace: dict, records: list[dict], steps: int) -> list[list]:
    """Returns a row of each record, with the median of its time in the steps. There are none
    if the trace has other calls than the plan."""
    calls = [
        event
        for event in trace["traceEvents"]
        if event["ph"] == "X" and event["cat"] not in ("step", "loop", "transfer")
    ]
    paths = list(list_calls(records))
    if len(calls) != steps * len(paths):
        return []
    times = collections.defaultdict(lambda: [0.0] * steps)
    events = dict(zip(paths, calls))
    for index, event in enumerate(calls):
        times[paths[index % len(paths)]][index // len(paths)] += event["dur"]
    counts = collections.Counter(paths)
    rows = []
    for path, event in events.items():
        arguments = event.get("args", {})
        rows.append(
            [path, event["name"], event["cat"], counts[path],
             round(statistics.median(times[path]) / 1e3, 4), arguments.get("bytes", 0),
             arguments.get("flops", 0), arguments.get("implementation", "")]
        )  # fmt: skip
    return rows


def summarize(trace: dict, steps: int) -> dict:
    rows = collections.defaultdict(lambda: [0.0, 0, 0.0])
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
            row[2] += arguments.get("roofline", 0) * event["dur"]
            implementations[key] = arguments.get("implementation", "")
    lines = [
        {"kind": kind, "name": name, "ms": round(us / 1e3, 3), "calls": calls,
         "bytes": calls * moved, "flops": calls * flops,
         "roofline": round(least / us, 3) if us else 0,
         "implementation": implementations[kind, name, moved, flops]}
        for (kind, name, moved, flops), (us, calls, least) in rows.items()
    ]  # fmt: skip
    lines.sort(key=lambda line: -line["ms"])
    ceilings = trace["otherData"]["ceilings"]["sources"]
    return {"steps": steps, "ms": round(total / 1e3, 3), "ceilings": ceilings,
            "kinds": len(lines), "lines": lines}  # fmt: skip


def render(profile: dict) -> str:
    """Returns the profile as a table, followed by the sources of its rooflines."""
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
