"""Self-contained HTML pages with tables and figures, with styles for dark mode and print
and with keyboard navigation."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from html import escape

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from binade.curves import COLORS, DARK_COLORS

# Heights are whole pixels, because borders of sticky cells are shifted otherwise.
STYLE = """
:root { color-scheme: light dark; --ink: #1a1a1a; --paper: #fff; --line: #d5d5d5;
  --soft: #f4f4f4; --mark: #0072b2; --bad: #b00020; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e8; --paper: #161616;
  --line: #444; --soft: #232323; --mark: #6cb8e8; --bad: #ff8a80; } }
body { font: 15px/22px system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 78rem; margin: 2rem auto; padding: 0 1rem; overflow-wrap: anywhere; }
h1 { font: 600 24px/32px system-ui, sans-serif; }
h2 { font: 600 18px/28px system-ui, sans-serif; margin: 40px 0 16px; }
.verdict { background: var(--soft); border-left: 4px solid var(--mark); padding: 10px 1rem; }
.verdict p { margin: 5px 0; } .verdict p:first-child { font-weight: 600; }
.scroll { overflow: auto; max-height: 85vh; }
.hint { margin: 0; font-size: 13px; }
table { border-collapse: separate; border-spacing: 0; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .4rem; border-bottom: 1px solid var(--line); text-align: left;
  vertical-align: top; white-space: nowrap; background: var(--paper); }
td.number, th.number { text-align: right; }
thead th { border-bottom: 2px solid var(--line); position: sticky; top: 0; z-index: 2; }
thead th:first-child { z-index: 3; left: 0; }
tbody > tr > th:first-child { position: sticky; left: 0; z-index: 1; }
.more table th { position: static; }
tr.chosen > th, tr.chosen > td { font-weight: 600; box-shadow: inset 0 9rem var(--soft); }
code, pre { font: 13px/1.45 ui-monospace, monospace; }
pre { background: var(--soft); padding: .75rem; overflow-x: auto; }
summary { cursor: pointer; } .error { color: var(--bad); white-space: normal; }
:focus-visible { outline: 3px solid var(--mark); outline-offset: 2px; }
.bits16, .bits8, .bits4 { padding: 0 .3rem; border-radius: .2rem;
  background: color-mix(in srgb, var(--mark) var(--share), transparent); }
.bits16 { --share: 15%; } .bits8 { --share: 40%; } .bits4 { --share: 50%; }
.more { width: 0; font-weight: normal; } /* Its columns stay as wide as when it is closed. */
.more > * { width: 60rem; max-width: 88vw; margin: .5rem 0 .5rem 1rem; }
.more td { white-space: normal; }
button { font: inherit; }
@media (max-width: 600px) { body { margin: 1rem auto; padding: 0 .6rem; }
  tbody > tr > th:first-child { white-space: normal; min-width: 7.5rem; max-width: 9.5rem; }
  .more > * { margin-left: 0; } }
@media print { button, .hint { display: none; } body { max-width: none; margin: 0; }
  .scroll { max-height: none; overflow: visible; } .plot, tr { break-inside: avoid; } }
"""

CLEAR = "rgba(0,0,0,0)"

# Content security policy: the page must not load anything from the network.
NO_NETWORK = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:"
)

# Colors of figures come in pairs for light and dark pages. On a narrow page, names at an axis
# lose their common start, and hints appear above tables that can be scrolled sideways.
SCRIPT = """
const dark = matchMedia('(prefers-color-scheme: dark)');
const slim = matchMedia('(max-width: 600px)');
const pairs = PAIRS;
const pick = color => (pairs.find(pair => pair.includes(color)) || [color, color])[+dark.matches];
function shorten(names) {
  if (!slim.matches) return names;
  let same = 0;
  while (names.length > 1 && names.every(n => same < n.length && n[same] === names[0][same])) ++same;
  const start = names[0].slice(0, same).search(/[^./]*$/);
  return names.map(n => n.slice(start)).map(n => n.length > 26 ? '\u2026' + n.slice(-25) : n);
}
const plots = () => document.querySelectorAll('.js-plotly-plot');
function paintOne(plot) {
  const style = getComputedStyle(document.body);
  const line = dark.matches ? '#444' : '#ddd';
  const {data, layout} = plot;
  for (const trace of data) {
    for (const part of [trace.line, trace.marker, trace.error_x])
      if (typeof part?.color === 'string') part.color = pick(part.color);
    if (trace.fillcolor) trace.fillcolor = pick(trace.fillcolor);
  }
  layout.font = {...layout.font, color: style.color, size: slim.matches ? 11 : 12};
  layout.hoverlabel = {bgcolor: style.backgroundColor, font: {color: style.color}};
  for (const key of Object.keys(layout).filter(k => /^[xy]axis/.test(k))) {
    layout[key].gridcolor = layout[key].zerolinecolor = line;
    const axis = key[0], own = key.replace('axis', '');
    const names = [...new Set(data.filter(t => (t[axis + 'axis'] || axis) === own)
      .flatMap(t => Array.from(t[axis] || [])))];
    if (names.length && names.every(name => typeof name === 'string'))
      Object.assign(layout[key], {tickvals: names, ticktext: shorten(names)});
  }
  return Plotly.redraw(plot);
}
const paint = () => plots().forEach(paintOne);
for (const query of [dark, slim]) query.addEventListener('change', paint);
addEventListener('load', paint);
for (const details of document.querySelectorAll('details'))
  details.addEventListener('toggle', () =>
    details.querySelectorAll('.js-plotly-plot').forEach(p => Plotly.Plots.resize(p)));
addEventListener('beforeprint', () =>
  document.querySelectorAll('details').forEach(d => d.open = true));
for (const scroll of document.querySelectorAll('.scroll'))
  new ResizeObserver(() => {
    const hint = scroll.previousElementSibling;
    if (hint?.className === 'hint') hint.hidden = scroll.scrollWidth <= scroll.clientWidth + 1;
  }).observe(scroll);
for (const button of document.querySelectorAll('button[data-copy]'))
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = 'copied';
  });
