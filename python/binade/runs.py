"""Tables of training runs: ``binade runs``, ``python -m binade.runs``.

``binade runs [DIR...]`` lists the runs in directories. ``binade runs compare RUN...``
says what differs between runs, and draws their curves with ``-o NAME``. Reads what
``binade train`` leaves in a run's directory: ``run.json`` and ``metrics.jsonl``. Tables
need nothing but Python, pictures plotly and matplotlib.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from binade.command import RejectedError, run_command

# The loss of one batch is noise; the first steps fill caches.
LAST_STEPS = 10
WARM_UP = 0.1
NONE = "-"


@dataclass(frozen=True)
class Run:
    """A run's directory, read."""

    path: Path
    about: dict[str, Any]  # run.json
    steps: list[dict[str, Any]]  # metrics.jsonl

    def series(self, key: str) -> dict[int, float]:
        """The values of a metric by step, where there are any."""
        return {s["step"]: s[key] for s in self.steps if s.get(key) is not None}

    @property
    def loss(self) -> float | None:
        """The mean of the last steps'."""
        last = [s["loss"] for s in self.steps[-LAST_STEPS:] if s["loss"] is not None]
        return statistics.fmean(last) if last else None

    @property
    def milliseconds(self) -> float | None:
        """The median step's."""
        times = [step["ms"] for step in self.steps[int(len(self.steps) * WARM_UP) :]]
        return statistics.median(times) if times else None


# --- Reading --------------------------------------------------------------------------


def read_run(path: Path) -> Run:
    """Reads a run's directory.

    Raises:
      RejectedError: If it is none, or a file of it is not what ``binade train`` writes.
    """
    if not (path / "run.json").exists():
        raise RejectedError(
            f"{path}: no run: expected run.json there, which 'binade train' writes"
        )
    about = _parse(path / "run.json", (path / "run.json").read_bytes())
    try:
        run = Run(path, about, _read_metrics(path / "metrics.jsonl"))
        describe(run), summarize(run)
    except KeyError as error:
        raise RejectedError(
            f"{path / 'run.json'}: lacks {error}, which 'binade train' writes"
        ) from error
    except (TypeError, ValueError, IndexError, AttributeError) as error:
        raise RejectedError(
            f"{path / 'run.json'}: not what 'binade train' writes: {error}"
        ) from error
    return run


