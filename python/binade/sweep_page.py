"""The page of a sweep.

It says which policy to take, and shows the differences between policies, what they cost, loss
curves with bands over seeds, the share of gradient elements that f16 would round to 0, the
format of each op, and the command of each run.
"""

from __future__ import annotations

import difflib
import statistics
from collections.abc import Iterable, Mapping, Sequence
from html import escape

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from binade import curves, figures, page, runs_page, verdict
from binade import sweep_layers as layers
from binade.paired import Comparison, compare, get_base
from binade.run import NONE, Run, format_mib, format_time, read_statistics
from binade.sweep import UNDERFLOW, Outcome, show_policy

# The maximum height of a figure in pixels. Layers whose names do not fit show them under
# the pointer.
TALLEST = 900
# The note appears if f16 would round more than this share of a bias's gradient to 0.
NOTED = 0.01
NOTE = (
    "The gradient of some biases is 0 in exact arithmetic: those of keys in attention, which add "
    "the same to all scores of a query, so that softmax ignores them (a third of a bias packed for "
    "query, key and value), and those before a batch norm, which subtracts them again. Only "
    "rounding errors of such gradients are computed, so nothing is lost where f16 makes them 0."
)


# --- Numbers ----------------------------------------------------------------------------


def group_outcomes(outcomes: Iterable[Outcome]) -> dict[str, list[Outcome]]:
    """Groups outcomes that differ only in their seed, by label."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(outcome.member.label, []).append(outcome)
    return groups


def find_gap(outcome: Outcome, base: Sequence[Outcome]) -> float | None:
    """Returns an outcome's loss minus that of the base with the same seed."""
    for other in base:
        if other.member.seed == outcome.member.seed:
            if outcome.loss is not None and other.loss is not None:
                return outcome.loss - other.loss
    return None


