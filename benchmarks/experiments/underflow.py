#!/usr/bin/env python3
"""Gradients that vanish in f16 where bf16 keeps them: what docs/Underflow.md shows.

    .venv/bin/python benchmarks/experiments/underflow.py --regime memo-raw --policy fp16-amp
    .venv/bin/python benchmarks/experiments/underflow.py --all

The first trains clip-tiny so that hard batches make the loss scale collapse, and prints
what its gradients lost; the second makes all runs, docs/results/underflow.json, the
pictures and the tables. A command that was stopped continues where it was. BINADE_MODELS
names the folder with the models; their data are in it.
"""

from __future__ import annotations

import argparse
import json
import math
import pathlib
import shutil
import statistics
from collections.abc import Sequence

from tqdm import tqdm
from training import ROOT, binade, require  # First: it says where the package is.

import lost
import regimes
from binade.run import read_run
from regimes import ADAMW, HARD, REGIMES, Workshop
from underflow_report import RESULTS, draw_all, make_tables, read

POLICIES = pathlib.Path(__file__).parent / "policies"
EVERY = 10  # Steps from one record to the next.
REMEDIES = ["fp16-large", "fp16-watched", "fp16-tensors", "fp16-layers"]
ALL = {
    "natural": ["fp16-amp", "torch-cuda-fp16", "bf16-amp", "fp16-large"],
    "detector": ["fp16-amp", "bf16-amp"],
    "late": ["fp16-amp", "bf16-amp"],
    "late-raw": ["fp16-amp", "bf16-amp", *REMEDIES],
    "memo": ["fp16-amp", "bf16-amp"],
    "memo-raw": ["fp16-amp", "bf16-amp", *REMEDIES],
}


def find_policy(name: str) -> str:
    own = POLICIES / f"{name}.yaml"
    return str(own) if own.exists() else name


def train(
    out: pathlib.Path, name: str, policy: str, seed: int, more: Sequence[str] = ()
) -> dict:
    """Trains a regime anew, with `more` options, and measures it; the run stays in `out`.

    Returns:
      The run as `RESULTS` has it.
    """
    regime, shop = REGIMES[name], Workshop(out, seed)
    model, start = shop.find_graph(regime.model), shop.find_start(regime)
    batches = shop.write_batches(regime)
    injected = (
        {regime.first: shop.write_hard(regime)} if regime.hard is not None else {}
    )
    run = out / f"{name}.{policy}.{seed}"
    shutil.rmtree(run, ignore_errors=True)
    words = [
        "train", model, "--threads", "1", "--policy", find_policy(policy), "--init", start,
        "--data", batches, "--order", "sequential", *ADAMW, "--lr", f"{regime.rate:g}",
        "--schedule", f"lr=base * warmup(step, {regime.warm_up})",
        "--steps", str(regime.steps), "--save-every", str(EVERY), "--keep", str(regime.steps),
        *(word for step, path in injected.items() for word in ("--inject", f"{path}@{step}")),
        "--stats", f"gradient,scaled_gradient:absmax,zeros,underflow(f16)@every={EVERY}",
        "--out", run, *more,
    ]  # fmt: skip
    require(binade(*words))
    records = list(lost.measure(run, model, find_policy(policy), batches, injected))
    shutil.rmtree(run / "checkpoints")
    return describe(run, records, regime.first)


def shorten(x: float) -> float | None:
    return float(f"{x:.4g}") if math.isfinite(x) else None


def describe(run: pathlib.Path, records: list[list[float]], first: int) -> dict:
    steps = read_run(run).steps
    scales = [[s["step"], math.log2(s["loss_scale"])] for s in steps if s["loss_scale"]]
    changes = [s for i, s in enumerate(scales) if not i or s[1] != scales[i - 1][1]]
    losses = [(s["step"], s["loss"]) for s in steps if s["loss"] is not None]
    last = len(steps)

    def summarize(begin: int, end: int) -> dict:
        rows = [r for r in records if begin <= r[0] <= end]
        mean = {
            key: shorten(statistics.fmean(row[i] for row in rows))
            for i, key in enumerate(lost.RECORD)
            if i > 1 and key != "worst"
        }
        worst = max(row[lost.RECORD.index("worst")] for row in rows)
        flagged = max(row[lost.RECORD.index("flagged 0.01")] for row in rows)
        loss = shorten(statistics.fmean(x for s, x in losses if begin <= s <= end))
        return {"loss": loss, **mean, "worst": shorten(worst), "peak": shorten(flagged)}

    return {
        "steps": last,
        "skipped": [s["step"] for s in steps if s["skipped"]],
        "log2 scale": changes,
        "peak loss": shorten(max(x for _, x in losses)),
        "before": summarize(1, first - 1),
        "after": summarize(first + 2 * HARD, last),
        "last 100": summarize(last - 99, last),
        "loss": [
            [k + EVERY, shorten(statistics.fmean(window))]
            for k in range(0, last, EVERY)
            if (window := [x for s, x in losses if k < s <= k + EVERY])
        ],
        "records": [[shorten(x) for x in row] for row in records],
    }


def train_all(out: pathlib.Path, seeds: int) -> dict:
    """All runs, those of seeds after the first without their series."""
    made = out / "underflow.jsonl"  # Lets a command that was stopped continue.
    lines = made.read_text().splitlines() if made.exists() else []
    known = {line["name"]: line["run"] for line in map(json.loads, lines)}
    wanted = [
        (regime, policy, seed)
        for seed in range(seeds)
        for regime, policies in ALL.items()
        for policy in policies
    ]
    for regime, policy, seed in tqdm(wanted, unit=" runs"):
        name = f"{regime}.{policy}.{seed}"
        if name not in known:
            known[name] = train(out, regime, policy, seed)
            if seed:
                del known[name]["loss"], known[name]["records"]
            with made.open("a") as file:
                file.write(json.dumps({"name": name, "run": known[name]}) + "\n")
    names = [".".join(map(str, run)) for run in wanted]
    return {"record": lost.RECORD, "runs": {name: known[name] for name in names}}


def write(results: dict, path: pathlib.Path) -> None:
    """A line for each run."""
    runs = [f"{json.dumps(n)}: {json.dumps(r)}" for n, r in results["runs"].items()]
    record = json.dumps(results["record"])
    path.write_text(
        f'{{"record": {record},\n"runs": {{\n' + ",\n".join(runs) + "\n}}\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--regime", choices=REGIMES, help="steps, learning rate, start and hard batches"
    )
    parser.add_argument(
        "--policy", default="fp16-amp", help="policy: a name, or a .yaml file"
    )
    parser.add_argument("--seed", type=int, default=0, help="random seed (default: 0)")
    parser.add_argument("--all", action="store_true", help="make all runs and pictures")
    parser.add_argument(
        "--seeds", type=int, default=3, help="seeds of --all (default: 3)"
    )
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/underflow",
                        help="folder of data and runs (default: build/underflow)")  # fmt: skip
    arguments = parser.parse_args()
    if arguments.all == bool(arguments.regime):
        parser.error("either --regime or --all is required")
    out = arguments.out.resolve()
    if arguments.regime:
        run = train(out, arguments.regime, arguments.policy, arguments.seed)
        print(
            json.dumps(
                {k: v for k, v in run.items() if k not in ("loss", "records")}, indent=1
            )
        )
        return
    regimes.find_model("clip-tiny")
    write(train_all(out, arguments.seeds), RESULTS)
    draw_all(read(), RESULTS.parent)
    for regime, text in make_tables(read()).items():
        print(f"\n{regime}\n\n{text}")


if __name__ == "__main__":
    main()
