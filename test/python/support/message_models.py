"""Small models that are wrong in one way, and the commands that read them."""

import json

import numpy as np
import pytest
from support.reference import binade

onnx = pytest.importorskip("onnx")

from onnx import numpy_helper  # noqa: E402

F32 = np.float32
BATCH = "float[8, 4] x"
rng = np.random.default_rng(0)


def write(path, body, inputs=BATCH, output="float loss", weights=(), opset=17,
          **metadata):  # fmt: skip
    """A model of nodes n0, n1, ..."""
    text = f'<ir_version: 8, opset_import: ["": {opset}]> g ({inputs}) => ({output}) {{'
    model = onnx.parser.parse_model(text + body + "\n}")
    for number, node in enumerate(model.graph.node):
        node.name = f"n{number}"
    for name, value in dict(weights).items():
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    for key, value in metadata.items():
        model.metadata_props.add(key=f"binade.{key}", value=json.dumps(value))
    onnx.save(model, path)
    return path


def draw(*shape):
    return rng.standard_normal(shape).astype(F32)


def train(model, *more, data="d.safetensors"):
    out = model.parent / "run"
    return binade("train", model, "--data", model.parent / data, "--steps", 1,
                  "--out", out, "--overwrite", *more)  # fmt: skip


def check(process, code, *words, without=()):
    assert process.returncode == code, process.stderr
    for word in words:
        assert word in process.stderr, process.stderr
    for word in without:
        assert word not in process.stderr, process.stderr
