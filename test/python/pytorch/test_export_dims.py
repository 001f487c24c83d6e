"""Exports with named axes (`dims`): ONNX's reference implementation runs the file with other
batch sizes than the exported one and matches PyTorch.
"""

import json
import re

import pytest
import torch
from support.paths import BUILD
from support.reference import binade

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxscript", reason="PyTorch's exporter needs onnxscript")

import torch.nn.functional as F
from binade import axes, export
from binade.errors import RejectedError
from onnx.reference import ReferenceEvaluator
from support import export_models as models
from torch import nn

TOKENS = {"input_ids": ["batch", "time"], "labels": ["batch", "time"]}


class Mixed(nn.Module):
    """A model with shape arithmetic: grouped heads, and a loss with class probabilities."""

    def forward(self, query, key, target):
        y = F.scaled_dot_product_attention(
            query, key, key, is_causal=True, enable_gqa=True
        )
        return F.cross_entropy(y.flatten(2).transpose(1, 2), target)


def write(path, model, batch, dims, loss=None):
    export.export_onnx(model, batch, path / "m.onnx", loss=loss, dims=dims)
    return onnx.load(path / "m.onnx")


def shapes(proto):
    return {
        value.name: [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]
        for value in proto.graph.input
    }  # fmt: skip


def evaluate(proto, batch):
    feeds = {name: value.numpy() for name, value in batch.items()}
    return ReferenceEvaluator(proto).run(["loss"], feeds)[0]


@pytest.mark.parametrize(("batch", "time"), [(5, 8), (3, 2), (1, 5)])
def test_losses_at_other_sizes_match_pytorch(tmp_path, batch, time):
    torch.manual_seed(0)
    model = models.MiniGPT()
    proto = write(tmp_path, model, models.tokens(), TOKENS, models.cross_entropy)
    assert shapes(proto)["input_ids"] == ["batch", "time"] == shapes(proto)["labels"]
    ids = torch.randint(0, 11, (batch, time))
    labels = torch.randint(0, 11, (batch, time))
    expected = models.cross_entropy(model(ids), labels).item()
    found = evaluate(proto, {"input_ids": ids, "labels": labels})
    assert found == pytest.approx(expected, rel=2e-6)


@pytest.mark.parametrize("rows", [2, 6])
def test_grouped_heads_and_probabilities(tmp_path, rows):
    def draw(rows):
        return {
            "query": torch.randn(rows, 4, 3, 5),
            "key": torch.randn(rows, 2, 3, 5),
            "target": torch.softmax(torch.randn(rows, 15, 4), 1),
        }

    dims = {"query": ["rows", *[""] * 3], "key": ["rows", *[""] * 3],
            "target": ["rows", "", ""]}  # fmt: skip
    torch.manual_seed(0)
    model = Mixed()
    proto = write(tmp_path, model, draw(4), dims)
    assert shapes(proto)["key"] == ["rows", 2, 3, 5]
    batch = draw(rows)
    expected = model(**batch).item()
    assert evaluate(proto, batch) == pytest.approx(expected, rel=2e-6)


@pytest.mark.skipif(not (BUILD / "bin/binade").exists(), reason="binade is not built")
def test_sizes_of_the_exported_batch_are_the_default(tmp_path):
    proto = write(tmp_path, models.MiniGPT(), models.tokens(), TOKENS,
                  models.cross_entropy)  # fmt: skip
    given = dict(zip(["batch", "time"], models.tokens()["input_ids"].shape))
    [entry] = [e.value for e in proto.metadata_props if e.key == "binade.dims"]
    assert json.loads(entry) == given

    def dimensions(*arguments):
        process = binade("import", tmp_path / "m.onnx", "-o", tmp_path / "m.mlir",
                         *arguments)  # fmt: skip
        assert process.returncode == 0, process.stderr
        [line] = re.findall("^dimensions: (.*)$", process.stdout + process.stderr, re.M)
        return line, (tmp_path / "m.mlir").read_text()

    line, text = dimensions()
    assert line == ", ".join(f"{name} = {size}" for name, size in given.items())
    assert f"tensor<{given['batch']}x{given['time']}xi64>" in text
    line, text = dimensions("--dim", "batch=7")
    assert line == f"batch = 7, time = {given['time']}"
    assert f"tensor<7x{given['time']}xi64>" in text


class Fixed(nn.Module):
    def forward(self, x):
        return x.reshape(4, 6).mean()


class Pair(nn.Module):
    def forward(self, x, y):
        return (x * y).mean()


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ({"z": ["rows", ""]}, "dims name 'z', which the batch lacks; it holds 'x', 'y'"),
        ({"x": ["rows"]}, r"dims of 'x' name 1 axes, its shape is \[4, 6\]"),
        ({"x": ["rows", "rows"]}, "dimension 'rows' is 4 and, in 'x', 6"),
        ({"x": ["a b", ""]}, "'a b' cannot be the name of a dimension"),
        ({"y": ["rows", ""]}, "dimension 'rows' of 'y' has size 1; give an example"),
    ],
)  # fmt: skip
def test_invalid_dims_are_rejected(tmp_path, dims, message):
    batch = {"x": torch.zeros(4, 6), "y": torch.zeros(1, 6)}
    with pytest.raises(RejectedError, match=message):
        write(tmp_path, Pair(), batch, dims)
    assert not list(tmp_path.iterdir())


def test_a_named_axis_with_a_fixed_size_is_rejected(tmp_path):
    with pytest.raises(RejectedError, match="rows"):
        write(tmp_path, Fixed(), {"x": torch.zeros(4, 6)}, {"x": ["rows", ""]})
    assert not list(tmp_path.iterdir())


def test_parsing_the_dims_option():
    assert axes.parse("x=batch,,width") == ("x", ["batch", "", "width"])
    for text in ("x", "=batch", "batch,"):
        with pytest.raises(RejectedError, match="--dims expects INPUT=AXIS,AXIS"):
            axes.parse(text)
