#!/usr/bin/env python3
"""Rows of results, and their tables. As a program: writes the pages of results/ again."""

from __future__ import annotations

import json
import pathlib

import profiles
from cases import Case

RESULTS = pathlib.Path(__file__).resolve().parent / "results"
PREDICTED = RESULTS / "predicted-h100.json"
PLANNED = 1.01  # Most that a step may take of the memory of its plan.
LIVE = 1.02  # Most that this may be of what is there at a time.


def kernel_row(case: Case, moved: int, ms: float, copy_gbs: float) -> dict:
    """`moved` are useful bytes."""
    gbs = moved / ms / 1e6
    return {
        "part": "kernels", "name": case.name, "title": case.title, "bytes": moved,
        "ms": round(ms, 4), "gbs": round(gbs), "share": round(gbs / copy_gbs, 3),
        "share_goal": case.share, "peers": {},
    }  # fmt: skip


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


def ratios(peers: dict, predicted: bool = False) -> str:
    """Binade's over the peers'; followed by the goal, if there is one. To what a peer takes at
    least none is missed for certain."""
    parts = []
    for peer, value in peers.items():
        text, goal = f"{value['ratio']:.3f}", value["goal"]
        if goal is not None:
            isMissed = value["ratio"] > goal and not predicted
            text = f"{mark(text, isMissed)} (≤ {goal:.2f})"
        parts.append(f"{text} {peer}")
    return "<br>".join(parts)


def list_goals(row: dict) -> list[bool]:
    """Which of a row's goals are reached."""
    shares = [(row["share"], row["share_goal"])] if "share" in row else []
    reached = [share >= goal for share, goal in shares if goal is not None]
    for peers in (row["peers"], row.get("memory_peers", {})):
        reached += [
            value["ratio"] <= value["goal"]
            for value in peers.values()
            if value["goal"] is not None
        ]
    if "memory" in row:
        reached.append(row["memory"] <= PLANNED * row["arena"])
    if "live" in row:
        reached.append(row["arena"] <= LIVE * row["live"])
    return reached


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
    peer = "peer's least" if predicted else "peer's"
    columns = [
        "kernel",
        "ms",
        "GB/s",
        "share of a copy (goal)",
        f"time / {peer} (goal)",
    ]
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
            ratios(row["peers"], predicted),
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
        text += "\nA share that is bold misses its goal even so.\n"
    else:
        text += f" Driver {result['driver']}, CUDA {result['cuda']}, PyTorch "
        text += f"{result['torch'] or 'not installed'}; a copy moves "
        text += f"{result['copy_gbs']:.0f} GB/s.\n\n{parts(result)}"
        reached = [goal for row in result["rows"] for goal in list_goals(row)]
        text += f"\n{sum(reached)} of {len(reached)} goals are reached; the others are bold.\n"
    for heading, section in (
        ("Kernels", kernels), ("Statistics", statistics), ("Steps", steps),
    ):  # fmt: skip
        if made := section(result):
            text += f"\n## {heading}\n\n{made}"
        if predicted and made:
            text += f"\nPredicted ({predicted['date']}):\n\n{section(predicted)}"
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


def main() -> None:
    for path in sorted(RESULTS.glob("*.json")):
        path.with_suffix(".md").write_text(render_file(path))


if __name__ == "__main__":
    main()
