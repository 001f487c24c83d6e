"""Runs of the small example, and the contents of their folders."""

import hashlib
import json

import numpy as np
from support.paths import ROOT
from support.reference import binade, safetensors

MODEL = ROOT / "examples/mlp/mlp.onnx"
LOSS = "cross_entropy(prediction, labels)"
OWN_POLICY = """# Of this test.
name: own
extends: fp16-amp
loss_scale: {init: 16777216, interval: 7}
"""
STEPS, EVERY = 60, 20


class Folder:
    """Data, a policy, and runs of both."""

    def __init__(self, path):
        self.path = path
        draw = np.random.default_rng(0)
        x = draw.standard_normal((200, 16), np.float32)
        self.data = path / "train.safetensors"
        safetensors.save(self.data, {"x": x, "labels": (x > 0).sum(1) % 4})
        self.policy = path / "own.yaml"
        self.policy.write_text(OWN_POLICY)

    def command(self, policy, *more, steps=STEPS, seed=0, lr=0.01, data=None):
        words = [
            "train", MODEL, "--loss", LOSS, "--data", data or self.data,
            "--policy", policy,
            "--optimizer", "adamw", "--lr", lr, "--steps", steps, "--seed", seed,
            "--eval-fraction", 0.2, "--eval-every", EVERY, *more,
        ]  # fmt: skip
        return [str(word) for word in words]

    def train(self, *more, **options):
        process = binade(*self.command(*more, **options))
        assert process.returncode == 0, process.stderr
        return process


def read_metrics(run):
    return [json.loads(x) for x in (run / "metrics.jsonl").read_text().splitlines()]


def read_about(run):
    return json.loads((run / "run.json").read_text())


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()
