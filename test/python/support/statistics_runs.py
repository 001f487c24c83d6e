"""A model of one weight, and runs that record statistics of it."""

import numpy as np
from support.reference import ONE_WEIGHT, binade, safetensors, write_model

F32 = np.float32
WEIGHT = np.linspace(-1, 1, 16, dtype=F32).reshape(4, 4)
STEPS = 6


def write_inputs(folder):
    """A model of one weight, and its data."""
    write_model(folder, ONE_WEIGHT, ["weight"], WEIGHT)
    x = np.random.default_rng(5).standard_normal((2 * STEPS, 4)).astype(F32)
    safetensors.save(folder / "data.safetensors", {"x": x})


def train(folder, out, *more, steps=STEPS, resume=False, policy="fp32", lr=0.1):
    process = binade(
        "train", folder / "model.onnx", "--data", folder / "data.safetensors",
        "--order", "sequential", "--optimizer", "sgd", "--lr", lr, "--steps", steps,
        "--policy", policy, "--resume" if resume else "--out", out, *more,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    return out
