"""Compares unit scaling with f32: what operands lose in f16 and FP8, and losses.

    .venv/bin/python benchmarks/experiments/unit_scaling.py --out unit

A run in f32 records the ranges of all values. From these follows the share of the nonzero
elements of each operand of a matmul or convolution that becomes 0, or is clipped, in the
format of the policy: as it is, and multiplied by the constant power of two that `binade
explain` reports.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import subprocess
import sys
from collections.abc import Iterable

import numpy as np
from training import ROOT, binade, require, table

from binade import safetensors

# Exponent below which a magnitude rounds to 0, and exponent from which it is clipped.
LIMITS = {"f16": (-25, 16), "f8E4M3FN": (-10, 9), "f8E5M2": (-17, 16)}
POLICIES = ("unit-fp16", "unit-fp8", "munit-fp8")
COMPARED = ("bf16-amp", "fp16-amp", "fp16-amp without loss scaling")
UNSCALED = "name: unscaled\nextends: fp16-amp\nloss_scale: { static: 1 }\n"
WINDOW = "input_ids=tokens[0:128],labels=tokens[1:129]"
EXAMPLES = ROOT / "examples"
LOSS = ["--loss", "cross_entropy(prediction, labels)"]
# Each model, options that every command needs, and those of training.
MODELS = {
    "mlp": (
        EXAMPLES / "mlp" / "mlp.onnx",
        LOSS,
        ["--optimizer", "sgd", "--lr", "0.2", "--seed", "0"],
    ),
    "char-gpt": (
        EXAMPLES / "char-gpt" / "mini.onnx",
        [],
        ["--window", WINDOW, "--optimizer", "adamw", "--lr", "3e-3", "--seed", "0"],
    ),
    "resnet": (
        EXAMPLES / "resnet" / "resnet.onnx",
        [],
        ["--optimizer", "sgd", "--lr", "0.05", "--set", "momentum=0.9", "--seed", "0"],
    ),
}


def lose(exponents: dict[str, int], shift: int, format: str) -> tuple[int, int, int]:
    """Returns how many elements become 0, how many are clipped, and how many there are."""
    lowest, highest = LIMITS[format]
    zero = sum(n for e, n in exponents.items() if int(e) + shift < lowest)
    clipped = sum(n for e, n in exponents.items() if int(e) + shift >= highest)
    return zero, clipped, sum(exponents.values())


def compare(ranges: dict, report: dict) -> Iterable[tuple]:
    """Yields for each product and each of its scaled operands what is lost."""
    seen = {value["value"]: value["exponents"] for value in ranges["values"]}
    for op in report["ops"]:
        for operand in op.get("operands") or ():
            if not isinstance(operand, dict) or operand["value"] not in seen:
                continue
            exponents, format = seen[operand["value"]], operand["format"]
            yield (
                op["name"] or op["op"], op["phase"], operand,
                lose(exponents, 0, format), lose(exponents, operand["exponent"], format),
            )  # fmt: skip


def share(counts: tuple[int, int, int], index: int) -> str:
    return f"{100 * counts[index] / max(counts[2], 1):.3g}"


def describe(rows: Iterable[tuple]) -> str:
    head = ("layer", "phase", "operand", "format", "scale", "rule",
            "becomes 0, %", "scaled", "clipped, %", "scaled")  # fmt: skip
    return table(head, [
        (name, phase, operand["value"], operand["format"],
         f"2^{operand['exponent']}", operand["rule"], share(plain, 0),
         share(scaled, 0), share(plain, 1), share(scaled, 1))
        for name, phase, operand, plain, scaled in rows
    ])  # fmt: skip


def prepare(name: str, out: pathlib.Path) -> None:
    folder = out / name
    if name != "mlp":
        script = EXAMPLES / name / "prepare.py"
        subprocess.run([sys.executable, script, "--out", folder], check=True)
        return
    random = np.random.default_rng(0)
    x = random.standard_normal((320, 16)).astype(np.float32)
    labels = (x @ random.standard_normal((16, 4))).argmax(1).astype(np.int64)
    folder.mkdir(parents=True, exist_ok=True)
    safetensors.save(folder / "train.safetensors", {"x": x, "labels": labels})


def train(name: str, policy: str, steps: int, out: pathlib.Path, *more: str) -> float:
    """Returns the mean loss of the last tenth of the steps."""
    model, common, options = MODELS[name]
    run = out / name / policy.replace(" ", "-")
    require(binade(
        "train", model, "--data", out / name / "train.safetensors", "--policy",
        out / "unscaled.yaml" if "without" in policy else policy,
        "--steps", str(steps), "--out", run, "--overwrite", *common, *options, *more,
    ))  # fmt: skip
    lines = (run / "metrics.jsonl").read_text().splitlines()
    losses = [json.loads(line)["loss"] for line in lines]
    last = losses[-max(1, steps // 10) :]
    return sum(last) / len(last)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--model", choices=MODELS, action="append")
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "unscaled.yaml").write_text(UNSCALED)
    for name in options.model or MODELS:
        prepare(name, options.out)
        record = options.out / name / "ranges.json"
        losses = {"fp32": train(name, "fp32", options.steps, options.out,
                                "--record", f"ranges={record}")}  # fmt: skip
        ranges = json.loads(record.read_text())
        for policy in POLICIES:
            model, common, _ = MODELS[name]
            report = require(
                binade(
                    "explain", model, *common, "--policy", policy, "--format", "json"
                )
            )
            print(f"\n{name}, {policy}\n")
            print(describe(compare(ranges, json.loads(report))))
            losses[policy] = train(name, policy, options.steps, options.out)
        for policy in COMPARED:
            losses[policy] = train(name, policy, options.steps, options.out)
        print(f"\n{name}: mean loss of the last tenth of {options.steps} steps\n")
        rows = [(policy, f"{loss:.4f}") for policy, loss in losses.items()]
        print(table(("policy", "loss"), rows))


if __name__ == "__main__":
    main()
