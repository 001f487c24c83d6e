#!/usr/bin/env python3
"""Trains the small char-GPT again and again, and prints what it comes to as a table.

    .venv/bin/python benchmarks/experiments.py [fp8] [optimizers] [--steps N] [--seeds K]

fp8         policies that quantize products and what waits, against bf16-amp
optimizers  rules with their best rate of a few, and what they keep

Needs the text that `examples/char-gpt/prepare.py --out build/results/data --held-out
0.035` writes, or ./demo's. What is reported is the loss on held-out text, the mean over
seeds and the distance between the best and the worst.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
BINADE = ROOT / "build/release/bin/binade"
MODEL = ROOT / "examples/char-gpt/mini.onnx"
WINDOW = "input_ids=tokens[0:128],labels=tokens[1:129]"
POLICIES = ["bf16-amp", "fp8-current", "fp8-block", "mxfp8", "coat"]
# Rules with rates to choose from.
RATES = {
    "adamw": ["5e-4", "1e-3", "2e-3"],
    "lion": ["1e-4", "2e-4", "4e-4"],
    "tiger": ["2e-3", "4e-3", "8e-3"],
    "lamb": ["5e-3", "1e-2", "2e-2"],
    "muon": ["5e-3", "1e-2", "2e-2"],
    "adafactor": ["1e-2", "2e-2", "4e-2"],
    "sgd": ["0.03", "0.1", "0.3"],
}
MOMENTUM = {"sgd": ["--set", "momentum=0.9"]}


def find_data() -> pathlib.Path:
    for folder in (ROOT / "build/results/data", ROOT / "build/demo/data"):
        if (folder / "train.held-out.safetensors").exists():
            return folder
    sys.exit("experiments.py: no prepared text; see --help")


def train(data: pathlib.Path, steps: int, seed: int, *options: str) -> float:
    """The loss on held-out text after the last step."""
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.run(
            [BINADE, "train", MODEL, "--data", data / "train.safetensors",
             "--eval-data", data / "train.held-out.safetensors",
             "--eval-every", str(steps), "--window", WINDOW, "--steps", str(steps),
             "--seed", str(seed), "--out", f"{folder}/run", *options],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    return float(re.findall(r"eval_loss ([\d.]+)", process.stdout + process.stderr)[-1])


def get_memory(*options: str) -> dict[str, float]:
    """MiB of the plan by category."""
    with tempfile.TemporaryDirectory() as folder:
        bundle = f"{folder}/step.bnd"
        subprocess.run([BINADE, "compile", MODEL, "-o", bundle, *options], check=True,
                       capture_output=True)  # fmt: skip
        text = subprocess.run([BINADE, "inspect", bundle], check=True,
                              capture_output=True, text=True).stdout  # fmt: skip
    unit = {"B": 2**-20, "KiB": 2**-10, "MiB": 1.0}
    return {name: float(size) * unit[scale] for name, size, scale in
            re.findall(r"(state|saved) ([\d.]+) (B|KiB|MiB)", text)}  # fmt: skip


def describe(losses: list[float]) -> str:
    mean = sum(losses) / len(losses)
    return f"{mean:.4f} | {max(losses) - min(losses):.4f}"


def run_fp8(data: pathlib.Path, steps: int, seeds: int) -> None:
    print("| policy | held-out loss | spread | gap | saved MiB | states MiB |")
    print("|---|---|---|---|---|---|")
    base = None
    for policy in POLICIES:
        losses = [train(data, steps, seed, "--policy", policy, "--lr", "1e-3")
                  for seed in range(seeds)]  # fmt: skip
        mean = sum(losses) / seeds
        base = mean if base is None else base
        memory = get_memory("--policy", policy)
        print(f"| `{policy}` | {describe(losses)} | {100 * (mean / base - 1):+.2f} % | "
              f"{memory['saved']:.1f} | {memory['state']:.1f} |", flush=True)  # fmt: skip


def run_optimizers(data: pathlib.Path, steps: int, seeds: int) -> None:
    print("| optimizer | rate | held-out loss | spread | states MiB |")
    print("|---|---|---|---|---|")
    for rule, rates in RATES.items():
        options = ["--optimizer", rule, *MOMENTUM.get(rule, [])]
        first = {rate: train(data, steps, 0, *options, "--lr", rate) for rate in rates}
        rate = min(first, key=first.get)
        losses = [first[rate]] + [
            train(data, steps, seed, *options, "--lr", rate) for seed in range(1, seeds)
        ]
        memory = get_memory(*options)
        print(f"| `{rule}` | {rate} | {describe(losses)} | "
              f"{memory.get('state', 0.0):.1f} |", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    experiments = {"fp8": run_fp8, "optimizers": run_optimizers}
    parser.add_argument("what", nargs="*", help=", ".join(experiments))
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    for name in arguments.what or experiments:
        if name not in experiments:
            parser.error(f"no experiment is called {name}")
        print(f"\n{name}: {json.dumps(vars(arguments))}\n", flush=True)
        experiments[name](find_data(), arguments.steps, arguments.seeds)


if __name__ == "__main__":
    main()
