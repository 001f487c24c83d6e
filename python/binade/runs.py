"""Tables of training runs: ``binade runs``, ``python -m binade.runs``.

``binade runs [DIR...]`` lists the runs in directories. ``binade runs compare RUN...``
prints the differences between runs, and draws their curves with ``-o NAME``. Pictures
need plotly and matplotlib.
"""

from __future__ import annotations

import statistics
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from binade import verdict
from binade.command import run_command
from binade.errors import RejectedError
from binade.paired import compare, get_base
from binade.parser import Parser, suggest_command
from binade.run import (
    LAST_STEPS,
    NONE,
    Run,
    find_runs,
    format_time,
    format_mib,
    group_runs,
    list_differences,
)


# Width of sentences in a terminal.
WIDTH = 100


def _number(value: float | None, form: str) -> str:
    return NONE if value is None else format(value, form)


def _milliseconds(value: float | None) -> str:
    return NONE if value is None else format_time(value)


def summarize(run: Run) -> dict[str, str]:
    """Returns a run's table row: text by column."""
    held_out = run.series("eval_loss")
    best = min(held_out, key=held_out.__getitem__, default=None)
    return {
        "run": str(run.path),
        "model": str(run.about["model"]),
        "policy": run.policy,
        "seed": str(run.about["seed"]),
        "steps": str(len(run.steps)),
        "loss": _number(run.loss, "z.4f"),
        "eval_loss": _number(run.last_held_out, "z.4f"),
        "best": NONE if best is None else f"{held_out[best]:z.4f} at {best}",
        "ms/step": _milliseconds(run.milliseconds),
        "MiB": format_mib(run.about["arena_bytes"]),
        "skipped": str(sum(step["skipped"] for step in run.steps)),
    }


def format_table(rows: Sequence[Sequence[str]]) -> str:
    """Formats a table whose first row is the heading; columns of numbers are right-aligned."""
    columns = []
    for head, *cells in zip(*rows):
        is_number = all(cell == NONE or cell[:1].isdigit() for cell in cells)
        adjust: Callable[[str, int], str] = str.rjust if is_number else str.ljust
        width = max(map(len, (head, *cells)))
        column = [adjust(cell, width) for cell in (head, *cells)]
        columns.append([column[0], "-" * width, *column[1:]])
    return "\n".join("  ".join(line).rstrip() for line in zip(*columns))


def format_runs(runs: Sequence[Run]) -> str:
    rows = [summarize(run) for run in runs]
    table = format_table([list(rows[0]), *(list(row.values()) for row in rows)])
    return (
        f"{table}\n\nloss: mean of the last {LAST_STEPS} steps; eval_loss: held out, the "
        "last and the best; MiB: peak of all tensors"
    )


def format_spread(groups: dict[str, list[Run]]) -> str:
    """Formats mean, minimum and maximum of the losses over the seeds of each group."""

    def spread(values: Iterable[float | None]) -> str:
        known = [value for value in values if value is not None]
        if not known:
            return NONE
        mean = statistics.fmean(known)
        return f"{mean:z.4f} ({min(known):z.4f} to {max(known):z.4f})"

    rows = [["", "loss", "eval_loss"]]
    for label, members in groups.items():
        last = [run.last_held_out for run in members]
        rows.append([label, spread(run.loss for run in members), spread(last)])
    return format_table(rows)


def format_differences(groups: dict[str, list[Run]]) -> str:
    head, rows = list_differences(groups)
    if not rows:
        return "the runs have the same settings and files"
    return format_table([["", *head], *rows])


def format_verdict(groups: dict[str, list[Run]]) -> str:
    """Formats the differences of losses from the base's, and which policy to take."""
    sentences = [textwrap.fill(text, WIDTH) for text in verdict.describe(groups)]
    runs = [run for members in groups.values() for run in members]
    if verdict.find_mismatch(runs):
        return "\n".join(sentences)
    found = compare(groups, get_base(groups))
    table = format_table([["", *verdict.HEAD], *verdict.list_rows(found)])
    return "\n".join([table, "", *sentences])


