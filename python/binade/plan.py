"""Predicts a training step on many ranks: ``binade plan MODEL --ranks 16384 --fabric h200``."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from typing import Any

from binade import option_file
from binade.arguments import find_value, parse_count, parse_positive
from binade.command import run_command
from binade.definitions import list_options
from binade.errors import UsageError
from binade.parser import Parser
from binade.planning.fabric import Fabric, list_shipped, read_fabric
from binade.planning.limits import Limit, find_limits, list_sizes
from binade.planning.prediction import (
    Prediction,
    Settings,
    compare_buckets,
    compare_formats,
    predict,
    write_levels,
    write_prediction,
)
from binade.planning.report import write_outcome, write_report
from binade.planning.simulated_runs import Outcome, simulate_plan
from binade.planning.step import Step, read_step
from binade.planning.transfers import GRADIENTS
from binade.tracing import end_as, run_program

_MIB = 2**20

# The prediction, one for each format and size of a bucket, and what breaks.
Sections = tuple[
    Prediction, dict[str, Prediction], list[tuple[int, Prediction]], list[Limit]
]


def make_parser() -> Parser:
    """Returns the parser of ``binade plan``."""
    parser = Parser(
        "binade plan",
        other_options=partial(list_options, "compile"),
        description="Predict a training step on many ranks from its plan, without running it.",
        epilog="Prints what ranks exchange, how much of it the backward pass hides, memory, what\n"
        "breaks first, and how often to save a checkpoint.\n"
        "Examples:\n"
        "  binade plan model.onnx --ranks 16384 --fabric h200 --policy bf16-amp \\\n"
        "      --target cuda:sm_90\n"
        "  binade plan step.bnd --ranks 4 --fabric mine.yaml --json\n"
        "Options of 'binade compile', such as --policy and --states, apply to the step.\n"
        "docs/Planning.md explains the report, the model, and the keys of a fabric file.",
    )
    parser.add_argument(
        "model", metavar="MODEL", help="ONNX file, a bundle (.bnd), or a run.yaml"
    )
    parser.add_argument(
        "--ranks", required=True, type=parse_positive, metavar="N",
        help="number of processes that train together, each with its own micro-batches",
    )  # fmt: skip
    parser.add_argument(
        "--fabric", required=True, metavar="FABRIC",
        help="how ranks are connected: a .yaml file, or one of "
        + ", ".join(list_shipped()),
    )  # fmt: skip
    parser.add_argument(
        "--costs", metavar="COSTS",
        help="costs of the kernels: a name that 'binade costs' "
        "lists, or a .yaml file of 'binade costs --measure' (default: the fabric's)",
    )  # fmt: skip
    parser.add_argument(
        "--shard", choices=["none", "zero1"], default="none",
        help="what is sharded: none, or zero1: the optimizer states (default: none)",
    )  # fmt: skip
    parser.add_argument(
        "--exchange", choices=list(GRADIENTS),
        help="format in which gradients are exchanged (default: the bundle's, or f32)",
    )  # fmt: skip
    parser.add_argument(
        "--micro-batches", type=parse_positive, metavar="K",
        help="micro-batches of each rank in a step; their gradients are exchanged once "
        "(default: those of the bundle, or 1)",
    )  # fmt: skip
    parser.add_argument(
        "--bucket", type=_parse_mib, default=0, metavar="MIB",
        help="minimum size of a bucket of gradients in MiB of f32; successive gradients "
        "are joined (default: the plan's buckets, or 25 if it has none)",
    )  # fmt: skip
    parser.add_argument(
        "--simulate", type=parse_count, metavar="SEED",
        help="also simulate a run in which ranks fail at random, and compare the "
        "time lost with the prediction",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _parse_mib(text: str) -> int:
    try:
        size = float(text)
    except ValueError:
        size = 0.0
    if not (size > 0 and math.isfinite(size)):
        raise argparse.ArgumentTypeError(
            f"expected a number above 0, in MiB, got '{text}'"
        )
    return math.ceil(size * _MIB)


def make_step(options: argparse.Namespace, words: Sequence[str], costs: str) -> Step:
    """Compiles the step, unless the model is a bundle, and reads its plan."""
    with tempfile.TemporaryDirectory() as folder:
        bundle = options.model
        if not bundle.endswith(".bnd"):
            bundle = os.path.join(folder, "step.bnd")
            # Those of all ranks together.
            own = options.micro_batches or 1
            more = ["--accumulate", str(options.ranks * own),
                    "--exchange", options.exchange or "f32"]  # fmt: skip
            if find_value(words, "--target") is not None:  # Not all formats, on GPUs.
                more = ["--accumulate", str(own)]
            _run(["binade", "compile", options.model, *words, *more, "-o", bundle])
        elif words:
            raise UsageError(
                f"{options.model} is compiled; '{words[0]}' cannot change its step"
            )
        plan = _run(["binade", "inspect", bundle, "--json"])
        report = _run(["binade", "inspect", bundle, "--ledger=ranks", "--json",
                       "--ranks", str(options.ranks), "--costs", costs])  # fmt: skip
    return read_step(json.loads(plan), json.loads(report))


def _run(words: Sequence[str]) -> str:
    done = run_program(words, os.getcwd())
    if done.returncode != 0:
        end_as(done)
    print(done.stderr, end="", file=sys.stderr)  # Warnings.
    return done.stdout


def make_settings(options: argparse.Namespace, step: Step) -> Settings:
    """Returns the settings of the options, which may not contradict a bundle.

    A step with an exchange has the micro-batches of all ranks, another those of each.
    """
    ranks, batches, exchange = options.ranks, step.batches, step.exchange
    if exchange:
        if batches < ranks:
            raise UsageError(
                f"{options.model} is compiled for {batches} micro-batches of all ranks, fewer "
                f"than --ranks {ranks}; compile it with --accumulate {ranks} or more"
            )
        batches = -(-batches // ranks)
    for name, given, own in (
        ("--exchange", options.exchange, exchange),
        ("--micro-batches", options.micro_batches, batches),
    ):
        if given and own and given != own:
            raise UsageError(
                f"{name} {given}: {options.model} is compiled with {own}; leave the option out, "
                "or name the ONNX file"
            )
    return Settings(ranks, options.shard, exchange or options.exchange or "f32",
                    batches, options.bucket)  # fmt: skip


def list_found(
    step: Step,
    fabric: Fabric,
    settings: Settings,
    sections: Sections,
    outcome: Outcome | None,
) -> dict[str, Any]:
    """Returns all numbers of a report in bytes and seconds, for ``--json``."""
    chosen, formats, buckets, limits = sections
    found: dict[str, Any] = {
        "model": step.model, "policy": step.policy, "costs": step.target,
        "fabric": fabric.name, **dataclasses.asdict(settings),
        "levels": write_levels(fabric, settings.ranks),
        "backward_end_s": step.backward_end,
        **write_prediction(chosen),
        "formats": {name: write_prediction(one) for name, one in formats.items()},
        "bucket_sizes": [{"bytes": size, **write_prediction(one)} for size, one in buckets],
        "memory": [
            {"shard": shard, "exchange": exchange, "bytes": sum(ledger.values()),
             "ledger": ledger}
            for (shard, exchange), ledger in step.ledgers.items()
        ],
        "limits": [dataclasses.asdict(limit) for limit in limits],
    }  # fmt: skip
    if fabric.failures:
        failures, interval = (
            fabric.failures,
            fabric.failures.find_interval(settings.ranks),
        )
        found["checkpoints"] = {
            "mean_time_between_failures_s": failures.get_mean_time(settings.ranks),
            "interval_s": interval,
            "lost_share": failures.get_lost_share(settings.ranks, interval),
        }
    if outcome:
        found["simulated"] = dataclasses.asdict(outcome) | {"lost_share": outcome.lost}
    return found


def _main(arguments: Sequence[str] | None) -> int:
    options, words = make_parser().parse_known_args(option_file.expand(arguments))
    if find_value(words, "--accumulate") is not None:
        raise UsageError(
            "--accumulate follows from --ranks and --micro-batches: use --micro-batches"
        )
    fabric = read_fabric(options.fabric)
    costs = options.costs or fabric.costs
    if not costs:
        raise UsageError(
            f"{options.fabric} has no 'costs'; name a target by --costs, such as sm_90"
        )
    step = make_step(options, words, costs)
    settings = make_settings(options, step)
    chosen = predict(step, fabric, settings)
    formats = compare_formats(step, fabric, settings)
    buckets = compare_buckets(step, fabric, settings, list_sizes())
    limits = find_limits(step, fabric, settings)
    outcome = None
    if options.simulate is not None:
        outcome = simulate_plan(step, fabric, settings, chosen, options.simulate)
    sections = (chosen, formats, buckets, limits)
    if not options.json:
        print(write_report(step, fabric, settings, *sections), end="")
        if outcome:
            print(write_outcome(outcome, fabric, settings), end="")
        return 0
    print(json.dumps(list_found(step, fabric, settings, sections, outcome), indent=2))
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    return run_command("binade plan", _main, arguments)


if __name__ == "__main__":
    sys.exit(main())
