"""Runs whose losses and metrics show the learning rates of a schedule."""

import json

import numpy as np
import pytest
from support.reference import binade, safetensors

onnx = pytest.importorskip("onnx")

STEPS, LR = 16, 0.25
GRAPH = """
<ir_version: 10, opset_import: ["" : 18]>
g (float[1, 1] x) => (float loss) <float[1, 1] a = {2.0}, float[1, 1] b = {2.0}> {
  c = Mul(x, a)
  d = Mul(x, b)
  e = Add(c, d)
  loss = ReduceMean <keepdims = 0> (e)
}
"""


class Files:
    """A model whose gradient is constant, and its data: a batch for each step."""

    def __init__(self, folder):
        self.folder = folder
        model = onnx.parser.parse_model(GRAPH)
        model.metadata_props.add(key="binade.trainable", value='["a", "b"]')
        self.model = folder / "model.onnx"
        onnx.save(model, self.model)
        self.data = folder / "data.safetensors"
        safetensors.save(self.data, {"x": np.ones((STEPS, 1), np.float32)})

    def train(self, out, *more, steps=STEPS, begin=("--out",), data=None):
        """Trains with `more` options; `steps` is None if these set the length."""
        length = [] if steps is None else ["--steps", steps]
        return binade(
            "train", self.model, "--data", data or self.data, "--order", "sequential",
            "--optimizer", "sgd", "--lr", LR, *length, *more, *begin, out,
        )  # fmt: skip


def read_metrics(out, name):
    """Returns the values of a metric in all steps of a run."""
    lines = (out / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line)[name] for line in lines]
