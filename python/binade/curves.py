"""Plots training runs: loss and held-out loss over steps.

Runs that differ only in their seed form one curve: their mean, with a band from the
minimum to the maximum. A second panel shows the difference of each mean from the first
curve's, because policies may agree to more digits than the first panel can show. HTML
files are self-contained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from binade.errors import RejectedError
from binade.run import Run

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

# After Okabe and Ito: distinct for all kinds of colour vision, and in grey. The last two are Tol's.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555",
          "#882255", "#117733")  # fmt: skip
# The training loss is averaged over a window of this share of the run's steps.
SMOOTHED = 0.05


@dataclass
class Series:
    """A metric over steps: mean, minimum and maximum over runs."""

    steps: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


@dataclass
class Curve:
    """The runs that are drawn in one color."""

    label: str
    color: str
    runs: list[Run]

    @property
    def raw(self) -> dict[int, float]:
        """The loss of each step if the curve is a single run, otherwise empty."""
        return self.runs[0].series("loss") if len(self.runs) == 1 else {}

    @property
    def training(self) -> Series:
        return combine([smooth(run.series("loss")) for run in self.runs])

    @property
    def held_out(self) -> Series:
        return combine([run.series("eval_loss") for run in self.runs])


def smooth(values: dict[int, float]) -> dict[int, float]:
    """Returns moving averages over a centered window, which is shorter at the ends."""
    reach = int(len(values) * SMOOTHED / 2)
    sums = np.concatenate([[0.0], np.cumsum(list(values.values()))])
    at = np.arange(len(values))
    first, last = np.maximum(at - reach, 0), np.minimum(at + reach + 1, len(values))
    return dict(zip(values, (sums[last] - sums[first]) / (last - first)))


def combine(series: Sequence[dict[int, float]]) -> Series:
    """Returns mean, minimum and maximum at the steps that all series have."""
    steps = sorted(set.intersection(*(set(one) for one in series)))
    values = np.array([[one[step] for step in steps] for one in series])
    return Series(np.array(steps), values.mean(0), values.min(0), values.max(0))


def subtract(series: Series, base: Series) -> dict[int, float]:
    """Returns the difference of two means at the steps that both have."""
    other = dict(zip(base.steps, base.mean))
    return {s: m - other[s] for s, m in zip(series.steps, series.mean) if s in other}


def make_curves(groups: dict[str, list[Run]]) -> list[Curve]:
    """Returns one curve per group that has a loss."""
    curves = [
        Curve(label, COLORS[i % len(COLORS)], runs)
        for i, (label, runs) in enumerate(groups.items())
    ]
    return [curve for curve in curves if len(curve.training.steps)]


def get_extra_width(index: int, count: int) -> float:
    """Returns a line width such that equal curves stay visible: the first, which is drawn
    at the bottom, is the widest."""
    return 1.8 * min(count - 1 - index, 3)


def draw(groups: dict[str, list[Run]], out: Path) -> list[Path]:
    """Writes ``out.html`` and ``out.png``, or one file if ``out`` has such a suffix.

    Args:
      groups: The runs of each curve by its label (see ``run.group_runs``).
      out: The path of the pictures, with or without a suffix.

    Raises:
      RejectedError: If nothing can be drawn.
    """
    curves = make_curves(groups)
    runs = [run for members in groups.values() for run in members]
    if not curves:
        raise RejectedError(f"{runs[0].path}: no step has a loss that can be drawn")
    title = ", ".join(dict.fromkeys(run.about["model"] for run in runs))
    writers = {".html": write_html, ".png": write_png}
    paths = [out]
    if out.suffix not in writers:
        paths = [out.with_name(out.name + suffix) for suffix in writers]
    out.parent.mkdir(parents=True, exist_ok=True)
    for path in paths:
        writers[path.suffix](curves, title, path)
    return paths


def write_png(curves: Sequence[Curve], title: str, path: Path) -> None:
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    figure = Figure(figsize=(9, 6.5), dpi=150, layout="constrained")
    panels = figure.subplots(
        min(len(curves), 2),
        sharex=True,
        squeeze=False,
        height_ratios=[3, 1][: len(curves)],
    )[:, 0]
    axes = panels[0]
    for i, curve in enumerate(curves):
        color, training, held_out = curve.color, curve.training, curve.held_out
        raw, extra = curve.raw, get_extra_width(i, len(curves))
        axes.plot(list(raw), list(raw.values()), color=color, alpha=0.2, linewidth=0.8)
        axes.plot(training.steps, training.mean, color=color, linewidth=1.4 + extra)
        axes.plot(
            held_out.steps, held_out.mean, color=color, linewidth=1 + extra / 2,
            marker="o", markersize=5 + 1.5 * extra,
        )  # fmt: skip
        for series in (training, held_out) if len(curve.runs) > 1 else ():
            axes.fill_between(
                series.steps, series.low, series.high, color=color, alpha=0.15, lw=0
            )
        if i > 0:
            above = subtract(training, curves[0].training)
            panels[1].plot(
                list(above), list(above.values()), color=color, linewidth=1.4
            )
            above = subtract(held_out, curves[0].held_out)
            panels[1].plot(
                list(above), list(above.values()), "o", color=color, markersize=5
            )
    entries = [
        Line2D([], [], color=c.color, linewidth=3, label=c.label) for c in curves
    ]
    entries.append(Line2D([], [], color="#555555", label="training, smoothed"))
    if any(len(curve.held_out.steps) for curve in curves):
        entries.append(
            Line2D([], [], color="#555555", lw=1, marker="o", label="held out")
        )
    axes.legend(handles=entries, frameon=False)
    axes.set_title(title, loc="left", fontsize=11)
    for panel, name in zip(panels, ("loss", f"above {curves[0].label}")):
        panel.set_ylabel(name)
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(color="#e5e5e5")
        panel.set_axisbelow(True)
    panels[-1].set_xlabel("training step")
    figure.savefig(path)


def write_html(curves: Sequence[Curve], title: str, path: Path) -> None:
    make_figure(curves, title).write_html(path, include_plotlyjs=True)


def make_figure(curves: Sequence[Curve], title: str) -> Figure:
    """Returns the curves as an interactive figure."""
    from plotly.subplots import make_subplots

    rows = min(len(curves), 2)
    figure = make_subplots(
        rows, 1, shared_xaxes=True, vertical_spacing=0.05, row_heights=[3, 1][:rows]
    )

    def add(x, y, row=1, **more) -> None:
        # Lists stay readable in the file, unlike the encoded bytes of arrays.
        y = [float(f"{value:.7g}") for value in y]
        figure.add_scatter(x=[int(step) for step in x], y=y, row=row, col=1, **more)

    for i, curve in enumerate(curves):
        extra = get_extra_width(i, len(curves))
        color, group = curve.color, {"legendgroup": curve.label}
        faint = {"opacity": 0.2, "hoverinfo": "skip", "showlegend": False, **group}
        raw, training, held_out = curve.raw, curve.training, curve.held_out
        if raw:
            add(list(raw), raw.values(), mode="lines", line={"color": color, "width": 1},
                name=f"{curve.label}, every step", **faint)  # fmt: skip
        for series in (training, held_out) if len(curve.runs) > 1 else ():
            around = [*series.steps, *series.steps[::-1]]
            add(around, [*series.high, *series.low[::-1]], mode="none", fill="toself",
                fillcolor=color, name=f"{curve.label}, range", **faint)  # fmt: skip
        add(training.steps, training.mean, mode="lines", name=curve.label,
            line={"color": color, "width": 2 + extra}, **group)  # fmt: skip
        if len(held_out.steps):
            add(held_out.steps, held_out.mean, mode="lines+markers",
                name=f"{curve.label}, held out", marker={"size": 7 + 2 * extra, "color": color},
                line={"color": color, "width": 1 + extra / 2}, **group)  # fmt: skip
        if i > 0:
            below = {"row": 2, "line": {"color": color}, "showlegend": False, **group}
            above = subtract(training, curves[0].training)
            add(above, above.values(), mode="lines", name=curve.label, **below)
            above = subtract(held_out, curves[0].held_out)
            add(above, above.values(), mode="markers", name=f"{curve.label}, held out",
                marker={"size": 7, "color": color}, **below)  # fmt: skip
    figure.update_layout(template="plotly_white", title=title, hovermode="x unified")
    figure.update_xaxes(title="training step", row=rows, col=1)
    for row, name in zip(range(1, rows + 1), ("loss", f"above {curves[0].label}")):
        figure.update_yaxes(title=name, row=row, col=1)
    return figure
