"""Finds the decisions of a policy that break a run.

``binade bisect MODEL --policy P --criterion C`` tests forward pass, backward pass and
optimizer states first, then layers, then ops. It tries units in the order of the error
that each introduces in a step, which ``binade shadow`` measures, and reduces the found set
by delta debugging.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from binade import option_file, overrides, replay
from binade.arguments import find_value, parse_count
from binade.command import DIFFERENT, run_command
from binade.criterion import parse_criterion
from binade.definitions import list_train_options
from binade.errors import RejectedError, UsageError
from binade.parser import Parser
from binade.run import read_run
from binade.runs import format_table
from binade.tracing import end_as, run_program, trace_run
from binade.trials import OutOfRuns, Trial, Trials
from binade.units import (
    WHOLE,
    Unit,
    by_layer,
    by_op,
    collect_rules,
    covered,
    list_suspects,
    make_groups,
    make_units,
)

# --- The search -------------------------------------------------------------------------

# Options of `binade train` that a bisection sets itself, or that its policy has.
OWN = ("--resume", "--save-every", "--stop-after", "--states")


class Search:
    """Finds a small set of units such that the run is good with these kept in f32."""

    def __init__(self, trials: Trials) -> None:
        self.trials = trials
        self.best: list[Unit] = []  # The units of the last good run.

    def suffices(self, units: Sequence[Unit]) -> bool:
        label = ", ".join(unit.label for unit in units[:3])
        if len(units) > 3:
            label += f" and {len(units) - 3} more"
        good = self.trials.run(collect_rules(units), f"wide: {label}").good
        if good:
            self.best = list(units)
        return good

    def refine(self, units: list[Unit]) -> list[Unit] | None:
        """Returns a minimal subset of `units` that suffices, or None if all together do
        not. The units are ordered from the largest error to the smallest."""
        count = 1
        while not self.suffices(units[:count]):
            if count >= len(units):
                return None
            count = min(2 * count, len(units))
        return self.minimize(units[:count])

    def minimize(self, units: list[Unit]) -> list[Unit]:
        """Removes units that are not needed, by delta debugging (Zeller, Hildebrandt,
        2002)."""
        parts = 2
        while len(units) > 1:
            size = -(-len(units) // parts)
            starts = reversed(range(0, len(units), size))  # Smallest errors first.
            for start in starts:
                rest = units[:start] + units[start + size :]
                if rest and self.suffices(rest):
                    units, parts = rest, max(parts - 1, 2)
                    break
            else:
                if size == 1:
                    break
                parts = min(2 * parts, len(units))
        return units

    def run(self, report: dict[str, Any]) -> list[Unit]:
        """Returns a minimal set of units to blame; empty if all of them do not suffice."""
        suspects = list_suspects(report)
        phases = dict.fromkeys(entry["phase"] for entry in suspects)
        found = self.refine(make_groups(list(phases)))
        for key in (by_layer, by_op):
            blamed = [e for e in suspects if covered(found or [], [e])]
            finer = self.refine(make_units(blamed, key))
            if finer is None:
                break  # Entries without a node are covered by the coarser units only.
            if covered(finer, blamed) < len(blamed):
                found = finer  # Otherwise the coarser units cover the same entries.
        return found or []


def collect_evidence(trial: Trial, out: Path) -> dict[str, Any]:
    """Returns the trace of the first step that was skipped or not finite, or the last."""
    run = read_run(trial.path)
    bad = [s["step"] for s in run.steps if s["loss"] is None or s["skipped"]]
    number = bad[0] if bad else len(run.steps)
    return trace_run(run, number, out / "evidence.json", trial.path.name)


# --- The report -------------------------------------------------------------------------


def format_trials(trials: Trials) -> str:
    rows = [["run", "", trials.criterion.metric, "what", "directory"]]
    for number, trial in enumerate(trials.done, 1):
        value = "not finite" if trial.value is None else f"{trial.value:.6g}"
        rows.append([str(number), "good" if trial.good else "bad", value, trial.label,
                     str(trial.path)])  # fmt: skip
    return format_table(rows)


def conclude(trials: Trials, found: Sequence[Unit], text: str) -> None:
    """Writes the repaired policy, if units were found, and the report; prints a summary."""
    report = [f"criterion: {trials.describe()}", text]
    if found:
        path = trials.out / "repaired.yaml"
        extends = overrides.copy_policy(trials.policy, trials.out)
        rules = overrides.merge_phases(collect_rules(found))
        path.write_text(overrides.format_policy(
            path.stem, extends, rules, f"Meets {trials.criterion.text}."))  # fmt: skip
        report += [f"{path}:", "", path.read_text()]
    (trials.out / "report.txt").write_text(
        "\n".join([*report, format_trials(trials)]) + "\n"
    )
    print(*report[1:], f"{len(trials.done)} runs, {trials.trained} of them trained now: "
          f"{trials.out / 'report.txt'}", sep="\n")  # fmt: skip


def bisect(trials: Trials) -> int:
    """Runs the search and returns the exit code."""
    search = Search(trials)
    try:
        return _search(trials, search)
    except OutOfRuns:
        text = "out of runs: the same command continues"
        conclude(
            trials, search.best, text + ("; the best so far" if search.best else "")
        )
        return DIFFERENT


def _search(trials: Trials, search: Search) -> int:
    if trials.criterion.needs_reference and trials.measure_reference() is None:
        raise RejectedError(
            f"in fp32 there is no {trials.criterion.metric} at step "
            f"{trials.criterion.step}: the run stops before, or it is not finite"
        )
    print(f"criterion: {trials.describe()}", flush=True)
    base = trials.run([], "the policy as it is")
    if base.good:
        conclude(trials, [], "the policy meets the criterion as it is")
        return 0
    if not trials.run(list(WHOLE.values()), "all wide").good:
        conclude(trials, [], "with all wide the criterion is not met either: its formats "
                 "are not to blame")  # fmt: skip
        return DIFFERENT
    found = search.run(collect_evidence(base, trials.out)) or make_groups(list(WHOLE))
    blamed = ", ".join(unit.label for unit in found)
    conclude(trials, found, f"to blame: {blamed}")
    return 0


# --- The command ------------------------------------------------------------------------


def make_parser() -> Parser:
    """Returns the parser of ``binade bisect``."""
    parser = Parser(
        "binade bisect",
        other_options=list_train_options,
        description="Find which format decisions of a policy make training fail, and write a "
        "policy\nwithout them.",
        epilog="Example:\n"
        "  binade bisect model.onnx --data train.safetensors --eval-fraction 0.1 "
        "--policy fp16-amp \\\n"
        "      --criterion 'eval_loss@200 <= fp32*1.01' --out bisected\n"
        "Options of 'binade train', such as --data and --optimizer, apply to each run.\n"
        "The same command continues an interrupted bisection.\n"
        "The exit code is 1 if no policy meets the criterion, or --max-runs was reached.",
    )
    parser.add_argument("model", metavar="MODEL", help="ONNX file, or a run.yaml")
    parser.add_argument(
        "--policy",
        required=True,
        metavar="POLICY",
        help="policy under which training fails: a name of 'binade list policies', or "
        "a .yaml file",
    )
    parser.add_argument(
        "--criterion", required=True, metavar="METRIC@STEP <= LIMIT",
        help="condition that a good run meets: METRIC is loss, eval_loss, grad_norm, "
        "loss_scale or skipped (number of skipped steps so far); LIMIT is a number, "
        "or is relative to the fp32 run: fp32*FACTOR or fp32+NUMBER; also <, > and >=",
    )  # fmt: skip
    parser.add_argument(
        "--out", required=True, type=Path, metavar="DIR",
        help="directory for the runs, the repaired policy (repaired.yaml) and "
        "report.txt",
    )  # fmt: skip
    parser.add_argument(
        "--max-runs", type=parse_count, default=0, metavar="N",
        help="maximum number of runs to train before this command stops; 0 for no "
        "limit (default: 0)",
    )  # fmt: skip
    return parser


def _main(arguments: Sequence[str] | None) -> int:
    options, more = make_parser().parse_known_args(option_file.expand(arguments, OWN))
    criterion = parse_criterion(options.criterion)
    for word in OWN:
        if any(w.partition("=")[0] == word for w in more):
            why = "states belong into the policy" if word == "--states" else "not here"
            raise UsageError(f"{word}: {why}")
    shown = run_program(["binade", "policy", "show", options.policy], ".")
    if shown.returncode:
        end_as(shown)
    given = find_value(more, "--steps")
    steps = ["--stop-after", str(criterion.step)]
    if find_value(more, "--epochs") is None:
        steps += ["--steps", given or str(criterion.step)]
    words = [options.model, *replay.without(more, ["--steps"])]
    trials = Trials(words, options.policy, steps, criterion, options.out,
                    options.max_runs, shown.stdout)  # fmt: skip
    return bisect(trials)


def main() -> int:
    """Runs the command; returns its exit code."""
    return run_command("binade bisect", _main)


if __name__ == "__main__":
    sys.exit(main())
