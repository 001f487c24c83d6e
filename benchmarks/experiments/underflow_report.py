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


def draw(
    results: dict, columns: list[tuple[str, list[str]]], path: pathlib.Path
) -> None:
    """Loss, loss scale with skipped steps, and flagged tensors over steps, a column for
    each regime, of the first seed."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.2 * len(columns), 6.4), layout="constrained")
    axes = figure.subplots(3, len(columns), sharex="col", squeeze=False)
    for (regime, policies), (loss, scale, flagged) in zip(columns, axes.T):
        loss.set_title(regime, fontsize=10)
        for policy in policies:
            run, color = results[regime][policy][0], COLORS[policy]
            loss.semilogy(*zip(*run["loss"]), color=color, lw=1.2, label=policy)
            if changes := run["log2 scale"]:
                changes = [*changes, [run["steps"], changes[-1][1]]]
                scale.step(*zip(*changes), where="post", color=color, lw=1.2)
                marks = dict(color=color, ls="", marker="x", ms=3)
                below = [
                    min(c[1] for c in changes if c[0] <= s) for s in run["skipped"]
                ]
                scale.plot(run["skipped"], below, **marks)
            shares = [[row[0], 100 * row[3]] for row in run["records"]]
            flagged.plot(*zip(*shares), color=color, lw=1.2)
        scale.set_ylim(-1, 24)
        flagged.set_ylim(-3, 103)
        flagged.set_xlabel("step")
        loss.legend(fontsize=7)
        for ax in (loss, scale, flagged):
            ax.grid(alpha=0.3)
            ax.tick_params(labelsize=8)
    for ax, name in zip(axes[:, 0], (
        "loss, mean of 10 steps", "log2 of the loss scale\n(x: skipped)",
        "tensors that lose\n1 % and more, %",
    )):  # fmt: skip
        ax.set_ylabel(name, fontsize=9)
    figure.savefig(path, dpi=75)


def draw_all(results: dict, folder: pathlib.Path) -> None:
    both = [FP16, BF16]
    draw(results, [(r, both) for r in ("natural", "late-raw", "memo-raw")],
         folder / "underflow.png")  # fmt: skip
    draw(results, [(r, [FP16, *list(COLORS)[2:]]) for r in ("late-raw", "memo-raw")],
         folder / "underflow-remedies.png")  # fmt: skip
