"""The exported models that BINADE_MODELS names: how they are trained, and what PyTorch recorded."""

import json
import shutil

import numpy as np
import pytest
from support.paths import MODELS, ROOT
from support.reference import binade, safetensors

FOLD = {"llama-tiny": ["--fold", "*inv_freq"]}
# The convolution network is chaotic: f32 and f64 part after two steps.
STEPS = {"mlp-digits": 10, "gpt2-tiny": 10, "resnet18-cifar-w8": 2}


def allowed_loss_error(recorded, name, steps):
    """A tolerance of 8 times the error of PyTorch's f32, and at least 64 ulp."""
    single, double = (
        recorded[f"loss.{name}"][:steps],
        recorded[f"loss.{name}.fp64"][:steps],
    )
    return max(
        8 * np.abs(single - double).max(), 64 * np.spacing(np.float32(single.max()))
    )


AUTOCAST = ROOT / "test" / "data" / "autocast"
OPTIMIZERS = {
    "adamw": ["--optimizer", "adamw", "--lr", "1e-3", "--set", "weight_decay=0.01"],
    "sgd": ["--optimizer", "sgd", "--lr", "0.05", "--set", "momentum=0.9"],
}


def load_autocast(name):
    """Metrics that PyTorch recorded, by policy and optimizer."""
    return json.loads((AUTOCAST / f"{name}.json").read_text())["runs"]


class Model:
    """A shared model, and its ten batches as a data file."""

    def __init__(self, name, folder):
        self.source, self.folder, self.steps = MODELS / name, folder, STEPS[name]
        if not self.source.is_dir():
            pytest.skip(f"{self.source} is absent; BINADE_MODELS names its folder")
        for file in ("loss.onnx", "model.onnx", "weights.safetensors"):
            shutil.copy(self.source / file, folder / file)
        self.recorded = np.load(self.source / "reference.npz")
        self.autocast = load_autocast(name)
        self.data = folder / "data.safetensors"
        batches = np.load(self.source / "inputs.npz")
        safetensors.save(
            self.data,
            {n: a.reshape(-1, *a.shape[2:]) for n, a in batches.items()},
        )

    def train(self, policy, optimizer, *more, graph="loss.onnx"):
        run = self.folder / "run"
        process = binade(
            "train", self.folder / graph, "--data", self.data, "--order", "sequential",
            "--policy", policy, "--steps", self.steps, "--out", run,
            "--overwrite", "--save-grads", 1, *OPTIMIZERS[optimizer], *more,
        )  # fmt: skip
        assert process.returncode == 0, process.stderr
        lines = (run / "metrics.jsonl").read_text().splitlines()
        return Run(
            [json.loads(line) for line in lines],
            safetensors.load(run / "grads-000001.safetensors"),
            safetensors.load(run / "final.safetensors"),
        )


class Run:
    def __init__(self, metrics, gradients, final):
        self.metrics, self.gradients, self.final = metrics, gradients, final

    def column(self, name):
        return np.array([line[name] for line in self.metrics], float)


def close(found, expected, allowed):
    np.testing.assert_allclose(found, expected, rtol=0, atol=allowed)
