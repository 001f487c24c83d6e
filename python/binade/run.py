"""Reads the directory of a training run, and finds the differences between runs.

The files are those of ``binade train``: ``run.json``, ``metrics.jsonl`` and, if
statistics were requested, ``stats.jsonl``.
"""

from __future__ import annotations

import json
import os
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from binade.errors import RejectedError
from binade.run_data import describe_data, is_data

# A run's loss is the mean over its last steps, because the loss of one batch is noisy. Its
# time per step ignores this share of steps at the beginning, which fill caches.
LAST_STEPS = 10
WARM_UP = 0.1
# Prefixes of keys whose differences only follow from differences in other keys.
DERIVED = (
    "policy hash", "computation", "ops in ", "casts to ", "MiB", "file ", "eval samples",
)  # fmt: skip
# A label names at most this number of settings; runs that differ in more are labeled by
# their directories.
MAX_NAMED = 2
NONE = "-"


@dataclass(frozen=True)
class Run:
    """The contents of a run's directory."""

    path: Path
    about: dict[str, Any]  # run.json
    steps: list[dict[str, Any]]  # metrics.jsonl, from step 1 on
    start: dict[str, Any] | None = None  # Step 0 there: evaluation before training.

    @property
    def policies(self) -> list[str]:
        """The policies under which the run was trained, in order: several if it switched after an
        alarm or by a schedule."""
        own = self.about["policy"]
        names = [str(one.get("policy", own)) for one in self.about["invocations"]]
        return [name for i, name in enumerate(names) if i == 0 or name != names[i - 1]]

    @property
    def policy(self) -> str:
        """The names of all policies of the run, such as ``nvfp4 -> bf16-amp``."""
        return " -> ".join(self.policies)

    def series(self, key: str) -> dict[int, float]:
        """Returns the values of a metric by step; steps without a value are left out."""
        lines = [self.start, *self.steps] if self.start else self.steps
        return {s["step"]: s[key] for s in lines if s.get(key) is not None}

    @property
    def loss(self) -> float | None:
        """The mean loss of the last ``LAST_STEPS`` steps."""
        last = [s["loss"] for s in self.steps[-LAST_STEPS:] if s["loss"] is not None]
        return statistics.fmean(last) if last else None

    @property
    def last_held_out(self) -> float | None:
        held_out = self.series("eval_loss")
        return held_out[max(held_out)] if held_out else None

    def get_final_loss(self, held_out: bool) -> float | None:
        """Returns the last held-out loss, or ``loss``; None if the run ended with a loss that
        is not finite."""
        last = self.steps[-1] if self.steps else None
        if last and last["loss"] is None and last.get("eval_loss") is None:
            return None
        return self.last_held_out if held_out else self.loss

    @property
    def times(self) -> list[float]:
        """The milliseconds of each step, without the warm-up."""
        return [step["ms"] for step in self.steps[int(len(self.steps) * WARM_UP) :]]

    @property
    def milliseconds(self) -> float | None:
        """The median time of a step, without the warm-up."""
        return statistics.median(self.times) if self.times else None


# --- Reading --------------------------------------------------------------------------


def find_run_directory(path: Path) -> Path:
    """Returns the directory of `path` if that is the ``run.json`` or ``run.yaml`` of a run, and
    otherwise `path`."""
    isOfRun = path.name in ("run.json", "run.yaml") and path.is_file()
    return path.parent if isOfRun and (path.parent / "run.json").exists() else path


def read_run(path: Path) -> Run:
    """Reads a run, given its directory, ``run.json`` or ``run.yaml``.

    Raises:
      RejectedError: If it is not a run, or a file is not in the form of ``binade train``.
    """
    path = find_run_directory(path)
    if not (path / "run.json").exists():
        raise RejectedError(
            f"{path}: no run: expected run.json there, which 'binade train' writes"
        )
    about = _parse(path / "run.json", (path / "run.json").read_bytes())
    try:
        lines = _read_metrics(path / "metrics.jsonl")
        start = lines.pop(0) if lines and lines[0]["step"] == 0 else None
        run = Run(path, about, lines, start)
        describe(run)
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
        raise RejectedError(
            f"{path}: expected in the directory of run.json, but not there"
        )
    steps = _read_lines(path)
    kinds = {"step": int, "loss": (int, float, type(None)), "ms": (int, float),
             "skipped": bool}  # fmt: skip
    for number, step in enumerate(steps, 1):
        for key, kind in kinds.items():
            if not isinstance(step.get(key, ...), kind):
                raise RejectedError(f"{path}:{number}: no '{key}' of a step")
    return steps


def _read_lines(path: Path) -> list[dict[str, Any]]:
    # Text after the last newline is incomplete: it is being written, or the run was killed.
    lines = path.read_bytes().split(b"\n")[:-1]
    return [_parse(f"{path}:{i}", line) for i, line in enumerate(lines, 1)]


def read_statistics(run: Path) -> list[dict[str, Any]]:
    """Reads the statistics of a run, which ``binade train --stats`` writes.

    Returns:
      For each step and value an object with ``step``, ``kind``, ``layer`` and the
      statistics by name: a number, None if it does not exist or is not finite, or for
      ``exponents`` counts by exponent. Empty if no statistics were requested.

    Raises:
      RejectedError: If a line is not what ``binade train`` writes.
    """
    path = run / "stats.jsonl"
    lines = _read_lines(path) if path.exists() else []
    for number, line in enumerate(lines, 1):
        for key, kind in {"step": int, "kind": str, "layer": str}.items():
            if not isinstance(line.get(key), kind):
                raise RejectedError(f"{path}:{number}: no '{key}' of a statistic")
    return lines


