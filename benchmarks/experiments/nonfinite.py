"""A batch that is not finite: how a run continues, by what is done about it.

A small perceptron tells the digits 0 to 3 apart by their quarters of rows and columns. One
image of the training data has a NaN, which each epoch reads once.
"""

from __future__ import annotations

import pathlib
import statistics

import digits
import numpy as np
from training import ROOT, Runs, table

from binade import safetensors

MODEL = ROOT / "examples/mlp/mlp.onnx"
EPOCHS, BATCH = 10, 8
RATES = {"tiger": "1e-2", "adamw": "5e-3"}
ANSWERS = {
    "tiger": ["stop", "continue", "skip", "shrink"],
    "adamw": ["continue", "skip"],
}


def prepare(out: pathlib.Path) -> pathlib.Path:
    """Three files: training data, the same with a NaN, held-out data."""
    source = digits.find_digits(out)
    for name in ("train", "held-out"):
        tensors = safetensors.load(source / f"{name}.safetensors")
        some = tensors["labels"] < 4
        images = tensors["images"][some].reshape(-1, 4, 2, 4, 2).mean((2, 4))
        data = {"x": images.reshape(-1, 16), "labels": tensors["labels"][some]}
        safetensors.save(source / f"few-{name}.safetensors", data)
        if name == "train":
            data["x"][100, 5] = np.nan
            safetensors.save(source / "few-broken.safetensors", data)
    return source


def run(runs: Runs, seeds: int) -> None:
    data = prepare(runs.out)
    samples = len(safetensors.load(data / "few-train.safetensors")["labels"])
    steps = EPOCHS * (samples // BATCH)
    seeds = max(seeds, 10)  # They take a moment.
    cells = []
    for rule, answers in ANSWERS.items():
        cells += [("train", rule, "stop"), *(("broken", rule, x) for x in answers)]
    trained = runs.train(MODEL, [
        ["--loss", "cross_entropy(prediction, labels)",
         "--data", str(data / f"few-{file}.safetensors"),
         "--eval-data", str(data / "few-held-out.safetensors"),
         "--optimizer", rule, "--lr", RATES[rule],
         "--schedule", "lr=base * cosine(step, steps)", "--on-nonfinite", answer,
         "--steps", str(steps), "--seed", str(seed)]
        for file, rule, answer in cells for seed in range(seeds)
    ])  # fmt: skip
    rows = []
    for i, (file, rule, answer) in enumerate(cells):
        mine = trained[i * seeds : (i + 1) * seeds]
        ended = [record for record in mine if not record["code"]]
        losses = [record["loss"] for record in ended]
        rows.append([
            f"`{rule}`", "none" if file == "train" else f"`{answer}`",
            f"{len(ended)} of {seeds}",
            *([f"{statistics.median(losses):.4f}", f"{max(losses) - min(losses):.4f}"]
              if ended else ["", ""]),
        ])  # fmt: skip
    print(f"{steps} steps, {EPOCHS} of them with the NaN\n")
    print(table(["optimizer", "answer to the NaN (`--on-nonfinite`)", "runs that end",
                 "held-out loss", "spread"], rows))  # fmt: skip
