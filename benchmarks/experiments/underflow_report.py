"""Tables and pictures of docs/Underflow.md from docs/results/underflow.json."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterable

from training import ROOT, table

RESULTS = ROOT / "docs/results/underflow.json"
FP16, BF16 = "fp16-amp", "bf16-amp"
# What PyTorch 2.13 did (torch.autocast on a CPU, with GradScaler for f16), one seed, in the
# order of HEAD; shares as such. Where both have fewer steps: 600 of `fp16-large`, but for
# `memo-raw`, and of `late`.
PYTORCH = {
    "natural.fp16-amp": (0, 16, 0, 0, 0, 0, 0, 0, 10.38, 0.3497),
    "natural.bf16-amp": (0, None, 0, 7.353e-8, 0, 0.0001706, 0.0116, 0, 10.25, 0.3764),
    "natural.fp16-large": (8, 16, 0, 1.786e-7, 0, 0, 0, 0, 10.2, 0.511),
    "detector.fp16-amp": (1, 15, 0, 0, 0, 0, 0, 0, 3.451, 0.2606),
    "late.fp16-amp": (
        4, 12, 0.0005067, 0.00069, 0.00812, 0.01077, 0.0116, 0.0116, 45.02, 0.0002424),
    "late-raw.fp16-amp": (
        10, 6, 0.0005067, 0.004463, 0.00812, 0.04577, 0.3953, 0.0372, 0.1164, 3.555e-5),
    "late-raw.bf16-amp": (0, None, 0, 0, 0, 0, 0, 0, 29.95, 0.0001002),
    "late-raw.fp16-large": (
        14, 9, 0.0004285, 0.003442, 0.008507, 0.02365, 0.3023, 0.0116, 0.119, 0.001391),
    "memo.fp16-amp": (
        4, 12, 0.0007212, 3.144e-5, 0.01008, 0.0009667, 0.0116, 0.00232, 35.42, 1.355e-5),
    "memo-raw.fp16-amp": (
        10, 6, 0.0007212, 0.3319, 0.01008, 0.8309, 0.907, 0.8209, 7e-8, 1.75e-8),
    "memo-raw.bf16-amp": (0, None, 0, 0, 0, 0, 0, 0, 26.06, 2.448e-5),
    "memo-raw.fp16-large": (
        10, 17, 6.717e-5, 0.0009224, 0.001933, 0.01163, 0.0698, 0.00116, 1.9e-7, 3.75e-8),
}  # fmt: skip
HEAD = [
    "policy", "skipped", "last scale", "lost before, %", "after", "flagged before, %",
    "after", "at most", "last 100", "largest loss", "loss of the last 100",
]  # fmt: skip


def read(path: pathlib.Path = RESULTS) -> dict[str, dict[str, list[dict]]]:
    """Runs by regime and policy, one of each seed."""
    found: dict[str, dict[str, list[dict]]] = {}
    for name, run in json.loads(path.read_text())["runs"].items():
        regime, policy, _ = name.rsplit(".", 2)
        found.setdefault(regime, {}).setdefault(policy, []).append(run)
    return found


def span(values: Iterable[float], digits: int = 2, factor: float = 1) -> str:
    """A number that all share, or the minimum and the maximum."""
    texts = [f"{factor * value:.{digits}g}" for value in sorted(values)]
    return texts[0] if texts[0] == texts[-1] else f"{texts[0]} to {texts[-1]}"


def summarize(run: dict) -> tuple:
    """As a line of `PYTORCH`."""
    before, after, last = run["before"], run["after"], run["last 100"]
    return (
        len(run["skipped"]), run["log2 scale"][-1][1] if run["log2 scale"] else None,
        before["lost"], after["lost"], before["flagged 0.01"], after["flagged 0.01"],
        after["peak"], last["flagged 0.01"], run["peak loss"], last["loss"],
    )  # fmt: skip


def make_row(name: str, runs: list[tuple]) -> list[str]:
    skipped, scales, *shares, largest, loss = zip(*runs)
    scale = "" if scales[0] is None else f"2^{span(scales)}"
    return [
        name, span(skipped), scale, *(span(share, factor=100) for share in shares),
        span(largest), span(loss),
    ]  # fmt: skip


def list_runs(results: dict, regime: str, policies: Iterable[str]) -> str:
    """A line for each policy, and below it what PyTorch did where that is known."""
    rows = []
    for policy in policies:
        runs = [summarize(run) for run in results[regime][policy]]
        rows.append(make_row(f"`{policy}`", runs))
        if known := PYTORCH.get(f"{regime}.{policy}"):
            rows.append(make_row("PyTorch", [known]))
    return table(HEAD, rows)


def make_tables(results: dict) -> dict[str, str]:
    return {
        regime: list_runs(results, regime, policies)
        for regime, policies in results.items()
    }


# --- Pictures -------------------------------------------------------------------------

COLORS = {
    FP16: "#d55e00", BF16: "#0072b2", "fp16-large": "#555555", "fp16-watched": "#009e73",
    "fp16-tensors": "#cc79a7", "fp16-layers": "#e69f00",
}  # fmt: skip


# What the columns show. Hard batches come at the steps of `HARD`.
TITLES = {
    "natural": "natural: from initial weights;\nhard batches of usual magnitude",
    "late-raw": "late-raw: after 12,000 steps;\nhard batches beyond the range of f16",
    "memo-raw": "memo-raw: all captions memorised;\nhard batches beyond the range of f16",
}
HARD = (301, 310)
ROWS = [
    ("training loss", "mean of 10 steps"),
    ("loss scale", "× marks a skipped step"),
    ("tensors that lose", "1 % of their gradient or more"),
]


def draw(
    results: dict, columns: list[tuple[str, list[str]]], path: pathlib.Path
) -> None:
    """Loss, loss scale with skipped steps, and flagged tensors over steps, a column for
    each regime, of the first seed."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1 + 3.6 * len(columns), 9), layout="constrained")
    axes = figure.subplots(3, len(columns), sharex="col", squeeze=False)
    drawn = {}
    for (regime, policies), panels in zip(columns, axes.T):
        for policy in policies:
            drawn[policy] = draw_run(panels, results[regime][policy][0], COLORS[policy])
        label_column(panels, TITLES[regime])
    for ax, (name, remark) in zip(axes[:, 0], ROWS):
        ax.set_ylabel(f"{name}\n({remark})", fontsize=10)
    figure.legend(drawn.values(), drawn, loc="outside lower center", ncols=len(drawn),
                  frameon=False, fontsize=11)  # fmt: skip
    save(figure, path)


