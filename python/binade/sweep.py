"""Trains a model under several policies, and writes a page that compares them:
``binade sweep MODEL --policies P,Q``.

Each combination of policy, format of states and seed is a run in its own directory.
Finished runs are not repeated; killed runs are resumed.
"""

from __future__ import annotations

import argparse
import itertools
import os
import shlex
import sys
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

from tqdm import tqdm

from binade import option_file
from binade.arguments import find_value, parse_positive, split_names, split_numbers
from binade.command import DIFFERENT, NUMERIC, run_command
from binade.definitions import list_train_options
from binade.errors import RejectedError, UsageError
from binade.parser import Parser
from binade.run import Run, read_run
from binade.runs import format_verdict
from binade.tracing import run_program
from binade.trainings import train

# The number of steps of a run for which the page shows statistics of layers.
COLUMNS = 20
# The statistic of gradients.
UNDERFLOW = "underflow(f16)"
# The statistics of the results of nodes.
OUTPUTS = ["absmax", UNDERFLOW]
# Options of `binade train` that a sweep or search sets itself.
OWN = (
    "--policy",
    "--states",
    "--seed",
    "--out",
    "--overwrite",
    "--resume",
    "--save-every",
    "--stop-after",
    "--epochs",
)
# What to give instead.
HINTS = {
    "--policy": "; use --policies",
    "--seed": "; use --seeds",
    "--epochs": ", which trains a number of --steps",
}


@dataclass(frozen=True)
class Member:
    """One training of a sweep."""

    policy: str  # A name, or the path of a file.
    states: str | None  # A format of states that overrides the policy's.
    seed: int
    path: Path
    words: tuple[str, ...]  # Arguments of ``binade train`` without the directory.

    @property
    def label(self) -> str:
        """The name that all seeds share: policy and format of states."""
        name = Path(self.policy).stem if os.sep in self.policy else self.policy
        return name if self.states is None else f"{name}, states {self.states}"

    @property
    def command(self) -> str:
        """A command that repeats the training in another directory."""
        return shlex.join(["binade", "train", *self.words, "--out", "again"])


@dataclass(frozen=True)
class Outcome:
    """The result of a member: its run, or the error that prevented it."""

    member: Member
    run: Run | None
    error: str | None  # The error message; a run that ended early has one as well.

    @property
    def loss(self) -> float | None:
        """The last held-out loss, or the training loss of the last steps if there is none.
        None for a run that ended early."""
        if self.run is None or self.error is not None:
            return None
        held_out = self.run.last_held_out
        return self.run.loss if held_out is None else held_out


def load_page() -> ModuleType:
    """Imports the module that writes the page, so that a missing package is reported before
    hours of training.

    Raises:
      RejectedError: If a package that it needs is not installed.
    """
    try:
        from binade import sweep_page
    except ModuleNotFoundError as error:
        raise RejectedError(
            f"the page needs the Python package '{error.name}', which is not installed"
        ) from error
    return sweep_page


def add_page_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--report", type=Path, metavar="FILE.html",
        help="HTML page to write (default: report.html in the directory of --out)",
    )  # fmt: skip


def save_page(options: argparse.Namespace, html: str) -> None:
    """Writes the page to ``--report``, or to report.html in the directory."""
    path = options.report or options.out / "report.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(html)
    print(f"page: {path}")


def watch(steps: int) -> list[str]:
    """Returns the options that record the statistics of the page."""
    every = max(1, steps // COLUMNS)
    return ["--stats", f"gradient:{UNDERFLOW}@every={every}",
            "--stats", f"output:{','.join(OUTPUTS)}@every={every}"]  # fmt: skip


def list_members(
    policies: Sequence[str], states: Sequence[str], seeds: Sequence[int], steps: int,
    words: Sequence[str], out: Path,
) -> list[Member]:  # fmt: skip
    """Returns all combinations; `words` are arguments of ``binade train`` for all of them."""
    members = []
    for policy, state, seed in itertools.product(policies, states or [None], seeds):
        own = [*words, "--steps", str(steps), "--seed", str(seed), "--policy", policy,
               *watch(steps)]  # fmt: skip
        if state is not None:
            own += ["--states", state]
        name = ".".join([Path(policy).stem, *([state] if state else []), str(seed)])
        path = out / "runs" / name.replace(os.sep, "_").replace("*", "_")
        members.append(Member(policy, state, seed, path, tuple(own)))
    names = [member.path for member in members]
    if len(set(names)) < len(names):
        raise UsageError(
            "--policies: two policies have the same name, or one is listed twice"
        )
    return members


def run_members(members: Sequence[Member], steps: int, jobs: int) -> list[Outcome]:
    """Trains the members that are not finished, `jobs` at a time, and reads all results."""
    bar = tqdm(total=len(members) * steps, unit=" steps", smoothing=0.1,
               disable=not sys.stderr.isatty())  # fmt: skip
    lock = threading.Lock()
    errors: set[str] = set()

    def run(member: Member) -> Outcome:
        last = 0

        def progress(count: int) -> None:
            nonlocal last
            with lock:
                bar.update(count - last)
                last = count

        code = train(
            member.words, member.path, steps, progress, show_policy(member.policy)
        )
        progress(steps)
        outcome = read_outcome(member, code)
        with lock:
            text = "the same error" if outcome.error in errors else describe(outcome)
            errors.update([outcome.error] if outcome.error else [])
        bar.write(f"{member.label}, seed {member.seed}: {text}", file=sys.stdout)
        sys.stdout.flush()
        return outcome

    with bar, ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(run, members))


def check_words(words: Iterable[str], who: str) -> None:
    """Raises a UsageError for options of ``binade train`` that `who` sets itself."""
    for word in words:
        option = word.partition("=")[0]
        if option in OWN:
            raise UsageError(f"{word}: set by {who}{HINTS.get(option, '')}")