def drop_counts(groups: dict[str, list[Run]]) -> dict[str, list[Run]]:
    """Removes the number of runs from labels, unless they become equal."""
    short = [
        label.removesuffix(f" ({len(runs)} runs)") for label, runs in groups.items()
    ]
    return dict(zip(short, groups.values())) if len({*short}) == len(groups) else groups


def draw(groups: dict[str, list[Run]], out: Path) -> list[Path]:
    """Draws loss curves to ``out.html`` and ``out.png``, or to `out` if it has such a suffix.

    Raises:
      RejectedError: If nothing can be drawn.
      ModuleNotFoundError: If a package is not installed.
    """
    from binade import curves

    runs = [run for members in groups.values() for run in members]
    drawn = curves.make_curves(groups)
    if not drawn:
        raise RejectedError(f"{runs[0].path}: no step has a loss that can be drawn")
    title = ", ".join(dict.fromkeys(run.about["model"] for run in runs))
    paths = [out]
    if out.suffix not in (".html", ".png"):
        paths = [out.with_name(out.name + suffix) for suffix in (".html", ".png")]
    out.parent.mkdir(parents=True, exist_ok=True)
    for path in paths:
        if path.suffix == ".png":
            sentences = verdict.describe(groups) if len(groups) > 1 else []
            curves.write_png(drawn, title, "\n".join(sentences), path)
        else:
            from binade import runs_page

            path.write_text(runs_page.write_page(title, groups))
    return paths


# --- The command ----------------------------------------------------------------------


def make_compare_parser() -> Parser:
    """Returns the parser of ``binade runs compare``."""
    parser = Parser(
        "binade runs compare",
        description="Print the options and results that differ between runs, and draw "
        "their loss curves.",
        epilog="Example:\n  binade runs compare run again -o curves.html",
    )
    parser.add_argument(
        "runs",
        nargs="+",
        type=Path,
        metavar="RUN",
        help="directory of a run, or of several runs",
    )
    parser.add_argument(
        "-o", "--out", type=Path, metavar="NAME",
        help="draw the loss curves to NAME.html and NAME.png, or to one file if NAME "
        "ends in .html or .png",
    )  # fmt: skip
    return parser


def _compare(arguments: Sequence[str]) -> None:
    options = make_compare_parser().parse_args(arguments)
    runs = find_runs(options.runs)
    groups = group_runs(runs)
    print(format_differences(groups), format_runs(runs), sep="\n\n")
    if len(groups) < len(runs):
        print("", format_spread(groups), sep="\n")
    groups = drop_counts(groups)
    if len(groups) > 1:
        print("", format_verdict(groups), sep="\n")
    if options.out:
        try:
            paths = draw(groups, options.out)
        except ModuleNotFoundError as error:
            package = (error.name or "").partition(".")[0]
            raise RejectedError(
                f"{options.out}: pictures need the Python package '{package}', which is not "
                "installed"
            ) from error
        print(f"\ncurves: {' and '.join(map(str, paths))}")


# Subcommands that the parser does not know, because directories may have any name.
SUBCOMMANDS = {"compare": make_compare_parser}


def make_parser() -> Parser:
    """Returns the parser of ``binade runs``."""
    parser = Parser(
        "binade runs",
        description="List the runs in directories, with their results.",
        epilog="Example:\n  binade runs run again\n"
        "'binade runs compare RUN...' prints the options that differ between runs and "
        "draws\ntheir loss curves; see 'binade runs compare --help'.",
    )
    parser.add_argument(
        "directories", nargs="*", type=Path, default=[Path()], metavar="DIR",
        help="directory of a run, or of several runs (default: the working directory)",
    )  # fmt: skip
    return parser


def _list(arguments: Sequence[str]) -> None:
    parser = make_parser()
    options = parser.parse_args(arguments)
    first = options.directories[0]
    near = suggest_command(str(first), SUBCOMMANDS)
    if near and not first.exists():
        parser.error(f"no command and no directory is called '{first}'{near}")
    print(format_runs(find_runs(options.directories)))


def _main(arguments: Sequence[str] | None = None) -> None:
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["compare"]:
        _compare(words[1:])
    else:
        _list(words)


def main() -> int:
    """Runs the command; returns its exit code."""
    return run_command("binade runs", _main)


if __name__ == "__main__":
    sys.exit(main())
