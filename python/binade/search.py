"""Searches for the policy with the lowest held-out loss within a budget of memory or time:
``binade search MODEL --budget memory=70%``."""

from __future__ import annotations

import argparse
import math
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

from binade import option_file, overrides, replay
from binade.arguments import find_value, parse_positive, split_names, split_numbers
from binade.budget import parse_budget
from binade.candidates import Space
from binade.command import DIFFERENT, run_command
from binade.definitions import list_train_options
from binade.errors import RejectedError, UsageError
from binade.halving import WHOLE, Candidate, Search, copy_given, plan_rungs
from binade.parser import Parser
from binade.proposals import Proposals
from binade.run import NONE, format_mib, format_time
from binade.runs import format_table
from binade.sweep import OWN, add_page_option, check_words, load_page, save_page

POLICIES = ["bf16-amp", "fp16-amp", "fp8-current", "coat"]
STATES = ["dyn8", "e4m3x"]
SAVED = ["coat-group", "bf16"]
KEPT = ["75%", "50%"]
HEAD = ["candidate", "MiB", "ms/step", "steps", "above fp32", ""]
TOP = 10  # Number of sensitive layers that the report lists for each policy.


# --- The report -------------------------------------------------------------------------


def _mib(size: float) -> str:
    return format_mib(size) if math.isfinite(size) else NONE


def _row(one: Candidate) -> list[str]:
    gap = NONE if one.gap is None else f"{one.gap:+z.4f}"
    time = one.milliseconds
    return [one.name, _mib(one.bytes), NONE if time is None else format_time(time),
            str(one.steps), gap, one.verdict]  # fmt: skip


