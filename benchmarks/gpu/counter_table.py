"""Hardware counters of kernels: reads what Nsight Compute prints, and makes a table of it."""

from __future__ import annotations

import csv
import re

# Columns of the table, with the counters that they show, by Nsight Compute's names.
SHOWN = {
    "ms": ("gpu__time_duration.sum", 1e-6),
    "DRAM, %": ("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", 1),
    "L2, %": ("lts__throughput.avg.pct_of_peak_sustained_elapsed", 1),
    "L2 hits, %": ("lts__t_sector_hit_rate.pct", 1),
    "issue slots, %": ("smsp__issue_active.avg.pct_of_peak_sustained_active", 1),
    "occupancy, %": ("sm__warps_active.avg.pct_of_peak_sustained_active", 1),
    "registers": ("launch__registers_per_thread", 1),
}
# How busy a pipe was: the share of cycles in which it was active or, for pipes without this
# counter, in which it was given an instruction. Left out are sub-pipes (tensor_op_*) and the parent
# pipe (shared), whose activity `tensor` already counts.
PIPES = [
    re.compile(rf"sm__{name}\.avg\.pct_of_peak_sustained_active")
    for name in (
        r"inst_executed_pipe_((?!shared|tensor_op_)\w+)",
        r"pipe_((?!shared|tensor_op_)\w+)_cycles_active",
    )
]
# For how many cycles warps wait per issued instruction. Warps that are selected do not wait.
STALLS = [
    re.compile(
        r"smsp__average_warps_issue_stalled_((?!selected)\w+)_per_issue_active\.ratio"
    )
]
SHOWN_PER_KIND = 3  # Most pipes, and most stalls, in a row.


def read_counters(text: str) -> list[dict]:
    """Returns of each kernel its name and all its counters, from ncu's table: a line of names,
    one of units, and a line for each kernel."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    rows = list(csv.DictReader(lines))[1:]
    return [
        {"kernel": row["Kernel Name"]}
        | {name: value for name, text in row.items() if (value := parse(text)) is not None}
        for row in rows
    ]  # fmt: skip


def parse(text: str | None) -> float | None:
    try:
        return float((text or "").replace(",", ""))
    except ValueError:
        return None


def summarize(counters: dict) -> dict:
    """Returns what the table shows of a kernel."""
    shown = {"kernel": counters["kernel"]}
    for column, (name, factor) in SHOWN.items():
        if name in counters:
            shown[column] = round(counters[name] * factor, 4)
    for kind, patterns in (("pipes", PIPES), ("stalls", STALLS)):
        found = {}
        for pattern in patterns:  # Later ones replace what earlier ones found.
            found |= {
                match[1]: round(value, 2)
                for name, value in counters.items()
                if (match := pattern.fullmatch(name))
            }
        largest = sorted(filter(found.get, found), key=lambda name: -found[name])
        shown[kind] = {name: found[name] for name in largest[:SHOWN_PER_KIND]}
    return shown


def list_cells(row: dict) -> list[list[str]]:
    """Returns the cells of each kernel of a row, in the order of COLUMNS."""
    return [
        [
            row["title"],
            kernel["kernel"],
            *(f"{kernel[name]:.4g}" if name in kernel else "" for name in SHOWN),
            *(
                ", ".join(f"{name} {value:.3g}" for name, value in kernel[kind].items())
                for kind in ("pipes", "stalls")
            ),
        ]
        for kernel in row.get("counters", [])
    ]


COLUMNS = ["row", "kernel", *SHOWN, "busiest pipes, %",
           "stalls, cycles per instruction"]  # fmt: skip