def _read_metrics(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        raise RejectedError(f"{path}: expected beside run.json, but not there")
    # What follows the last newline is being written, or its writer was killed.
    lines = path.read_bytes().split(b"\n")[:-1]
    steps = [_parse(f"{path}:{i}", line) for i, line in enumerate(lines, 1)]
    kinds = {"step": int, "loss": (int, float, type(None)), "ms": (int, float),
             "skipped": bool}  # fmt: skip
    for number, step in enumerate(steps, 1):
        for key, kind in kinds.items():
            if not isinstance(step.get(key, ...), kind):
                raise RejectedError(f"{path}:{number}: no '{key}' of a step")
    return steps


def _parse(where: object, text: bytes) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise RejectedError(f"{where}: damaged: {error}") from error
    if not isinstance(value, dict):
        raise RejectedError(f"{where}: expected a JSON object, got {text[:40]!r}")
    return value


def find_runs(paths: Iterable[Path]) -> list[Run]:
    """The runs that `paths` are, or that are in directories below them."""
    found: dict[Path, None] = {}
    for path in paths:
        below = list(_walk(path))
        if not below:
            raise RejectedError(
                f"{path}: no run: expected run.json, which 'binade train' writes, there "
                "or in a directory below"
            )
        found.update(dict.fromkeys(below))
    return [read_run(path) for path in found]


def _walk(path: Path) -> Iterable[Path]:
    for folder, folders, files in os.walk(path):
        if "run.json" in files:
            yield Path(folder)
            folders.clear()
        folders[:] = sorted(name for name in folders if not name.startswith("."))


# --- What differs ---------------------------------------------------------------------


def describe(run: Run) -> dict[str, str]:
    """What a run is made of; where it lies, and when it ran, is left out."""
    about, last = run.about, run.about["invocations"][-1]
    cells = {key: str(about[key]) for key in ("model", "policy")}
    cells["policy hash"] = about["policy_hash"][:12]
    cells["computation"] = about["computation"][:12]
    for key in ("seed", "batch", "order", "samples", "eval_samples"):
        cells[key.replace("_", " ")] = str(about[key])
    cells |= {f"dim {key}": str(value) for key, value in about["dims"].items()}
    cells |= {key: f"{value:g}" for key, value in about["settings"].items()}
    cells |= {f"ops in {key}": str(value) for key, value in about["ops"].items()}
    cells |= {f"casts to {key}": str(value) for key, value in about["casts"].items()}
    cells |= {f"MiB of {key}": _mib(value) for key, value in about["ledger"].items()}
    cells |= {f"file {key}": f["sha256"][:12] for key, f in last["files"].items()}
    return cells | {key: str(value) for key, value in last["machine"].items()}


def find_differences(runs: Sequence[Run]) -> dict[str, list[str]]:
    """What the runs do not share: key, and the value in each."""
    cells = [describe(run) for run in runs]
    keys = dict.fromkeys(key for run in cells for key in run)
    rows = {key: [run.get(key, NONE) for run in cells] for key in keys}
    return {key: row for key, row in rows.items() if len(set(row)) > 1}


# --- Tables ---------------------------------------------------------------------------


def _mib(size: int) -> str:
    mib = size / 2**20
    return f"{mib:.1f}" if mib >= 1 else f"{mib:.2g}"


def _number(value: float | None, form: str) -> str:
    return NONE if value is None else format(value, form)


def summarize(run: Run) -> dict[str, str]:
    """A run's row: column and text."""
    held_out = run.series("eval_loss")
    best = min(held_out, key=held_out.__getitem__, default=None)
    return {
        "run": str(run.path),
        "model": str(run.about["model"]),
        "policy": str(run.about["policy"]),
        "seed": str(run.about["seed"]),
        "steps": str(len(run.steps)),
        "loss": _number(run.loss, ".4f"),
        "eval_loss": _number(held_out[max(held_out)] if held_out else None, ".4f"),
        "best": NONE if best is None else f"{held_out[best]:.4f} at {best}",
        "ms/step": _number(run.milliseconds, ".3g"),
        "MiB": _mib(run.about["arena_bytes"]),
        "skipped": str(sum(step["skipped"] for step in run.steps)),
    }


def format_table(rows: Sequence[Sequence[str]]) -> str:
    """Columns under a heading; those of numbers are flush right."""
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


def format_differences(runs: Sequence[Run]) -> str:
    rows = [[key, *row] for key, row in find_differences(runs).items()]
    if not rows:
        return "the runs are made of the same"
    return format_table([["", *(str(run.path) for run in runs)], *rows])


# --- The command ----------------------------------------------------------------------


def _compare(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        "binade runs compare",
        description="Say what differs between runs, and draw their losses.",
    )
    parser.add_argument(
        "runs", nargs="+", type=Path, metavar="RUN", help="a run, or a folder of runs"
    )
    parser.add_argument(
        "-o", "--out", type=Path, metavar="NAME",
        help="write the curves to NAME.html and NAME.png, or to the one of them that "
        "NAME ends with",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    runs = find_runs(options.runs)
    print(format_differences(runs), format_runs(runs), sep="\n\n")
    if options.out:
        try:
            from binade import curves

            paths = curves.draw(runs, options.out)
        except ModuleNotFoundError as error:
            raise RejectedError(
                f"{options.out}: pictures need the Python package '{error.name}', "
                "which is not installed"
            ) from error
        print(f"\ncurves: {' and '.join(map(str, paths))}")


def _list(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        "binade runs",
        description="List the runs in directories, with their results.",
        epilog="'binade runs compare RUN...' says what differs between runs, and draws "
        "their losses: see 'binade runs compare --help'.",
    )
    parser.add_argument(
        "directories", nargs="*", type=Path, default=[Path()], metavar="DIR",
        help="a run, or a folder of runs (default: the working directory)",
    )  # fmt: skip
    print(format_runs(find_runs(parser.parse_args(arguments).directories)))


def _main(arguments: Sequence[str] | None = None) -> None:
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["compare"]:
        _compare(words[1:])
    else:
        _list(words)


if __name__ == "__main__":
    sys.exit(run_command("binade runs", _main))