def _parse(where: object, text: bytes) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise RejectedError(f"{where}: damaged: {error}") from error
    if not isinstance(value, dict):
        raise RejectedError(f"{where}: expected a JSON object, got {text[:40]!r}")
    return value


def find_runs(paths: Iterable[Path]) -> list[Run]:
    """Returns the runs at `paths` and in directories below them."""
    found: dict[Path, None] = {}
    for path in map(find_run_directory, paths):
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
    """Describes the settings and files of a run, without its path and time."""
    about, last = run.about, run.about["invocations"][-1]
    cells = {"model": str(about["model"]), "policy": run.policy}
    cells["policy hash"] = about["policy_hash"][:12]
    cells["computation"] = about["computation"][:12]
    for key in ("seed", "batch", "batches", "order", "samples", "eval_samples"):
        cells[key.replace("_", " ")] = str(about[key])
    cells |= {f"dim {key}": str(value) for key, value in about["dims"].items()}
    cells |= {
        name_setting(key): f"{value:g}" for key, value in about["settings"].items()
    }
    cells |= {
        f"schedule of {name_setting(key)}": text
        for key, text in about["schedules"].items()
    }
    cells |= {f"ops in {key}": str(value) for key, value in about["ops"].items()}
    cells |= {f"casts to {key}": str(value) for key, value in about["casts"].items()}
    cells["MiB"] = format_mib(about["arena_bytes"])
    cells |= {
        f"MiB of {key}": format_mib(value) for key, value in about["ledger"].items()
    }
    cells |= {f"file {key}": f["sha256"][:12] for key, f in last["files"].items()}
    return cells | {key: str(value) for key, value in last["machine"].items()}


def name_setting(key: str) -> str:
    """Returns the name of a setting as text: ``lr of group 1`` for ``lr@1``."""
    name, _, group = key.partition("@")
    return f"{name} of group {group}" if group else name


def format_mib(size: float) -> str:
    mib = size / 2**20
    return f"{mib:.1f}" if mib >= 1 else f"{mib:.2g}"


def format_time(milliseconds: float) -> str:
    """Formats a time with three significant digits, or as an integer."""
    return format(milliseconds, ".3g" if milliseconds < 100 else ".0f")


def describe_all(runs: Sequence[Run]) -> list[dict[str, str]]:
    """Describes runs like `describe`, but identifies data by their arrays where files differ."""
    cells = [describe(run) for run in runs]
    data = describe_data([run.about["invocations"][-1] for run in runs])
    for cell, own in zip(cells, data):
        for key in [key for key in cell if is_data(key.removeprefix("file "))]:
            del cell[key]
        cell.update({f"file {key}": value[:12] for key, value in own.items()})
    return cells


def find_differences(runs: Sequence[Run]) -> dict[str, list[str]]:
    """Returns the keys whose values differ between the runs, with the value of each run."""
    cells = describe_all(runs)
    keys = dict.fromkeys(key for run in cells for key in run)
    rows = {key: [run.get(key, NONE) for run in cells] for key in keys}
    return {key: row for key, row in rows.items() if len(set(row)) > 1}


def group_runs(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Groups runs that differ only in their seed; a label names the policy and the settings
    in which the groups differ, or the directory of the first run if these are more than
    ``MAX_NAMED``."""
    cells = describe_all(runs)
    keys = dict.fromkeys(key for run in cells for key in run)
    named = [
        key
        for key in keys
        if key not in ("policy", "seed")
        and not key.startswith(DERIVED)
        and len({run.get(key) for run in cells}) > 1
    ]
    hashes = {(run["policy"], run["policy hash"]) for run in cells}
    groups: dict[tuple, list[Run]] = {}
    labels: dict[tuple, str] = {}
    parent = os.path.commonpath([run.path.resolve().parent for run in runs])
    for run, cell in zip(runs, cells):
        words = [
            cell["policy"],
            *(f"{key} {cell[key]}" for key in named if key in cell),
        ]
        if [name for name, _ in hashes].count(cell["policy"]) > 1:
            words[0] += f" {cell['policy hash'][:6]}"
        if len(named) > MAX_NAMED:
            words = [os.path.relpath(run.path.resolve(), parent)]
        # Derived keys separate groups too: they may differ where no named key does.
        group = tuple(cell.get(key) for key in keys if key != "seed")
        groups.setdefault(group, []).append(run)
        labels.setdefault(group, ", ".join(words))
    several_seeds = len({run["seed"] for run in cells}) > 1
    found: dict[str, list[Run]] = {}
    for group, members in groups.items():
        label = labels[group]
        if len(members) > 1:
            label += f" ({len(members)} runs)"
        elif several_seeds:
            label += f", seed {members[0].about['seed']}"
        if label in found:
            label += f", {members[0].path}"
        found[label] = members
    return found


def list_differences(groups: dict[str, list[Run]]) -> tuple[list[str], list[list[str]]]:
    """Returns the head and the rows of a table of what differs: a column for each run, or for
    each group of runs with several seeds, which then has all its values."""
    runs = [run for members in groups.values() for run in members]
    rows = find_differences(runs)
    if len(groups) == 1 or len(groups) == len(runs):
        return [str(run.path) for run in runs], [
            [key, *row] for key, row in rows.items()
        ]
    labels = [label for label, members in groups.items() for _ in members]
    merged = []
    for key, row in rows.items():
        values: dict[str, dict[str, None]] = {}
        for label, value in zip(labels, row):
            values.setdefault(label, {})[value] = None
        merged.append([key, *(", ".join(of_label) for of_label in values.values())])
    return list(groups), merged