def draw_run(panels, run: dict, color: str):
    """Draws a run into the three panels of a column; returns the line of its loss."""
    loss, scale, flagged = panels
    (line,) = loss.semilogy(*zip(*run["loss"]), color=color, lw=1.5)
    if changes := run["log2 scale"]:
        changes = [*changes, [run["steps"], changes[-1][1]]]
        scale.step(*zip(*changes), where="post", color=color, lw=1.5)
        below = [min(c[1] for c in changes if c[0] <= s) for s in run["skipped"]]
        scale.plot(run["skipped"], below, color=color, ls="", marker="x", ms=4)
    shares = [[row[0], 100 * row[3]] for row in run["records"]]
    flagged.plot(*zip(*shares), color=color, lw=1.5)
    return line


def label_column(panels, title: str) -> None:
    from matplotlib.ticker import LogLocator, MultipleLocator, NullFormatter

    loss, scale, flagged = panels
    loss.set_title(title, fontsize=11)
    low, high = loss.get_ylim()
    # Powers of 10, and 2 and 5 between them where there is room.
    subs = (1, 2, 5) if high < 100 * low else (1,)
    loss.yaxis.set_major_locator(LogLocator(subs=subs, numticks=6))
    loss.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    loss.yaxis.set_minor_formatter(NullFormatter())
    scale.set_ylim(-1, 24.5)
    scale.yaxis.set_major_locator(MultipleLocator(5))
    scale.yaxis.set_major_formatter(lambda value, _: f"$2^{{{value:.0f}}}$")
    flagged.set_ylim(-3, 103)
    flagged.yaxis.set_major_formatter(lambda value, _: f"{value:.0f} %")
    flagged.set_xlabel("training step", fontsize=10)
    loss.annotate("hard batches", (HARD[0] - 8, 0.98), fontsize=9, color="#555555",
                  xycoords=loss.get_xaxis_transform(), rotation=90, va="top", ha="right")  # fmt: skip
    for ax in panels:
        ax.axvspan(*HARD, color="#bbbbbb", lw=0, zorder=0)
        ax.grid(alpha=0.3)


def save(figure, path: pathlib.Path) -> None:
    """Writes the picture with a palette, which a third of the bytes is enough for."""
    from PIL import Image

    figure.savefig(path, dpi=110)
    with Image.open(path) as image:
        image.convert("RGB").quantize(64).save(path, optimize=True)


def draw_all(results: dict, folder: pathlib.Path) -> None:
    both = [FP16, BF16]
    draw(results, [(r, both) for r in TITLES], folder / "underflow.png")
    remedies = [FP16, *list(COLORS)[2:]]
    draw(results, [(r, remedies) for r in ("late-raw", "memo-raw")],
         folder / "underflow-remedies.png")  # fmt: skip
