"""Loss curves of training runs: loss and held-out loss over steps, drawn with matplotlib.

Runs that differ only in their seed form one curve: their mean, with a band from the
minimum to the maximum. A second panel shows the difference of each curve from the base's,
seed by seed, because policies may agree to more digits than the first panel can show.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from binade.paired import get_base, get_seed
from binade.run import Run

# After Okabe and Ito: distinct for all kinds of colour vision, and in grey. The last two are Tol's.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555",
          "#882255", "#117733")  # fmt: skip
# The same on a dark page.
DARK_COLORS = ("#4ea8de", "#ff8c42", "#2fcf9f", "#e3a0c6", "#f2b632", "#a5dbff", "#b5b5b5",
               "#d9699b", "#6fbf73")  # fmt: skip
# The training loss is averaged over a window of this share of the run's steps.
SMOOTHED = 0.05
# Width of a legend's label and of a caption in the picture, in characters.
LABEL, CAPTION = 60, 116


@dataclass
class Series:
    """A metric over steps: mean, minimum and maximum over runs."""

    steps: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @property
    def is_sparse(self) -> bool:
        """Whether the points are too few to be joined by a line: the loss before the first and
        after the last step do not show how it fell between them."""
        return len(self.steps) < 3

    def as_dict(self) -> dict[int, float]:
        """Returns the mean by step."""
        return dict(zip(self.steps.tolist(), self.mean.tolist()))


@dataclass
class Curve:
    """The runs that are drawn in one color."""

    label: str
    color: str
    runs: Sequence[Run]

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

    def subtract(self, base: Curve) -> tuple[Series, Series]:
        """Returns the differences from `base` in training and held-out loss, over pairs of
        runs with the same seed; those of the means if there is no such pair."""
        pairs = [(run, other) for run in self.runs for other in base.runs
                 if get_seed(run) == get_seed(other)]  # fmt: skip
        if not pairs:
            return (subtract_means(self.training, base.training),
                    subtract_means(self.held_out, base.held_out))  # fmt: skip
        losses = [[smooth(run.series("loss")) for run in pair] for pair in pairs]
        held_out = [[run.series("eval_loss") for run in pair] for pair in pairs]
        return (combine([subtract(*pair) for pair in losses]),
                combine([subtract(*pair) for pair in held_out]))  # fmt: skip


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


def subtract(one: dict[int, float], other: dict[int, float]) -> dict[int, float]:
    """Returns the difference at the steps that both have."""
    return {step: value - other[step] for step, value in one.items() if step in other}


def subtract_means(one: Series, other: Series) -> Series:
    return combine([subtract(one.as_dict(), other.as_dict())])


def make_curves(groups: Mapping[str, Sequence[Run]]) -> list[Curve]:
    """Returns one curve per group that has a loss."""
    curves = [
        Curve(label, COLORS[i % len(COLORS)], runs)
        for i, (label, runs) in enumerate(groups.items())
    ]
    return [curve for curve in curves if len(curve.training.steps)]


def find_base(curves: Sequence[Curve]) -> Curve:
    """Returns the curve that others are compared with."""
    label = get_base({curve.label: curve.runs for curve in curves})
    return next(curve for curve in curves if curve.label == label)


def get_extra_width(index: int, count: int) -> float:
    """Returns a line width such that equal curves stay visible: the first, which is drawn
    at the bottom, is the widest."""
    return 1.8 * min(count - 1 - index, 3)


def write_png(curves: Sequence[Curve], title: str, caption: str, path: Path) -> None:
    """Draws the curves; each line of `caption` is a sentence about them."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    base = find_base(curves)
    entries = [
        Line2D([], [], color=curve.color, linewidth=3,
               label=textwrap.shorten(curve.label, LABEL, placeholder="..."))
        for curve in curves
    ]  # fmt: skip
    entries.append(Line2D([], [], color="#555555", label="training, smoothed"))
    if any(len(curve.held_out.steps) for curve in curves):
        entries.append(
            Line2D([], [], color="#555555", lw=1, marker="o", label="held out")
        )
    lines = [
        line for text in caption.splitlines() for line in textwrap.wrap(text, CAPTION)
    ]
    columns = max(
        1, min(4, 130 // max(len(str(one.get_label())) + 8 for one in entries))
    )
    # Legend and caption get height of their own, so that panels keep theirs.
    rows = -(-len(entries) // columns) + len(lines)
    figure = Figure(figsize=(9, 6 + 0.22 * rows), dpi=150, layout="constrained")
    panels = figure.subplots(
        min(len(curves), 2), sharex=True, squeeze=False,
        height_ratios=[3, 2][: len(curves)],
    )[:, 0]  # fmt: skip
    for i, curve in enumerate(curves):
        extra = get_extra_width(i, len(curves))
        raw = curve.raw
        panels[0].plot(
            list(raw), list(raw.values()), color=curve.color, alpha=0.2, lw=0.8
        )
        _plot(panels[0], curve, curve.training, curve.held_out, extra)
        if curve is not base:
            _plot(panels[1], curve, *curve.subtract(base), 0.0)
    figure.suptitle("\n".join([title, *lines]), x=0.01, ha="left", fontsize=10)
    figure.legend(
        handles=entries, frameon=False, loc="outside lower left", ncols=columns
    )
    for panel, name in zip(panels, ("loss", "difference")):
        panel.set_ylabel(name)
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(color="#e5e5e5")
        panel.set_axisbelow(True)
    if len(panels) > 1:
        label = textwrap.shorten(base.label, LABEL, placeholder="...")
        panels[1].set_title(f"difference from {label}", loc="left", fontsize=9)
        panels[1].axhline(0, color="#888888", lw=0.8)
    panels[-1].set_xlabel("training step")
    figure.savefig(path)


def _plot(
    panel, curve: Curve, training: Series, held_out: Series, extra: float
) -> None:
    """Draws smoothed training losses and held-out losses with their bands."""
    color = curve.color
    panel.plot(training.steps, training.mean, color=color, lw=1.4 + extra)
    panel.plot(held_out.steps, held_out.mean, color=color, lw=1 + extra / 2, marker="o",
               markersize=3.5 + extra, ls="" if held_out.is_sparse else "-")  # fmt: skip
    for series in (training, held_out) if len(curve.runs) > 1 else ():
        if series is held_out and series.is_sparse:
            panel.vlines(series.steps, series.low, series.high, color=color)
            continue
        panel.fill_between(
            series.steps, series.low, series.high, color=color, alpha=0.15, lw=0
        )
