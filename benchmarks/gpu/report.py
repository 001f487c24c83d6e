#!/usr/bin/env python3
"""Rows of results, and their tables. As a program: writes the pages of results/ again."""

from __future__ import annotations

import json
import pathlib

import counter_table
import profiles
from cases import Case
from goals import COLUMNS, LIVE, PLANNED, judge, list_file_goals

RESULTS = pathlib.Path(__file__).resolve().parent / "results"
PREDICTED = RESULTS / "predicted-h100.json"


def kernel_row(case: Case, moved: int, ms: float, copy_gbs: float) -> dict:
    return {
        "part": "kernels", "name": case.name, "title": case.title, "ms": round(ms, 4),
        **compare_with_copy(case, moved, ms, copy_gbs), "peers": {},
    }  # fmt: skip


def compare_with_copy(case: Case, moved: int, ms: float, copy_gbs: float) -> dict:
    """Returns the rate at which `moved` useful bytes move, and its share of a copy's."""
    gbs = moved / ms / 1e6
    return {"bytes": moved, "gbs": round(gbs), "share": round(gbs / copy_gbs, 3),
            "share_goal": case.share}  # fmt: skip


def line(row: dict) -> str:
    """What is printed when a row is there."""
    text = f"  {row['name']}: {row['ms']:.3f} ms"
    if "share" in row:
        text += f", {row['gbs']} GB/s, {100 * row['share']:.0f} % of a copy"
    for peer, value in row.get("peers", {}).items():
        text += f", {value['ratio']:.2f} of {peer}"
    return text


def mark(text: str, isMissed: bool) -> str:
    """What misses its goal is bold."""
    return f"**{text}**" if isMissed else text


def share(row: dict) -> str:
    goal = row["share_goal"]
    text = f"{100 * row['share']:.1f} %"
    if goal is None:
        return text
    return f"{mark(text, row['share'] < goal)} (≥ {100 * goal:.0f} %)"


def ratios(peers: dict) -> str:
    """Binade's over the peers'; followed by the goal, if there is one."""
    parts = []
    for peer, value in peers.items():
        text, goal = f"{value['ratio']:.3f}", value["goal"]
        if goal is not None:
            text = f"{mark(text, value['ratio'] > goal)} (≤ {goal:.2f})"
        parts.append(f"{text} {peer}")
    return "<br>".join(parts)


def over(row: dict, part: str, whole: str, goal: float) -> str:
    if part not in row:
        return ""
    ratio = row[part] / row[whole]
    return f"{mark(f'{ratio:.3f}', ratio > goal)} (≤ {goal:.2f})"


