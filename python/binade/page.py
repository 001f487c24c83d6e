"""Self-contained HTML pages with tables and figures, with styles for dark mode and print
and with keyboard navigation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

STYLE = """
:root { color-scheme: light dark; --ink: #1a1a1a; --paper: #fff; --line: #d5d5d5;
  --soft: #f4f4f4; --mark: #0072b2; --bad: #b00020; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e8; --paper: #161616;
  --line: #444; --soft: #232323; --mark: #6cb8e8; --bad: #ff8a80; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 78rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.5rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .4rem; border-bottom: 1px solid var(--line); text-align: left;
  vertical-align: top; white-space: nowrap; }
td.number, th.number { text-align: right; }
thead th { border-bottom: 2px solid var(--line); }
code, pre { font: 13px/1.45 ui-monospace, monospace; }
pre { background: var(--soft); padding: .75rem; overflow-x: auto; }
summary { cursor: pointer; } .error { color: var(--bad); white-space: normal; }
:focus-visible { outline: 3px solid var(--mark); outline-offset: 2px; }
.bits16, .bits8, .bits4 { padding: 0 .3rem; border-radius: .2rem;
  background: color-mix(in srgb, var(--mark) var(--share), transparent); }
.bits16 { --share: 15%; } .bits8 { --share: 40%; } .bits4 { --share: 50%; }
.more { width: 0; font-weight: normal; } /* Its columns stay as wide as when it is closed. */
.more > * { width: 60rem; max-width: 92vw; margin: .5rem 0 .5rem 1rem; }
.more td { white-space: normal; }
button { font: inherit; }
@media print { button { display: none; } body { max-width: none; margin: 0; }
  .plot, tr { break-inside: avoid; } }
"""

CLEAR = "rgba(0,0,0,0)"

# Content security policy: the page must not load anything from the network.
NO_NETWORK = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:"
)

SCRIPT = """
const dark = matchMedia('(prefers-color-scheme: dark)');
const plots = () => document.querySelectorAll('.js-plotly-plot');
function paint() {
  const ink = getComputedStyle(document.body).color;
  const line = dark.matches ? '#444' : '#ddd';
  for (const plot of plots()) {
    const change = {'font.color': ink};
    for (const key of Object.keys(plot.layout).filter(k => /^[xy]axis/.test(k)))
      change[key + '.gridcolor'] = change[key + '.zerolinecolor'] = line;
    Plotly.relayout(plot, change);
  }
}
dark.addEventListener('change', paint);
addEventListener('load', paint);
for (const details of document.querySelectorAll('details'))
  details.addEventListener('toggle', () =>
    details.querySelectorAll('.js-plotly-plot').forEach(p => Plotly.Plots.resize(p)));
addEventListener('beforeprint', () =>
  document.querySelectorAll('details').forEach(d => d.open = true));
for (const button of document.querySelectorAll('button[data-copy]'))
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = 'copied';
  });
"""


def format_figure(figure: go.Figure, about: str, height: int) -> str:
    figure.update_layout(
        template="plotly_white", height=height, title=None, margin={"t": 30, "b": 50},
        paper_bgcolor=CLEAR, plot_bgcolor=CLEAR, modebar={"bgcolor": CLEAR},
    )  # fmt: skip
    html = figure.to_html(full_html=False, include_plotlyjs=False,
                          config={"displaylogo": False})  # fmt: skip
    return f'<div class="plot" role="group" aria-label="{escape(about)}">{html}</div>'


def format_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], numbers: int
) -> str:
    """Returns an HTML table; the `numbers` columns before the last one are aligned right."""
    first = len(head) - 1 - numbers

    def style(column: int) -> str:
        return ' class="number"' if first <= column < len(head) - 1 else ""

    heads = "".join(
        f'<th scope="col"{style(i)}>{text}</th>' for i, text in enumerate(head)
    )
    lines = []
    for row in rows:
        cells = [f'<th scope="row">{row[0]}</th>']
        cells += [f"<td{style(i)}>{cell}</td>" for i, cell in enumerate(row) if i]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return (
        f'<div class="scroll" tabindex="0"><table><thead><tr>{heads}</tr></thead><tbody>'
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
