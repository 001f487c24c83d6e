"""Runs that record the ranges of their values."""

import json

import numpy as np
import pytest
from support.reference import (
    ONE_WEIGHT,
    binade,
    safetensors,
    write_model,
)

pytest.importorskip("onnx")

F32 = np.float32
WEIGHT = np.linspace(-1, 1, 16, dtype=F32).reshape(4, 4)


def train(folder, x, *more, model=None, record="ranges.json", lr=0):
    safetensors.save(folder / "data.safetensors", {"x": x})
    model = model or write_model(folder, ONE_WEIGHT, ["weight"], WEIGHT)
    process = binade(
        "train", model, "--data", folder / "data.safetensors", "--order", "sequential",
        "--steps", len(x) // 2, "--lr", lr, "--out", folder / "run", "--overwrite",
        "--record", f"ranges={folder / record}", *more,
    )  # fmt: skip
    return process


def record(folder, x, *more, **options):
    process = train(folder, x, "--optimizer", "sgd", *more, **options)
    assert process.returncode == 0, process.stderr
    return json.loads((folder / options.get("record", "ranges.json")).read_text())


def steps_of(x):
    """The values of each step of the model, whose weight does not change."""
    batches = x.reshape(-1, 2, 4)
    product = batches @ WEIGHT
    gradient = 2 * product / 8
    return {
        "batch x": batches,
        "parameter weight": np.stack([WEIGHT] * len(batches)),
        "forward matmul hidden": product,
        "forward mul square": product * product,
        "backward matmul hidden": batches.transpose(0, 2, 1) @ gradient,
    }