def table(columns: list[str], rows: list[list[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def kernels(result: dict) -> str:
    predicted = result["standing"] == "predicted"
    columns = ["kernel", "ms", "GB/s", "share of a copy (goal)", "time / peer's (goal)"]
    if predicted:
        columns += ["instructions, of the ALU, special", "limited by"]
    rows = []
    for row in result["rows"]:
        if row["part"] != "kernels":
            continue
        cells = [
            row["title"],
            f"{row['ms']:.3f}",
            str(row["gbs"]),
            share(row),
            ratios(row["peers"]),
        ]
        if predicted:
            counted = row["per_element"]
            cells += [
                f"{counted['instructions']}, {counted['alu']}, {counted['special']}",
                row["limit"],
            ]
        rows.append(cells)
    return table(columns, rows) if rows else ""


def steps(result: dict) -> str:
    columns = ["step", "ms", "memory, GiB", "planned, GiB", "memory / planned (goal)",
               "planned / live (goal)", "records", "time / peer's (goal)", "memory / peer's (goal)"]  # fmt: skip
    rows = []
    for row in result["rows"]:
        if row["part"] != "steps":
            continue
        measured = row.get("memory")
        rows.append(
            [
                row["title"],
                f"{row['ms']:.1f}",
                f"{measured / 2**30:.2f}" if measured else "",
                f"{row['arena'] / 2**30:.2f}",
                over(row, "memory", "arena", PLANNED),
                over(row, "arena", "live", LIVE),
                str(row["records"]),
                ratios(row["peers"]),
                ratios(row.get("memory_peers", {})),
            ]
        )
    return table(columns, rows) if rows else ""


def statistics(result: dict) -> str:
    rows = [
        [
            row["title"],
            str(row["statistics"]),
            f"{row['ms']:.2f}",
            f"{next(iter(row['peers'].values()))['ms']:.2f}",
            ratios(row["peers"]),
        ]
        for row in result["rows"]
        if row["part"] == "statistics"
    ]
    columns = ["step", "statistics", "ms", "ms without", "time / that without (goal)"]
    return table(columns, rows) if rows else ""


def loops(result: dict) -> str:
    rows = [
        [
            row["title"],
            f"{row['ms']:.3f}",
            ratios(row["peers"]),
            str(row["differences"]),
        ]
        for row in result["rows"]
        if row["part"] == "loop"
    ]
    columns = ["update", "ms", "time / peer's (goal)", "tensors with other bits"]
    return table(columns, rows) if rows else ""


def contractions(result: dict) -> str:
    columns = ["row", "ms", "TFLOP/s", "share of a copy (goal)", "time / peer's (goal)",
               "library"]  # fmt: skip
    rows = [
        [
            row["title"],
            f"{row['ms']:.3f}",
            f"{row['tflops']:.0f}" if "tflops" in row else "",
            share(row) if "share" in row else "",
            ratios(row["peers"]),
            row.get("implementation", ""),
        ]
        for row in result["rows"]
        if row["part"] in ("attention", "head", "matmuls")
    ]
    return table(columns, rows) if rows else ""


def launches(result: dict) -> str:
    columns = ["step", "records", "kernels", "ms", "ms of kernels", "ms between", "share",
               "by"]  # fmt: skip
    rows = [
        [
            row["title"],
            str(row["records"]),
            str(row.get("kernels", "")),
            f"{row['ms']:.2f}",
            f"{row['kernel_ms']:.2f}",
            f"{row['gap_ms']:.2f}",
            f"{100 * row['gap_ms'] / row['ms']:.1f} %",
            row["source"],
        ]
        for row in result["rows"]
        if row["part"] == "launches"
    ]
    return table(columns, rows) if rows else ""


def autotune(result: dict) -> str:
    columns = ["step", "ms", "time / peer's", "memory / peer's"]
    rows = [
        [
            row["title"],
            f"{row['ms']:.1f}",
            ratios(row["peers"]),
            ratios(row.get("memory_peers", {})),
        ]
        for row in result["rows"]
        if row["part"] == "autotune"
    ]
    return table(columns, rows) if rows else ""


def counters(result: dict) -> str:
    rows = [cells for row in result["rows"] for cells in counter_table.list_cells(row)]
    return table(counter_table.COLUMNS, rows) if rows else ""


def missing_peers(result: dict) -> str:
    """Why peers are missing, once for each reason."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in result["rows"]:
        for kind in ("unavailable", "memory_unavailable"):
            for peer, value in row.get(kind, {}).items():
                reasons.setdefault((peer, value["reason"]), []).append(row["name"])
    return "".join(
        f"- {peer}: {reason} ({', '.join(dict.fromkeys(names))})\n"
        for (peer, reason), names in reasons.items()
    )


def parts(result: dict) -> str:
    return table(
        ["part", "result", "s"],
        [[p["name"], p["message"] or p["status"], f"{p['seconds']:.0f}"]
         for p in result["parts"]],
    )  # fmt: skip


def render(result: dict, predicted: dict | None = None) -> str:
    """The page for a file of results; with a table of what was predicted, if given."""
    text = f"# {result['device']}, {result['date']}: {result['standing']}\n\n"
    text += f"Commit {result['commit']}."
    if result["standing"] == "predicted":
        text += " No device was available: these numbers are **predicted**. Assumed is that\n\n"
        text += "".join(f"- {entry}\n" for entry in result["assumptions"])
    else:
        text += f" Driver {result['driver']}, CUDA {result['cuda']}, PyTorch "
        text += result["torch"] or "not installed"
        if result["copy_gbs"]:
            text += f"; a copy moves {result['copy_gbs']:.0f} GB/s"
        text += f".\n\n{parts(result)}"
    if found := list_file_goals(result):
        goals = table(COLUMNS, [goal.list_cells() for goal in found])
        text += f"\n## Goals\n\n{judge(found)}\n\n{goals}"
    if missing := missing_peers(result):
        text += f"\n## Missing peers\n\n{missing}"
    for heading, section in (
        ("Kernels", kernels), ("Attention, heads and FP8 matmuls", contractions),
        ("Updates in PyTorch's loops", loops), ("Statistics", statistics), ("Steps", steps),
        ("Steps against max-autotune", autotune), ("Between kernels", launches),
        ("Hardware counters", counters),
    ):  # fmt: skip
        if made := section(result):
            text += f"\n## {heading}\n\n{made}"
        if predicted and made and (other := section(predicted)):
            text += f"\nPredicted ({predicted['date']}):\n\n{other}"
    for row in result["rows"]:
        if "profile" in row:
            text += f"\n## Profile: {row['title']}\n\n{profiles.render(row['profile'])}"
    return text


def render_file(path: pathlib.Path) -> str:
    """The page of a file of results, with what is predicted by now."""
    result = json.loads(path.read_text())
    if result["standing"] == "predicted" or not PREDICTED.exists():
        return render(result)
    return render(result, json.loads(PREDICTED.read_text()))


def write_pages(folder: pathlib.Path) -> None:
    """Writes the page of each file of results. Pages of measurements quote predictions."""
    for path in sorted(folder.glob("*.json")):
        path.with_suffix(".md").write_text(render_file(path))


if __name__ == "__main__":
    write_pages(RESULTS)
