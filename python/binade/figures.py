"""Interactive figures of loss curves and of the differences between policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from binade.curves import Curve, Series, get_extra_width
from binade.paired import Comparison

# Decimal numbers without SI prefixes, by which a difference of 0.00005 would be 50µ.
PLAIN = {"exponentformat": "none", "separatethousands": False}
ZERO = "#888888"
# Bands of more curves than these hide each other.
MOST_BANDS = 3


def _add_band(figure: go.Figure, curve: Curve, series: Series) -> None:
    around = [*series.steps.tolist(), *series.steps[::-1].tolist()]
    figure.add_scatter(
        x=around, y=_round([*series.high, *series.low[::-1]]), mode="none", fill="toself",
        fillcolor=curve.color, opacity=0.2, hoverinfo="skip", showlegend=False,
        legendgroup=curve.label, name=f"{curve.label}, range",
    )  # fmt: skip


def _round(values: Sequence[float]) -> list[float]:
    # Lists stay readable in the file, unlike the encoded bytes of arrays.
    return [float(f"{value:.7g}") for value in values]


def _add_pair(
    figure: go.Figure, curve: Curve, training: Series, held_out: Series, extra: float,
    bands: bool,
) -> None:  # fmt: skip
    """Adds smoothed training losses as a line and held-out losses as markers."""
    about = {"legendgroup": curve.label}
    shows_range = bands and len(curve.runs) > 1
    if shows_range:
        _add_band(figure, curve, training)
    if shows_range and not held_out.is_sparse:
        _add_band(figure, curve, held_out)
    figure.add_scatter(
        x=training.steps.tolist(), y=_round(training.mean), mode="lines",
        name=curve.label, line={"color": curve.color, "width": 2 + extra}, **about,
    )  # fmt: skip
    if len(held_out.steps):
        ranges = {
            "array": _round(held_out.high - held_out.mean),
            "arrayminus": _round(held_out.mean - held_out.low),
        }
        figure.add_scatter(
            x=held_out.steps.tolist(), y=_round(held_out.mean),
            mode="markers" if held_out.is_sparse else "lines+markers",
            error_y=ranges if shows_range and held_out.is_sparse else None,
            name=f"{curve.label}, held out", showlegend=False,
            marker={"size": 6 + extra, "color": curve.color},
            line={"color": curve.color, "width": 1 + extra / 2}, **about,
        )  # fmt: skip


def draw_losses(curves: Sequence[Curve]) -> go.Figure:
    """Returns the loss curves over steps."""
    figure = go.Figure()
    for i, curve in enumerate(curves):
        if raw := curve.raw:
            figure.add_scatter(
                x=list(raw), y=_round(list(raw.values())), mode="lines", opacity=0.2,
                line={"color": curve.color, "width": 1}, hoverinfo="skip",
                showlegend=False, legendgroup=curve.label,
                name=f"{curve.label}, every step",
            )  # fmt: skip
        extra = get_extra_width(i, len(curves))
        bands = len(curves) <= MOST_BANDS
        _add_pair(figure, curve, curve.training, curve.held_out, extra, bands)
    figure.update_xaxes(title="training step")
    figure.update_yaxes(title="loss", **PLAIN)
    return figure


def draw_differences(curves: Sequence[Curve], base: Curve) -> go.Figure:
    """Returns the differences from the base over steps, seed by seed."""
    figure = go.Figure()
    for curve in curves:
        if curve is not base:
            bands = len(curves) <= MOST_BANDS
            _add_pair(figure, curve, *curve.subtract(base), 0.0, bands)
    figure.add_hline(y=0, line={"color": ZERO, "width": 1})
    figure.update_xaxes(title="training step")
    figure.update_yaxes(title="difference in loss", **PLAIN)
    return figure


def draw_comparisons(
    found: Mapping[str, Comparison], colors: Mapping[str, str]
) -> go.Figure:
    """Returns the mean difference of each policy from the base with its interval, and the
    difference for each seed; a grey band shows seed noise."""
    figure = go.Figure()
    others = [
        one for one in found.values() if one.mean is not None and one.label != one.base
    ]
    for one in others:
        values = list(one.differences.values())
        color = colors[one.label]
        figure.add_scatter(
            x=_round(values), y=[one.label] * len(values), mode="markers",
            marker={"color": color, "size": 7, "symbol": "circle-open"}, showlegend=False,
            text=[f"seed {seed}" for seed in one.differences],
            hovertemplate="%{y}, %{text}: %{x}<extra></extra>",
        )  # fmt: skip
        margin = None if one.margin is None else {
            "array": [one.margin], "color": color, "thickness": 2, "width": 6}  # fmt: skip
        figure.add_scatter(
            x=_round([one.mean or 0.0]), y=[one.label], mode="markers", error_x=margin,
            marker={"color": color, "size": 11}, showlegend=False,
            hovertemplate="%{y}, mean: %{x}<extra></extra>",
        )  # fmt: skip
    noise = next((one.noise for one in others), None)
    if noise:
        figure.add_vrect(
            x0=-noise, x1=noise, fillcolor=ZERO, opacity=0.15, line_width=0
        )
    figure.add_vline(x=0, line={"color": ZERO, "width": 1})
    figure.update_yaxes(autorange="reversed", automargin=True)
    base = others[0].base if others else ""
    figure.update_xaxes(title=f"loss minus that of {base}", **PLAIN)
    return figure
