"""The page of ``binade runs compare``: a verdict, loss curves, and the settings that differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from binade import figures, page, verdict
from binade.curves import COLORS, Curve, find_base, make_curves
from binade.paired import Comparison, compare, get_base
from binade.run import Run, list_differences


def format_comparisons(
    found: Mapping[str, Comparison],
    colors: Mapping[str, str],
    chosen: str | None = None,
) -> Iterator[str]:
    """Yields a table of the differences from the base, and a figure of them by seed.

    Args:
      found: The result of ``compare``.
      colors: The color of each policy.
      chosen: The label of the policy to mark.
    """
    rows = [[escape(cell) for cell in row] for row in verdict.list_rows(found)]
    index = list(found).index(chosen) if chosen else None
    yield page.format_table(["policy", *verdict.HEAD], rows, 5, index)
    if any(one.margin is not None and one.label != one.base for one in found.values()):
        yield (
            "<p>Filled marks: means with 95 % intervals; rings: single seeds; grey: the noise "
            "of seeds.</p>"
        )
        figure = figures.draw_comparisons(found, colors)
        height = 100 + 34 * len(found)
        yield page.format_figure(figure, "differences in loss from the base", height)


def format_curves(drawn: Sequence[Curve], base: Curve) -> Iterator[str]:
    """Yields figures of differences and of losses over steps."""
    if len(drawn) > 1:
        yield f"<h2>Difference from {escape(base.label)} over steps</h2>"
        figure = figures.draw_differences(drawn, base)
        yield page.format_figure(figure, "differences in loss over steps", 380)
    legend = "Lines: training loss, smoothed; markers: held-out loss"
    if any(len(curve.runs) > 1 for curve in drawn):
        legend += "; both are means over seeds"
        if len(drawn) <= figures.MOST_BANDS:
            legend += ", in bands from the smallest to the largest value"
    yield f"<h2>Losses</h2><p>{legend}.</p>"
    yield page.format_figure(figures.draw_losses(drawn), "losses over steps", 480)


def write_page(title: str, groups: Mapping[str, Sequence[Run]]) -> str:
    """Returns the page as HTML; at least one group has a loss."""
    parts = [f"<h1>{escape(title)}</h1>"]
    if len(groups) > 1:
        found = compare(groups, get_base(groups))
        parts.append(page.format_verdict(verdict.describe(groups)))
        if not verdict.find_mismatch([run for runs in groups.values() for run in runs]):
            colors = dict(zip(groups, COLORS * len(groups)))
            best = verdict.choose(found)
            parts += ["<h2>Differences</h2>", *format_comparisons(found, colors, best)]
    drawn = make_curves(groups)
    parts += format_curves(drawn, find_base(drawn))
    head, differences = list_differences(groups)
    rows = [list(map(escape, row)) for row in differences]
    if rows:
        head = ["", *map(escape, head)]
        parts += ["<h2>Settings that differ</h2>", page.format_table(head, rows, 0)]
    return page.write_page(title, parts)
