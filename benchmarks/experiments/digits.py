"""A ResNet with momentum in 8 bits, as Dettmers et al. (2022) have it of ImageNet."""

from __future__ import annotations

import pathlib
import statistics
import subprocess
import sys

import numpy as np
import onnxruntime
from training import ROOT, Runs, binade, describe, require, table

sys.path.insert(0, str(ROOT / "python"))

from binade import safetensors  # noqa: E402

STEPS = 450
EXAMPLE = ROOT / "examples/resnet"
MODEL = EXAMPLE / "resnet.onnx"
STATES = ["f32", "dyn8", "dyn8-2048", "e4m3", "e4m3x", "linear8", "dyn4"]


def find_digits(out: pathlib.Path) -> pathlib.Path:
    """The directory of training and held-out data."""
    folder = out / "digits"
    command = [sys.executable, EXAMPLE / "prepare.py", "--out", folder]
    subprocess.run(command, check=True)
    return folder


def get_accuracy(run: pathlib.Path, data: pathlib.Path) -> float:
    """Returns the accuracy of the exported model on the held-out digits, in per cent."""
    model = run / "trained.onnx"
    require(binade("export", run, "-o", model))
    session = onnxruntime.InferenceSession(model)
    held_out = safetensors.load(data / "held-out.safetensors")
    size = session.get_inputs()[0].shape[0]
    found = [session.run(["prediction"], {"images": images})[0].argmax(1)
             for images in np.split(held_out["images"], len(held_out["images"]) // size)]  # fmt: skip
    return 100 * float(np.mean(np.concatenate(found) == held_out["labels"]))


def run(runs: Runs, seeds: int) -> None:
    seeds = max(seeds, 10)  # They take a moment.
    data = find_digits(runs.out)
    commands = [
        ["--data", str(data / "train.safetensors"),
         "--eval-data", str(data / "held-out.safetensors"),
         "--policy", "fp32", "--optimizer", "sgd", "--set", "momentum=0.9",
         "--lr", "0.05", "--schedule", "lr=base * cosine(step, steps)",
         "--states", states, "--steps", str(STEPS), "--seed", str(seed)]
        for states in STATES for seed in range(seeds)
    ]  # fmt: skip
    trained = runs.train(
        MODEL, commands, lambda folder: {"accuracy": get_accuracy(folder, data)}
    )
    rows = []
    for i, states in enumerate(STATES):
        mine = trained[i * seeds : (i + 1) * seeds]
        accuracies = [record["accuracy"] for record in mine]
        rows.append([
            f"`{states}`", f"{statistics.median(accuracies):.2f}",
            f"{max(accuracies) - min(accuracies):.2f}",
            describe([record["loss"] for record in mine]),
        ])  # fmt: skip
    print(table(["momentum", "accuracy, %", "spread", "held-out loss", "spread"], rows))