def find_front(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Returns the Pareto front (both coordinates minimized), sorted by x."""
    front: list[tuple[float, float]] = []
    for x, y in sorted(points):
        if not front or y < front[-1][1]:
            front.append((x, y))
    return front


def collect_underflow(runs: Sequence[Run]) -> dict[str, dict[int, float]]:
    """Returns, by layer and step, the share of a gradient's nonzero elements that f16 would
    round to 0, as the mean over seeds."""
    all_shares: dict[str, dict[int, list[float]]] = {}
    for run in runs:
        for line in read_statistics(run.path):
            if line["kind"] == "gradient" and line.get(UNDERFLOW) is not None:
                steps = all_shares.setdefault(line["layer"], {})
                steps.setdefault(line["step"], []).append(line[UNDERFLOW])
    return {
        layer: {step: statistics.fmean(shares) for step, shares in steps.items()}
        for layer, steps in all_shares.items()
    }


# --- Figures ----------------------------------------------------------------------------


def _draw_costs(
    found: Mapping[str, Comparison], colors: Mapping[str, str], base: str
) -> go.Figure:
    columns = 1 if found[base].time is None else 2
    figure = make_subplots(1, columns, shared_yaxes=True, horizontal_spacing=0.05)
    points: dict[int, list[tuple[float, float]]] = {
        i: [] for i in range(1, columns + 1)
    }
    for index, (label, one) in enumerate(found.items()):
        if one.mean is None:
            continue
        sizes = {1: one.bytes / 2**20, 2: one.milliseconds or 0.0}
        for column, all_points in points.items():
            size = sizes[column]
            all_points.append((size, one.mean))
            figure.add_scatter(
                x=[size], y=[one.mean], name=label, mode="markers", legendgroup=label,
                showlegend=column == 1, row=1, col=column,
                marker={"size": 13, "color": colors[label],
                        "symbol": index // len(curves.COLORS)},
            )  # fmt: skip
    for column, all_points in points.items():
        front = find_front(all_points)
        figure.add_scatter(
            x=[x for x, _ in front], y=[y for _, y in front], mode="lines", row=1,
            col=column, line={"dash": "dot", "color": figures.ZERO, "shape": "hv"},
            name="none is better in both", showlegend=column == 1,
        )  # fmt: skip
    figure.update_xaxes(title="MiB", row=1, col=1)
    if columns == 2:
        figure.update_xaxes(title="ms per step", row=1, col=2)
    figure.update_xaxes(**figures.PLAIN)
    # No title: in a narrow window, Plotly would not find margins for it.
    figure.update_yaxes(**figures.PLAIN)
    return figure


def _draw_underflow(shares: Mapping[str, Mapping[int, float]]) -> go.Figure:
    steps = sorted({step for of_layer in shares.values() for step in of_layer})
    layers = list(shares)
    numbers = [[shares[layer].get(step) for step in steps] for layer in layers]
    figure = go.Figure(go.Heatmap(
        x=steps, y=layers, z=numbers, zmin=0, zmax=1, colorscale="Viridis",
        colorbar={"tickformat": ".0%", "orientation": "h", "y": 1, "yanchor": "bottom",
                  "thickness": 10, "title": {"text": "rounded to 0", "side": "top"}},
        hovertemplate="%{y}<br>step %{x}: %{z:.2%}<extra></extra>",
    ))  # fmt: skip
    figure.update_yaxes(autorange="reversed", automargin=True)
    return figure


# --- Tables -----------------------------------------------------------------------------


def _number(value: float | None, form: str) -> str:
    return NONE if value is None else format(value, form)


def _list_runs(groups: Mapping[str, list[Outcome]], base: str) -> Iterable[list[str]]:
    for label, members in groups.items():
        for one in members:
            command = escape(one.member.command)
            copy = (
                f'<button type="button" data-copy="{command}" aria-label="copy the command '
                f'of {escape(label)}, seed {one.member.seed}">copy command</button>'
            )
            row = [escape(label), str(one.member.seed), _number(one.loss, "z.4f"),
                   _number(find_gap(one, groups[base]), "+z.4f")]  # fmt: skip
            if one.run:
                skipped = sum(step["skipped"] for step in one.run.steps)
                time = one.run.milliseconds
                row += [NONE if time is None else format_time(time),
                        format_mib(one.run.about["arena_bytes"]), str(skipped)]  # fmt: skip
            else:
                row += [NONE] * 3
            said = (
                f' <span class="error">{escape(one.error)}</span>' if one.error else ""
            )
            yield [*row, copy + said]


# --- The page ---------------------------------------------------------------------------


def _format_underflow(runs: Mapping[str, Sequence[Run]]) -> Iterable[str]:
    """Yields the section about gradients in f16, including its heading."""
    shares = {label: collect_underflow(of_label) for label, of_label in runs.items()}
    yield "<h2>What f16 would lose</h2>"
    # The text says what the axes are: a title would overlap the steps below long names.
    yield (
        "<p>Share of each gradient's nonzero elements that f16 would round to 0, a row for "
        "each layer and a column for each measured training step.</p>"
    )
    of_biases = (
        by_step.values()
        for of_label in shares.values()
        for layer, by_step in of_label.items()
        if "bias" in layer.lower()
    )
    if any(max(of_steps) > NOTED for of_steps in of_biases):
        yield f"<p>{NOTE}</p>"
    for number, (label, of_label) in enumerate(shares.items()):
        about = (
            f"share of each gradient that f16 would round to 0, by step, under {label}"
        )
        height = min(170 + 16 * len(of_label), TALLEST)
        yield (
            f"<details{'' if number else ' open'}><summary>{escape(label)}</summary>"
            f"{page.format_figure(_draw_underflow(of_label), about, height)}</details>"
        )


def _format_policies(outcomes: Sequence[Outcome], base: str) -> Iterable[str]:
    """Yields the section of differences between policies, including its heading."""
    yield "<h2>Policies</h2>"
    named = {one.member.label: one.member.policy for one in outcomes}
    before = show_policy(named[base]).splitlines()
    for policy in dict.fromkeys(named.values()):
        lines = difflib.unified_diff(
            before, show_policy(policy).splitlines(), base, policy, lineterm=""
        )
        text = "\n".join(lines) or "the base"
        yield (
            f"<details><summary>{escape(policy)}</summary>"
            f'<pre tabindex="0">{escape(text)}</pre></details>'
        )


def write_page(
    heading: str, outcomes: Sequence[Outcome], chosen: str | None = None,
    parts_of_search: Iterable[str] = (),
) -> str:  # fmt: skip
    """Returns the page as HTML.

    Args:
      heading: What the page is about.
      outcomes: The outcomes of all members; at least one has a run.
      chosen: The label of the policy that a search chose.
      parts_of_search: HTML that follows the differences.
    """
    groups = group_outcomes(outcomes)
    runs = {
        label: [one.run for one in members if one.run]
        for label, members in groups.items()
        if any(one.run for one in members)
    }
    ended = {
        label: [one.run for one in members if one.run and one.error is None]
        for label, members in groups.items()
    }
    failed = {
        label: len(groups[label]) - len(of_label) for label, of_label in ended.items()
    }
    base = get_base(ended if any(ended.values()) else runs)
    found = compare(ended, base, failed)
    colors = dict(zip(groups, curves.COLORS * len(groups)))
    parts = [f"<h1>{escape(heading)}</h1>"]
    if any(ended.values()):
        parts.append(page.format_verdict(verdict.describe(ended, failed, chosen)))
    parts += [
        "<h2>Differences</h2>",
        f"<p>{len(outcomes)} runs; losses are held-out ones where measured, otherwise means of "
        f"the last batches. The base is <b>{escape(base)}</b> with the same seed.</p>",
        *runs_page.format_comparisons(found, colors, chosen or verdict.choose(found)),
    ]
    parts += parts_of_search
    costs = "memory" if found[base].time is None else "memory and time"
    parts += [f"<h2>Loss against {costs}</h2>",
              f"<p>The vertical axis is the loss minus that of {escape(base)}.</p>",
              page.format_figure(_draw_costs(found, colors, base),
                                 f"loss above the base against {costs}", 400)]  # fmt: skip
    drawn = curves.make_curves(runs)
    if drawn:
        of_base = [curve for curve in drawn if curve.label == base]
        parts += runs_page.format_curves(drawn, (of_base or drawn)[0])
    head = [
        "policy",
        "seed",
        "loss",
        f"minus {escape(base)}",
        "ms/step",
        "MiB",
        "skipped",
        "",
    ]
    parts += ["<h2>Runs</h2>", page.format_table(head, _list_runs(groups, base), 6)]
    parts += _format_underflow(runs)
    parts += layers.format_layers(groups, runs)
    parts += _format_policies(outcomes, base)
    return page.write_page(heading, parts, layers.SCRIPT)