""".replace("PAIRS", json.dumps([*zip(COLORS, DARK_COLORS)]))
HINT = '<p class="hint" hidden>More columns: scroll the table sideways →</p>'


def format_figure(figure: go.Figure, about: str, height: int) -> str:
    """Returns a figure as HTML, with its legend below the plot."""
    figure.update_layout(
        template="plotly_white", height=height, title=None,
        margin={"t": 30, "b": 50, "l": 10, "r": 10}, hovermode="closest",
        legend={"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom",
                "x": 0, "xanchor": "left"},
        paper_bgcolor=CLEAR, plot_bgcolor=CLEAR, modebar={"bgcolor": CLEAR},
    )  # fmt: skip
    figure.update_yaxes(automargin=True)
    html = figure.to_html(full_html=False, include_plotlyjs=False,
                          config={"displaylogo": False})  # fmt: skip
    return f'<div class="plot" role="group" aria-label="{escape(about)}">{html}</div>'


def format_name(name: str) -> str:
    """Returns the name of a layer as HTML that can be wrapped after dots and slashes."""
    return re.sub(r"([./])", r"\1<wbr>", escape(name))


def format_verdict(sentences: Iterable[str]) -> str:
    """Returns the box at the top of a page; the first sentence is its main one."""
    lines = "".join(f"<p>{escape(text)}</p>" for text in sentences)
    return f'<div class="verdict">{lines}</div>'


def format_table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    numbers: int,
    chosen: int | None = None,
) -> str:
    """Returns an HTML table whose header row and first column stay visible.

    Args:
      head: The header row, as HTML.
      rows: The other rows, as HTML.
      numbers: How many columns before the last one are aligned right.
      chosen: The index of a row to mark.
    """
    first = len(head) - 1 - numbers

    def style(column: int) -> str:
        return ' class="number"' if first <= column < len(head) - 1 else ""

    heads = "".join(
        f'<th scope="col"{style(i)}>{text}</th>' for i, text in enumerate(head)
    )
    lines = []
    for number, row in enumerate(rows):
        cells = [f'<th scope="row">{row[0]}</th>']
        cells += [f"<td{style(i)}>{cell}</td>" for i, cell in enumerate(row) if i]
        mark = ' class="chosen"' if number == chosen else ""
        lines.append(f"<tr{mark}>{''.join(cells)}</tr>")
    return (
        f'{HINT}<div class="scroll" tabindex="0"><table><thead><tr>{heads}</tr></thead><tbody>'
        + "\n".join(lines)
        + "</tbody></table></div>"
    )


def write_page(heading: str, parts: Iterable[str], script: str = "") -> str:
    """Returns the page as HTML; `script` runs after the page's own script."""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(heading)}'
        f'</title><meta name="viewport" content="width=device-width">'
        f'<meta http-equiv="Content-Security-Policy" content="{NO_NETWORK}">'
        f"<style>{STYLE}</style>"
        f"<script>{get_plotlyjs()}</script></head><body><main>{''.join(parts)}</main>"
        f"<script>{SCRIPT}{script}</script></body></html>\n"
    )