@cache
def show_policy(policy: str) -> str:
    """Returns a policy with all that it extends, or the error message. The first result is
    cached, so later changes of the file have no effect."""
    done = run_program(["binade", "policy", "show", policy], os.getcwd())
    return done.stdout if done.returncode == 0 else done.stderr.strip()


def find_error(log: Sequence[str]) -> str:
    """Returns the line of a program's log that says why it failed."""
    said = [line for line in log if "error:" in line] or log[-1:]
    return said[-1] if said else "there was no message"


def find_notes(log: Sequence[str]) -> list[str]:
    """Returns the notes of a program's last error: what they advise, without the place."""
    error = find_error(log)
    last = max((i for i, line in enumerate(log) if line == error), default=len(log))
    after = log[last + 1 :]
    notes = itertools.takewhile(lambda line: ": note: " in line, after)
    return [line.partition(": note: ")[2] for line in notes]


def read_outcome(member: Member, code: int) -> Outcome:
    log = (member.path / "log.txt").read_text().splitlines()
    said = "; ".join([find_error(log), *find_notes(log)])
    error = f"exit code {code}: {said}" if code != 0 else None
    run = read_run(member.path) if code in (0, NUMERIC) else None
    return Outcome(member, run, error)


def describe(outcome: Outcome) -> str:
    if outcome.error is not None:
        return outcome.error
    return "none" if outcome.loss is None else f"loss {outcome.loss:z.4f}"


# --- The command ------------------------------------------------------------------------


def make_parser() -> Parser:
    """Returns the parser of ``binade sweep``."""
    parser = Parser(
        "binade sweep",
        other_options=list_train_options,
        description="Train a model under several policies, and compare them on one page.",
        epilog="Example:\n"
        "  binade sweep model.onnx --data train.safetensors --eval-fraction 0.1 "
        "--eval-every 20 \\\n"
        "      --policies fp32,bf16-amp,fp16-amp --seeds 0,1 --steps 100 --out swept\n"
        "Options of 'binade train', such as --data and --optimizer, apply to each run.\n"
        "The same command continues an interrupted sweep.\n"
        "The exit code is 1 if a run failed; the page shows its error and the other runs.",
    )
    parser.add_argument("model", metavar="MODEL", help="ONNX file, or a run.yaml")
    parser.add_argument(
        "--policies", required=True, type=split_names, metavar="P,Q,...",
        help="policies to train with: names of 'binade list policies', or .yaml "
        "files; the others are compared with fp32, or with the first one if fp32 is "
        "not listed",
    )  # fmt: skip
    parser.add_argument(
        "--states", type=split_names, default=[], metavar="F,G,...",
        help="formats of the optimizer states, each combined with each policy: names "
        "of 'binade list formats' (default: the policy's)",
    )  # fmt: skip
    parser.add_argument(
        "--seeds", type=split_numbers, default=[0], metavar="N,M,...",
        help="random seeds, each combined with each policy (default: 0)",
    )  # fmt: skip
    parser.add_argument(
        "--steps",
        required=True,
        type=parse_positive,
        metavar="N",
        help="number of steps of each run",
    )
    parser.add_argument(
        "--out", required=True, type=Path, metavar="DIR",
        help="directory for the runs and report.html",
    )  # fmt: skip
    add_page_option(parser)
    parser.add_argument(
        "--jobs", type=parse_positive, default=1, metavar="N",
        help="number of runs at the same time (default: 1, because parallel runs "
        "distort the times per step)",
    )  # fmt: skip
    return parser


def _check_policies(policies: Sequence[str]) -> None:
    """Checks that policies exist, before hours of other runs.

    Raises:
      UsageError: If a name is unknown.
      RejectedError: If a file does not exist.
    """
    for policy in policies:
        if not policy.endswith(".yaml"):
            done = run_program(["binade", "policy", "show", policy], os.getcwd())
            if done.returncode != 0:
                said = find_error(done.stderr.splitlines())
                raise UsageError(f"--policies: {said.removeprefix('binade: error: ')}")
        elif not Path(policy).exists():
            raise RejectedError(f"--policies: {policy}: does not exist")


def _main(arguments: Sequence[str] | None) -> int:
    options, more = make_parser().parse_known_args(option_file.expand(arguments, OWN))
    check_words(more, "the sweep")
    if not Path(options.model).exists():
        raise RejectedError(f"{options.model}: does not exist")
    _check_policies(options.policies)
    if options.jobs > 1 and find_value(more, "--threads") is None:
        threads = max(1, (os.cpu_count() or 1) // options.jobs)
        more += ["--threads", str(threads)]
    sweep_page = load_page()
    members = list_members(options.policies, options.states, options.seeds, options.steps,
                           [options.model, *more], options.out)  # fmt: skip
    outcomes = run_members(members, options.steps, options.jobs)
    if not any(outcome.run for outcome in outcomes):
        raise RejectedError(f"no run finished: {outcomes[0].error}")
    labels = {outcome.member.label for outcome in outcomes}
    heading = f"{Path(options.model).name}: {len(labels)} policies compared"
    groups: dict[str, list[Run]] = {}
    for outcome in outcomes:
        if outcome.run is not None and outcome.error is None:
            groups.setdefault(outcome.member.label, []).append(outcome.run)
    if len(groups) > 1:
        print("", format_verdict(groups), "", sep="\n")
    save_page(options, sweep_page.write_page(heading, outcomes))
    return DIFFERENT if any(outcome.error is not None for outcome in outcomes) else 0


def main() -> int:
    """Runs the command; returns its exit code."""
    return run_command("binade sweep", _main)


if __name__ == "__main__":
    sys.exit(main())
