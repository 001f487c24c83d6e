"""The table of ops on the page of a sweep: the format of each op under each policy. A row
opens the rules that decided the formats, and statistics of the results over the steps.
"""

from __future__ import annotations

import json
import os
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from binade import curves, page, replay
from binade.run import Run, read_statistics
from binade.sweep import OUTPUTS, Outcome
from binade.tracing import OF_TRAINING, run_program

# Figures are drawn when their row is opened, because there is one per op.
SCRIPT = """
const ops = JSON.parse(document.getElementById('ops').textContent);
function draw(place) {
  const lines = ops.layers[place.dataset.layer];
  const traces = ops.statistics.flatMap((statistic, row) =>
    Object.entries(lines).filter(([_, line]) => line[statistic]).map(([label, line]) => ({
      x: line.step, y: line[statistic], name: label, legendgroup: label,
      showlegend: row === 0, mode: 'lines+markers', line: {color: ops.colors[label]},
      xaxis: row ? 'x2' : 'x', yaxis: row ? 'y2' : 'y'})));
  const clear = 'rgba(0,0,0,0)',
    step = () => ({title: {text: 'training step', standoff: 12}, automargin: true});
  Plotly.newPlot(place, traces, {
    grid: {rows: slim.matches ? 2 : 1, columns: slim.matches ? 1 : 2, pattern: 'independent',
           xgap: 0.3, ygap: 0.4},
    height: slim.matches ? 520 : 300, margin: {t: 20, b: 45, l: 70, r: 10},
    legend: {orientation: 'h', yref: 'container', y: 0, yanchor: 'bottom'},
    paper_bgcolor: clear, plot_bgcolor: clear, xaxis: step(), xaxis2: step(),
    yaxis: {title: {text: ops.statistics[0]}, rangemode: 'tozero', exponentformat: 'power'},
    yaxis2: {title: {text: ops.statistics[1]}, tickformat: '~p', rangemode: 'tozero'},
  }, {displaylogo: false, responsive: true}).then(paintOne);
}
for (const place of document.querySelectorAll('.series'))
  place.closest('details').addEventListener('toggle', () => {
    if (!place.classList.contains('js-plotly-plot')) draw(place);
  });
"""

PHASES = ("forward", "backward")

Lines = dict[str, dict[str, dict[str, list]]]  # Layer, label, statistic: by step.


def collect_outputs(runs: Mapping[str, Sequence[Run]]) -> Lines:
    """Returns the recorded statistics of nodes' results: means over seeds, by step."""
    lines: Lines = {}
    for label, of_label in runs.items():
        values: dict[tuple[str, str], dict[int, list[float]]] = {}
        for run in of_label:
            for line in read_statistics(run.path):
                for name in OUTPUTS if line["kind"] == "output" else ():
                    if line.get(name) is not None:
                        steps = values.setdefault((line["layer"], name), {})
                        steps.setdefault(line["step"], []).append(line[name])
        for (layer, name), by_step in values.items():
            entry = lines.setdefault(layer, {}).setdefault(label, {})
            entry["step"] = list(by_step)
            entry[name] = [
                float(f"{statistics.fmean(v):.4g}") for v in by_step.values()
            ]
    return lines


def _explain(words: Sequence[str]) -> dict:
    """Returns the compiler's decisions (``binade explain``); empty if it fails."""
    done = run_program(["binade", "explain", *words, "--format", "json"], os.getcwd())
    return json.loads(done.stdout) if done.returncode == 0 else {"ops": []}


def _shorten(format: str) -> str:
    """Shortens a format for a narrow column: ``f8E4M3FN/128 expanded`` to ``e4m3``."""
    found = re.match(r"f\d+(E\d+M\d+)", format)
    return found[1].lower() if found else format.split()[0].split("/")[0]


def _show(formats: Sequence[str]) -> str:
    """Returns a cell as HTML: formats in order, shaded by the narrowest one."""
    digits = [int(found[0]) for f in formats if (found := re.search(r"\d+", f))]
    text = " → ".join(map(_shorten, formats))
    return f'<span class="bits{min(digits, default=32)}">{escape(text)}</span>'