def rank(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Sorts candidates: those trained to the end by their gap, then by steps trained."""
    return sorted(
        candidates,
        key=lambda one: (one.verdict != WHOLE, -one.steps,
                         one.gap is None, one.gap or 0.0, one.bytes),
    )  # fmt: skip


def format_report(search: Search, ranked: Sequence[Candidate]) -> str:
    """Returns a table of all candidates, and the sensitive layers of each policy."""
    others = [one for one in ranked if one is not search.base]
    tables = [format_table([HEAD, *map(_row, [search.base, *others])])]
    for policy, units in search.sensitive.items():
        names = [f"  {unit.label}" for unit in units[:TOP]]
        tables.append("\n".join([f"most sensitive under {policy}:", *names]))
    return "\n\n".join(tables) + "\n"


def format_parts(
    search: Search, ranked: Sequence[Candidate], best: Candidate | None
) -> Iterator[str]:
    """Yields the sections of the page about candidates and sensitive layers, as HTML."""
    from binade import page

    shown = [search.base, *(one for one in ranked if one is not search.base)]
    rows = [[escape(cell) for cell in _row(one)] for one in shown]
    chosen = shown.index(best) if best else None
    yield "<h2>Candidates</h2><p>All candidates that were planned or trained"
    yield ", with the chosen one in bold.</p>" if best else ".</p>"
    yield page.format_table(HEAD, rows, 4, chosen)
    for policy, units in search.sensitive.items():
        names = "".join(f"<li>{escape(unit.label)}</li>" for unit in units[:TOP])
        name = escape(Path(policy).stem)
        yield f"<details><summary>Most sensitive layers under {name}</summary><ol>{names}</ol></details>"


def write_policy(search: Search, best: Candidate, budget: str) -> Path:
    """Writes the best policy to ``best.yaml`` in the search's directory."""
    assert best.gap is not None
    path = search.out / "best.yaml"
    extends = copy_given(best.choice.policy, search.out)
    rules = best.choice.rules(search.sensitive.get(best.choice.policy, []))
    why = (
        f"Found by binade search --budget {budget}: {best.name}, {_mib(best.bytes)} MiB, "
        f"held-out loss {best.gap:+z.4f} relative to fp32's after {best.steps} steps"
    )
    more = shlex.join(best.choice.words)
    why += f",\nwith {more}." if more else "."
    path.write_text(overrides.format_policy(path.stem, extends, rules, why))
    return path


def conclude(search: Search, options: argparse.Namespace, sweep_page: Any) -> int:
    """Writes the report, the page and the best policy; returns the exit code."""
    base, budget = search.base, options.budget
    ranked = rank([*search.tried.values()])
    report = format_report(search, ranked)
    (search.out / "report.txt").write_text(report)
    print("", report, sep="\n")
    whole = [one for one in ranked if one.verdict == WHOLE]
    title = f"{os.path.basename(options.model)}: policies within {budget}"
    compared = [base, *(one for one in whole if one is not base)]
    outcomes = [outcome for one in compared for outcome in one.outcomes]
    best = whole[0] if whole else None
    label = best.outcomes[0].member.label if best else None
    parts = format_parts(search, ranked, best)
    save_page(options, sweep_page.write_page(title, outcomes, label, parts))
    if not whole:
        least = min((one.bytes for one in ranked), default=base.bytes)
        print(f"no candidate is within {budget} and trains to the end; the smallest memory "
              f"that one takes is {_mib(least)} MiB, fp32 takes {_mib(base.bytes)} MiB")  # fmt: skip
        return DIFFERENT
    path = write_policy(search, whole[0], budget)
    words = replay.without(search.words, ["--eval-every"])
    command = ["binade", "train", *words, "--policy", str(path), *whole[0].choice.words]
    print(f"found: {whole[0].name}, in {path}", path.read_text(),
          f"{shlex.join(command)} --steps ... --out ...", sep="\n")  # fmt: skip
    return 0


class Progress:
    """Prints a line for each result of a candidate."""

    def __init__(self) -> None:
        print(f"{'':40}  steps      MiB   ms/step  above fp32", flush=True)

    def show(self, one: Candidate) -> None:
        _, mib, time, steps, gap, verdict = _row(one)
        print(f"{one.name:40}  {steps:>5}  {mib:>7}  {time:>8}  {gap:>10}  {verdict}".rstrip(),
              flush=True)  # fmt: skip


# --- The command ------------------------------------------------------------------------


def make_parser() -> Parser:
    """Returns the parser of ``binade search``."""
    parser = Parser(
        "binade search",
        other_options=list_train_options,
        description="Search for the policy with the lowest held-out loss within a budget of "
        "memory or time.",
        epilog="Example:\n"
        "  binade search model.onnx --data train.safetensors --eval-fraction 0.1 "
        "--budget memory=70% \\\n"
        "      --steps 100 --trials 8 --out searched\n"
        "Options of 'binade train', such as --data and --optimizer, apply to each run.\n"
        "The same command continues an interrupted search.\n"
        "The exit code is 1 if no trained candidate is within the budget.",
    )
    parser.add_argument("model", metavar="MODEL", help="ONNX file, or a run.yaml")
    parser.add_argument(
        "--budget", required=True, metavar="memory=LIMIT,time=LIMIT",
        help="limit of the memory or the time of a step, or of both: a size such as "
        "24MiB, a time such as 5ms, or a percentage of what fp32 takes, such as "
        "memory=70%%",
    )  # fmt: skip
    parser.add_argument(
        "--steps", required=True, type=parse_positive, metavar="N",
        help="steps of the candidates that are not dropped early",
    )  # fmt: skip
    parser.add_argument(
        "--out", required=True, type=Path, metavar="DIR",
        help="directory for the runs, the best policy (best.yaml), report.txt and "
        "report.html",
    )  # fmt: skip
    parser.add_argument(
        "--policies", type=split_names, default=POLICIES, metavar="P,Q,...",
        help="policies from which candidates are derived: names of 'binade list "
        f"policies', or .yaml files (default: {','.join(POLICIES)})",
    )  # fmt: skip
    parser.add_argument(
        "--states", type=split_names, default=STATES, metavar="F,G,...",
        help="formats of the optimizer states to try in addition to the policy's: "
        f"names of 'binade list formats' (default: {','.join(STATES)})",
    )  # fmt: skip
    parser.add_argument(
        "--saved", type=split_names, default=SAVED, metavar="F,G,...",
        help="formats of values saved for backward to try in addition to the policy's "
        f"(default: {','.join(SAVED)})",
    )  # fmt: skip
    parser.add_argument(
        "--kept", type=split_names, default=KEPT, metavar="P,Q,...",
        help="memory budgets to try for the values saved for backward, relative to "
        "their size; values beyond the budget are recomputed or quantized; used only "
        f"with a memory limit (default: {','.join(KEPT).replace('%', '%%')})",
    )  # fmt: skip
    parser.add_argument(
        "--trials", type=parse_positive, default=16, metavar="N",
        help="number of candidates to train, most of them only for a part of the "
        "steps (default: 16)",
    )  # fmt: skip
    parser.add_argument(
        "--rungs", type=parse_positive, default=3, metavar="N",
        help="number of comparisons, after each of which the worst candidates are "
        "dropped (default: 3: after a quarter, a half and all of the steps)",
    )  # fmt: skip
    parser.add_argument(
        "--factor", type=parse_positive, default=2, metavar="N",
        help="the best 1/N of the candidates continue after a comparison (default: 2)",
    )  # fmt: skip
    parser.add_argument(
        "--seeds", type=split_numbers, default=[0], metavar="N,M,...",
        help="seeds with which each candidate is trained (default: 0)",
    )  # fmt: skip
    add_page_option(parser)
    return parser


def _check(options: argparse.Namespace, words: Sequence[str]) -> None:
    check_words(words, "the search")
    held_out = ("--eval-data", "--eval-fraction")
    if all(find_value(words, option) is None for option in held_out):
        raise UsageError(
            "candidates are compared by their held-out loss: it takes --eval-data or "
            "--eval-fraction"
        )
    if len({Path(policy).stem for policy in options.policies}) < len(options.policies):
        raise UsageError(
            "--policies: two policies have the same name, or one is listed twice"
        )
    if options.factor < 2:
        raise UsageError("--factor: expected a number from 2 on, got '1'")
    if not Path(options.model).exists():
        raise RejectedError(f"{options.model}: does not exist")


def _main(arguments: Sequence[str] | None) -> int:
    options, more = make_parser().parse_known_args(option_file.expand(arguments, OWN))
    limits = parse_budget(options.budget)
    _check(options, more)
    every = find_value(more, "--eval-every")
    rungs = plan_rungs(options.steps, options.rungs, options.factor,
                       int(every) if every and every.isdigit() else 0)  # fmt: skip
    if not every:
        more += ["--eval-every", str(rungs[0])]
    sweep_page = load_page()
    kept = options.kept if "memory" in limits else []
    space = Space(options.policies, options.states, options.saved, kept)
    proposals = Proposals(space)
    search = Search([options.model, *more], limits, rungs, options.seeds, options.out)
    progress = Progress()
    progress.show(search.base)
    search.explore(proposals, options.trials, options.factor, progress.show)
    return conclude(search, options, sweep_page)


def main() -> int:
    """Runs the command; returns its exit code."""
    return run_command("binade search", _main)


if __name__ == "__main__":
    sys.exit(main())
