"""Measures the error that each op's format introduces: ``binade shadow MODEL|RUN``.

Computes one step twice from the same state and batch, op by op: under its policy, and in
f64. The error of an op has two parts: the introduced error, which its own format causes on
the operands that it has under the policy, and the error inherited from its operands.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import math
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from binade import option_file, overrides
from binade.arguments import parse_count
from binade.command import run_command
from binade.definitions import list_train_options
from binade.errors import RejectedError
from binade.parser import Parser
from binade.run import find_run_directory, read_run
from binade.runs import format_table
from binade.tracing import Step, capture_model, capture_run, trace

# Options of `binade train` that mean nothing for a single step.
OWN = ("--steps", "--epochs", "--out", "--resume", "--save-inputs")

PHASES = ("forward", "backward", "optimizer")
# Keys by which entries can be ranked.
KEYS = ("introduced", "inherited", "error", "sqnr", "underflow")
TOP = 20
WIDE_SUMS = ("", "f32", "f64")


def rank(errors: Sequence[dict[str, Any]], key: str = "introduced") -> list[dict]:
    """Sorts the entries of a trace, the worst first.

    Entries with elements that became infinite are the worst; equal entries keep their
    order. Errors are computed from finite elements; entries without finite elements come last.
    """

    def size(entry: dict[str, Any]) -> float:
        if entry["overflow"] and key != "underflow":
            return math.inf
        if key == "underflow":
            return entry["underflow"] / max(entry["elements"], 1)
        if entry["nonfinite"] == entry["elements"]:
            return -math.inf
        if key == "sqnr":
            return -math.inf if entry["sqnr"] is None else -entry["sqnr"]
        # No relative error exists: the exact result is 0.
        return math.inf if entry[key] is None else entry[key]

    return sorted(errors, key=lambda entry: -size(entry))


def select(
    errors: Sequence[dict[str, Any]], glob: str | None, phases: Sequence[str]
) -> list[dict[str, Any]]:
    """Returns the entries of these phases whose node or kind matches the glob, or whose node
    is in the module with this name."""

    def matches(entry: dict[str, Any]) -> bool:
        node, kind = entry["node"], entry["kind"]
        return (
            not glob
            or fnmatch.fnmatchcase(node, glob)
            or fnmatch.fnmatchcase(kind, glob)
            or node.startswith((f"{glob}/", f"{glob}."))
        )

    return [e for e in errors if e["phase"] in (phases or PHASES) and matches(e)]


def count_narrow_sums(errors: Sequence[dict[str, Any]]) -> int:
    """Counts entries whose policy allows narrow accumulation. Their order of summation is
    unspecified, so the reference cannot compute such a sum."""
    return sum(entry["sums"] not in WIDE_SUMS for entry in errors)


# --- Report -----------------------------------------------------------------------------


def _number(value: float | None, form: str = ".2e") -> str:
    return "-" if value is None else format(value, form)


def _row(entry: dict[str, Any]) -> list[str]:
    result = f" #{entry['result']}" if entry["result"] else ""
    return [
        entry["kind"] + result, entry["node"], entry["phase"],
        _number(entry["introduced"]), _number(entry["inherited"]),
        _number(entry["sqnr"], ".1f"),
        _number(100 * entry["underflow"] / max(entry["elements"], 1), ".2g"),
        str(entry["overflow"]),
        entry["decision"] or entry["format"], entry["rule"],
    ]  # fmt: skip


def format_errors(errors: Sequence[dict[str, Any]]) -> str:
    """Returns a table of entries."""
    head = ["op", "node", "phase", "introduced", "inherited", "SQNR dB", "to 0 %",
            "overflow", "format", "rule"]  # fmt: skip
    return format_table([head, *map(_row, errors)])


def describe(report: dict[str, Any], step: Step, policy: str) -> str:
    losses = [
        "not finite" if report[key] is None else f"{report[key]:.6g}"
        for key in ("loss", "exact_loss")
    ]
    text = (
        f"step {step.number} under {policy} and in f64: loss {losses[0]} and {losses[1]}; "
        f"{len(report['errors'])} results of ops"
    )
    if report["unmatched"]:
        text += f", {report['unmatched']} more without a counterpart"
    if report["origin"]:
        text += "; not all are finite: 'binade why-nan' says more"
    if count := count_narrow_sums(report["errors"]):
        text += (
            f"\nthe policy allows {count} of these to accumulate in less than f32, in any order; "
            "all of Binade's targets accumulate in f32, and sums are exact here"
        )
    return text


# --- The command ------------------------------------------------------------------------


def capture(subject: Path, step: int | None, more: list[str], folder: Path) -> Step:
    """Captures the step of a run, or of a model with the options of ``binade train``."""
    if subject.is_dir():
        run = read_run(subject)
        if more:
            raise RejectedError(
                f"{more[0]}: a run is computed as it was trained; only --policy may be "
                "another"
            )
        return capture_run(run, step or len(run.steps), folder)
    # After an option that is passed on, the word may be its value, not the subject.
    may_be_value = bool(more) and more[-1].startswith("-")
    if not may_be_value and not subject.exists():
        raise RejectedError(
            f"{subject}: does not exist; expected a model, or the directory of a run"
        )
    for word in OWN:
        if any(w.partition("=")[0] == word for w in more):
            raise RejectedError(
                f"{word}: not an option of 'binade shadow'; --step selects the step"
            )
    return capture_model([str(subject), *more], step or 1, folder)


def make_parser() -> Parser:
    """Returns the parser of ``binade shadow``."""
    parser = Parser(
        "binade shadow",
        other_options=list_train_options,
        description="Compute a training step with the policy's formats and in f64, and\n"
        "rank the ops by the error that their formats introduce.",
        epilog="Examples:\n"
        "  binade shadow run --step 3000 --top 10\n"
        "  binade shadow run --policy bf16-amp --by sqnr\n"
        "  binade shadow model.onnx --data train.safetensors --policy fp16-amp "
        "--phase backward\n"
        "For a model, the options of 'binade train' are accepted, too.",
    )
    parser.add_argument(
        "subject",
        type=Path,
        metavar="MODEL|RUN",
        help="ONNX file, or directory of a run",
    )
    parser.add_argument(
        "--step", type=int, metavar="K",
        help="step to compute, from 1 (default: the last step of a run, the first "
        "step of a model)",
    )  # fmt: skip
    parser.add_argument(
        "--policy", metavar="POLICY",
        help="policy for the step, instead of the run's: a name of 'binade list "
        "policies', or a .yaml file",
    )  # fmt: skip
    parser.add_argument(
        "--op",
        metavar="GLOB",
        help="only ops whose ONNX node name or kind matches, such as 'matmul', or that are "
        "in the module with this name, such as 'blocks.0'",
    )
    parser.add_argument(
        "--phase", action="append", choices=PHASES, default=[],
        help="only ops of this phase of the step (repeatable)",
    )  # fmt: skip
    parser.add_argument(
        "--by", choices=KEYS, default=KEYS[0],
        help="measure by which ops are ranked: the relative error that an op "
        "introduces, the one that it inherits from its operands, the total error, the "
        "signal-to-noise ratio, or the fraction of values that underflow (default: "
        "%(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--top", type=parse_count, default=TOP, metavar="N",
        help="number of ops to print; 0 for all (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--json", action="store_true", help="print the whole report as JSON"
    )
    return parser


def _parse(arguments: Sequence[str] | None) -> tuple[argparse.Namespace, list[str]]:
    parser = make_parser()
    options, more = parser.parse_known_args(arguments)
    if options.step is not None and options.step < 1:
        parser.error(f"--step {options.step}: steps count from 1")
    return options, more


def _main(arguments: Sequence[str] | None) -> None:
    options, more = _parse(option_file.expand(arguments, OWN))
    with tempfile.TemporaryDirectory() as folder:
        # run.yaml means the run's model with its options; only run.json means the run.
        if options.subject.suffix == ".json":
            options.subject = find_run_directory(options.subject)
        if options.policy and not options.subject.is_dir():
            more += ["--policy", options.policy]
        step = capture(options.subject, options.step, more, Path(folder))
        policy = options.policy or step.policy
        report = trace(step, overrides.locate(options.policy, ".")
                       if options.policy else None)  # fmt: skip
    chosen = select(report["errors"], options.op, options.phase)
    if not chosen:
        called = f" is called '{options.op}'" if options.op else ""
        raise RejectedError(
            f"no op of phase {' or '.join(options.phase or PHASES)}{called}"
        )
    ranked = rank(chosen, options.by)
    if options.json:
        print(json.dumps(report | {"step": step.number, "errors": ranked}, indent=1))
        return
    shown = ranked[: options.top or None]
    print(describe(report, step, policy), format_errors(shown), sep="\n\n")
    print(
        "\nintroduced, inherited: Euclidean norm of the error relative to that of the "
        "result\nSQNR: of both together; to 0: nonzero elements that became 0; overflow: "
        "elements\nthat became infinite; an update's result is the change of the parameter"
        "\nelements that are not finite count only in overflow; -: no error to compute"
    )
    if len(shown) < len(ranked):
        print(f"{len(ranked) - len(shown)} more: --top 0")


def main() -> int:
    """Runs the command; returns its exit code."""
    return run_command("binade shadow", _main)


if __name__ == "__main__":
    sys.exit(main())
