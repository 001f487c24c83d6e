"""The page of a sweep.

It shows loss curves over steps with bands over seeds, loss against memory and time, the
share of gradient elements that f16 would round to 0, the format of each op, and the command
of each run.
"""

from __future__ import annotations

import difflib
import statistics
from collections.abc import Iterable, Mapping, Sequence
from html import escape

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from binade import curves, page
from binade import sweep_layers as layers
from binade.run import NONE, Run, format_mib, read_statistics
from binade.sweep import UNDERFLOW, Outcome, show_policy

NO_TABLES: Mapping[str, str] = {}
# The maximum height of a figure in pixels. Layers whose names do not fit show them under
# the pointer.
TALLEST = 900


# --- Numbers ----------------------------------------------------------------------------


def group_outcomes(outcomes: Iterable[Outcome]) -> dict[str, list[Outcome]]:
    """Groups outcomes that differ only in their seed, by label."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(outcome.member.label, []).append(outcome)
    return groups


def get_base(groups: Mapping[str, list[Outcome]]) -> str:
    """Returns the label that others are compared with: the first one with policy fp32, or
    the first of all."""
    wide = [key for key, of in groups.items() if of[0].member.policy == "fp32"]
    return (wide or list(groups))[0]


def find_gap(outcome: Outcome, base: Sequence[Outcome]) -> float | None:
    """Returns an outcome's loss minus that of the base with the same seed."""
    for other in base:
        if other.member.seed == outcome.member.seed:
            if outcome.loss is not None and other.loss is not None:
                return outcome.loss - other.loss
    return None


def get_mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


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


def _draw_costs(groups: Mapping[str, list[Outcome]], base: str) -> go.Figure:
    figure = make_subplots(1, 2, shared_yaxes=True, horizontal_spacing=0.05)
    points: dict[int, list[tuple[float, float]]] = {1: [], 2: []}
    for index, (label, members) in enumerate(groups.items()):
        gap = get_mean(find_gap(one, groups[base]) for one in members)
        runs = [one.run for one in members if one.run and one.error is None]
        if gap is None or not runs:
            continue
        sizes = {1: runs[0].about["arena_bytes"] / 2**20,
                 2: get_mean(run.milliseconds for run in runs) or 0.0}  # fmt: skip
        for column, size in sizes.items():
            points[column].append((size, gap))
            figure.add_scatter(
                x=[size], y=[gap], name=label, mode="markers", legendgroup=label,
                showlegend=column == 1, row=1, col=column,
                marker={"size": 13, "color": curves.COLORS[index % len(curves.COLORS)],
                        "symbol": index // len(curves.COLORS)},
            )  # fmt: skip
    for column, all_points in points.items():
        front = find_front(all_points)
        figure.add_scatter(
            x=[x for x, _ in front], y=[y for _, y in front], mode="lines", row=1,
            col=column, line={"dash": "dot", "color": "#888", "shape": "hv"},
            name="none is better in both", showlegend=column == 1,
        )  # fmt: skip
    figure.update_xaxes(title="MiB", row=1, col=1)
    figure.update_xaxes(title="ms per step", row=1, col=2)
    figure.update_yaxes(title=f"loss above {base}", row=1, col=1)
    return figure


def _draw_underflow(shares: Mapping[str, Mapping[int, float]]) -> go.Figure:
    steps = sorted({step for of_layer in shares.values() for step in of_layer})
    layers = list(shares)
    numbers = [[shares[layer].get(step) for step in steps] for layer in layers]
    figure = go.Figure(go.Heatmap(
        x=steps, y=layers, z=numbers, zmin=0, zmax=1, colorscale="Viridis",
        colorbar={"title": "share", "tickformat": ".0%"},
        hovertemplate="%{y}<br>step %{x}: %{z:.2%}<extra></extra>",
    ))  # fmt: skip
    figure.update_yaxes(autorange="reversed", automargin=True)
    figure.update_xaxes(title="training step")
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
            row = [escape(label), str(one.member.seed), _number(one.loss, ".4f"),
                   _number(find_gap(one, groups[base]), "+.4f")]  # fmt: skip
            if one.run:
                skipped = sum(step["skipped"] for step in one.run.steps)
                row += [_number(one.run.milliseconds, ".3g"),
                        format_mib(one.run.about["arena_bytes"]), str(skipped)]  # fmt: skip
            else:
                row += [NONE] * 3
            said = (
                f' <span class="error">{escape(one.error)}</span>' if one.error else ""
            )
            yield [*row, copy + said]


# --- The page ---------------------------------------------------------------------------


def write_page(
    heading: str, outcomes: Sequence[Outcome], tables: Mapping[str, str] = NO_TABLES
) -> str:
    """Returns the page as HTML.

    Args:
      heading: What the page is about.
      outcomes: The outcomes of all members; at least one has a run.
      tables: Preformatted texts for the top of the page, by their headings.
    """
    groups = group_outcomes(outcomes)
    base = get_base(groups)
    runs = {
        label: [one.run for one in members if one.run]
        for label, members in groups.items()
        if any(one.run for one in members)
    }
    parts = [f"<h1>{escape(heading)}</h1>"]
    for name, text in tables.items():
        parts.append(f'<h2>{escape(name)}</h2><pre tabindex="0">{escape(text)}</pre>')
    parts.append(
        f"<p>{len(outcomes)} runs; losses are held-out ones where measured, otherwise "
        f"means of the last batches. The base is <b>{escape(base)}</b> with the same seed.</p>"
    )
    head = [
        "policy",
        "seed",
        "loss",
        f"above {escape(base)}",
        "ms/step",
        "MiB",
        "skipped",
        "",
    ]
    parts += ["<h2>Runs</h2>", page.format_table(head, _list_runs(groups, base), 6)]
    drawn = curves.make_curves(runs)
    if drawn:
        figure = curves.make_figure(drawn, "")
        parts += [
            "<h2>Losses</h2>",
            page.format_figure(figure, "losses over steps", 560),
        ]
    parts += ["<h2>What it costs</h2>",
              page.format_figure(_draw_costs(groups, base),
                             "loss above the base against memory and time", 380)]  # fmt: skip
    parts += ["<h2>What f16 would lose</h2>", "<p>Elements of a gradient that f16 makes 0, of "
              "those that are not 0.</p>"]  # fmt: skip
    for number, (label, of_label) in enumerate(runs.items()):
        shares = collect_underflow(of_label)
        figure = _draw_underflow(shares)
        about = f"share of each gradient that f16 makes 0, by step, under {label}"
        parts.append(
            f"<details{'' if number else ' open'}><summary>{escape(label)}</summary>"
            f"{page.format_figure(figure, about, min(140 + 16 * len(shares), TALLEST))}</details>"
        )
    parts += list(layers.format_layers(groups, runs))
    parts.append("<h2>Policies</h2>")
    before = show_policy(groups[base][0].member.policy).splitlines()
    for policy in dict.fromkeys(one.member.policy for one in outcomes):
        lines = difflib.unified_diff(
            before, show_policy(policy).splitlines(), base, policy, lineterm=""
        )
        text = "\n".join(lines) or "the base"
        parts.append(f"<details><summary>{escape(policy)}</summary>"
                     f"<pre tabindex=\"0\">{escape(text)}</pre></details>")  # fmt: skip
    return page.write_page(heading, parts, layers.SCRIPT)