def _list_quantized(op: dict) -> list[str]:
    """Returns the formats to which an op quantizes its operands. A bias that is rounded to
    the format of the result is not quantized."""
    return [one for one in op.get("operands", []) if one and one != op["format"]]


def _describe(op: dict) -> str:
    """Returns one decision about an op as HTML."""
    quantized = _list_quantized(op)
    text = " × ".join(quantized) + " → " * bool(quantized) + op["format"]
    why = [op["rule"], *([op["reason"]] if op.get("reason") else [])]
    return f"{escape(text)}: {escape(', '.join(why))}"


def _list_decisions(ops: Sequence[dict], phase: str) -> str:
    found = (_describe(op) for op in ops if op["phase"] == phase)
    return "<br>".join(dict.fromkeys(found))


def _list_formats(reports: Mapping[str, dict], lines: Lines) -> Iterable[list[str]]:
    """Yields a row for each op of the forward pass that a policy decides about, with its
    decisions and statistics; reports are in the order of the columns."""
    ops: dict[tuple[str, str], dict[str, list[dict]]] = {}
    for label, report in reports.items():
        for op in report["ops"]:
            ops.setdefault((op["name"], op["op"]), {}).setdefault(label, []).append(op)
    for (name, kind), by_label in ops.items():
        entries = [op for of_label in by_label.values() for op in of_label]
        # An op that takes its operands' format under some policy decides nothing itself.
        follows = any(op["class"] == "clear" for op in entries)
        if all(op["phase"] != "forward" for op in entries) or (
            follows and not any(map(_list_quantized, entries))
        ):
            continue
        why = page.format_table(
            ["policy", "forward", "backward"],
            (
                [escape(label), *(_list_decisions(of_label, p) for p in PHASES)]
                for label, of_label in by_label.items()
            ),
            0,
        )
        place = (
            f'<div class="series" data-layer="{escape(name)}" role="group" aria-label="'
            f'statistics of {escape(name)} over steps"></div>'
            if name in lines
            else ""
        )
        row = [
            f"<details><summary>{page.format_name(name)}</summary>"
            f'<div class="more">{why}{place}</div></details>',
            kind,
        ]
        for label in reports:
            forward = [o for o in by_label.get(label, []) if o["phase"] == "forward"]
            cells = (
                _show([*dict.fromkeys(_list_quantized(op)), op["format"]])
                for op in forward
            )
            row.append(", ".join(dict.fromkeys(cells)))
        yield row
    for kind in "parameters", "states":
        cells = (
            ", ".join(dict.fromkeys(_show([e["format"]]) for e in report.get(kind, [])))
            for report in reports.values()
        )
        yield [f"all {kind}", "", *cells]


def format_layers(
    groups: Mapping[str, Sequence[Outcome]], runs: Mapping[str, Sequence[Run]]
) -> Iterable[str]:
    """Yields the section of the page, including its heading."""
    words = {
        label: replay.without(list(members[0].member.words), (*OF_TRAINING, "--stats"))
        for label, members in groups.items()
        if label in runs
    }
    reports = {label: _explain(of_label) for label, of_label in words.items()}
    lines = collect_outputs(runs)
    yield "<h2>Formats</h2>"
    yield (
        "<p>Formats of forward ops, as operands → compute; stronger color means fewer bits: "
        '<span class="bits32">32</span> <span class="bits16">16</span> '
        '<span class="bits8">8</span> <span class="bits4">4</span>. Open an op for the rules that '
        "decided, forward and backward, and the range of its results.</p>"
    )
    head = ["op", "kind", *map(escape, reports)]
    yield page.format_table(head, _list_formats(reports, lines), 0)
    colors = dict(zip(groups, curves.COLORS * len(groups)))
    about = json.dumps({"statistics": OUTPUTS, "colors": colors, "layers": lines})
    about = about.replace("<", "\\u003c")
    yield f'<script type="application/json" id="ops">{about}</script>'
