"""Trains files of exporters like the framework did, and compares."""

import json
import subprocess

import numpy as np
import onnx
from binade import safetensors, trained

from support.paths import BUILD

BINADE = BUILD / "bin" / "binade"
DATA = BUILD.parent.parent / "test" / "data"


def load_values(exporter, model, prefix=None):
    """Returns the recorded values, or those whose names begin with `prefix`."""
    tensors = safetensors.load(DATA / exporter / f"{model}.safetensors")
    if prefix is None:
        return tensors
    return {
        key.removeprefix(prefix): value
        for key, value in tensors.items()
        if key.startswith(prefix)
    }


def binade(*arguments):
    command = [str(BINADE), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def train(path, batch, labels, folder, *options, steps=3):
    """SGD on one batch, as the scripts that wrote the files do."""
    graph = onnx.load(path).graph
    dims = []
    for value in graph.input:
        name = value.type.tensor_type.shape.dim[0].dim_param
        if name and f"{name}=3" not in dims:
            dims += ["--dim", f"{name}=3"]
    safetensors.save(folder / "data.safetensors", {**batch, "labels": labels})
    return binade(
        "train", path, "--loss", f"cross_entropy({graph.output[0].name}, labels)",
        "--data", folder / "data.safetensors", "--optimizer", "sgd", "--lr", 0.1,
        "--steps", steps, "--order", "sequential", "--out", folder / "run", *dims,
        *options,
    )  # fmt: skip


def check_losses(folder, expected):
    lines = (folder / "run" / "metrics.jsonl").read_text().splitlines()
    losses = [json.loads(line)["loss"] for line in lines]
    np.testing.assert_allclose(losses, expected, rtol=2e-6)


def check_state(folder, expected, without=()):
    """Checks that a run holds exactly the values of `expected`, up to rounding."""
    state = trained.load_state(folder / "run")
    assert set(state) - set(without) == set(expected)
    for key, value in expected.items():
        assert state[key].shape == value.shape, key
        scale = max(float(np.abs(value).max()), 1e-2)
        np.testing.assert_allclose(
            state[key], value, rtol=0, atol=1e-6 * scale, err_msg=key
        )
