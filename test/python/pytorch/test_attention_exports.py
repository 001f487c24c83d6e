"""Attention with masks, relative positions, a soft cap and dropout, as exporters write it, becomes
one op: with PyTorch's gradients, and with the random numbers of the graph."""

import math
import subprocess

import numpy as np
import onnx
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript")

import torch.nn.functional as F
from binade import export
from support.paths import BUILD
from support.reference import safetensors
from torch import nn

SAMPLES, LENGTH, HEADS, SIZE = 3, 6, 2, 4
WIDTH = HEADS * SIZE


class Attention(nn.Module):
    """Attention of its input, and a loss that is linear in the result."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.positions = nn.Embedding(7, HEADS)

    def forward(self, x, mask, weight):
        shape = (*x.shape[:-1], HEADS, SIZE)
        q, k, v = (y.reshape(shape).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        y = self.attend(q, k, v, mask)
        return (y.transpose(1, 2).reshape(x.shape) * weight).sum()

    def attend(self, q, k, v, mask):
        scores = self.score(q @ k.transpose(-1, -2) / math.sqrt(SIZE), mask)
        p = F.dropout(torch.softmax(scores, -1), self.ratio, self.training)
        return p @ v

    ratio = 0.0

    def score(self, scores, mask):
        return scores


class Padding(Attention):
    """As BERT: the largest negative number is added."""

    def score(self, scores, mask):
        lowest = torch.finfo(scores.dtype).min
        return scores + (1.0 - mask[:, None, None].to(scores.dtype)) * lowest


class Selected(Attention):
    def score(self, scores, mask):
        return scores.masked_fill(~mask[:, None, None], -1e9)


class Relative(Attention):
    """As T5: the sum of trained relative positions and a mask."""

    def score(self, scores, mask):
        place = torch.arange(LENGTH)
        bucket = (place[None] - place[:, None]).clamp(-3, 3) + 3
        bias = self.positions(bucket).permute(2, 0, 1)[None]
        lowest = torch.zeros(mask.shape).masked_fill(~mask, -1e30)
        return scores + (bias + lowest[:, None, None])


class Capped(Attention):
    """As Gemma 2: a soft cap, then a causal mask."""

    def score(self, scores, mask):
        later = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
        return (2.0 * torch.tanh(scores / 2.0)).masked_fill(later, -torch.inf)


class Dropping(Padding):
    ratio = 0.3


class Scaled(Attention):
    """PyTorch's function, with a mask that hides all keys of a sample."""

    def attend(self, q, k, v, mask):
        visible = mask[:, None, None] & (torch.arange(SAMPLES) > 0)[:, None, None, None]
        return F.scaled_dot_product_attention(q, k, v, visible, self.ratio)


class ScaledDropping(Scaled):
    ratio = 0.3


class Encoder(nn.Module):
    """The default of PyTorch, with dropout also outside of attention."""

    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 8, batch_first=True)

    def forward(self, x, mask, weight):
        return (self.layer(x, src_key_padding_mask=~mask) * weight).sum()


EXACT = [Padding, Selected, Relative, Capped, Scaled]
RANDOM = [Dropping, ScaledDropping, Encoder]


def make(kind):
    torch.manual_seed(0)
    model = kind().train()
    mask = torch.ones(SAMPLES, LENGTH, dtype=torch.bool)
    mask[1, 4:] = mask[2, 1:] = False
    x, weight = torch.randn(2, SAMPLES, LENGTH, WIDTH)
    return model, {"x": x, "mask": mask, "weight": weight}


def run(tool, *arguments):
    command = [BUILD / "bin" / tool, *map(str, arguments)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert process.returncode == 0, process.stderr
    return process.stdout


def expose(path):
    """Makes the probabilities outputs of the model, so that the graph stays as it is."""
    model = onnx.load(path, load_external_data=False)
    (softmax,) = [node for node in model.graph.node if node.op_type == "Softmax"]
    shape = [SAMPLES, HEADS, LENGTH, LENGTH]
    output = onnx.helper.make_tensor_value_info("p", onnx.TensorProto.FLOAT, shape)
    softmax.output[0], before = "p", softmax.output[0]
    for node in model.graph.node:
        node.input[:] = ["p" if name == before else name for name in node.input]
    model.graph.output.append(output)
    path = path.with_name("exposed.onnx")
    onnx.save(model, path)
    return path


def import_model(path, fuses=True):
    """The module with gradients."""
    module = path.with_suffix(".mlir")
    module.write_text(run("binade-translate", "--import-onnx", path))
    found = run("binade-opt", "--binade-build-gradient", module)
    assert found.count("binade.attention ") == fuses
    assert ("binade.softmax" in found) != fuses
    module.write_text(found)
    return module


def evaluate(module, batch, rng, backend):
    given = {name: value.numpy() for name, value in batch.items()}
    if "binade.role<rng>" in module.read_text():
        given["rng"] = np.array(rng)
    inputs, out = module.with_suffix(".in"), module.with_suffix(".out")
    safetensors.save(inputs, given)
    run(
        "binade-interpret",
        module,
        "--inputs",
        inputs,
        "--out",
        out,
        f"--backend={backend}",
    )
    found = safetensors.load(out)
    found.pop("rng", None)
    return found


def assert_close(found, expected, relative=2e-6):
    assert set(found) == set(expected)
    largest = max(np.abs(value).max() for value in expected.values())
    for name, value in expected.items():
        np.testing.assert_allclose(
            found[name], value, rtol=0, atol=relative * largest, err_msg=name
        )


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("kind", EXACT)
def test_gradients_are_those_of_pytorch(kind, backend, tmp_path):
    model, batch = make(kind)
    export.export_onnx(model, batch, tmp_path / "m.onnx")
    found = evaluate(import_model(tmp_path / "m.onnx"), batch, None, backend)
    loss = model(**batch)
    loss.backward()
    expected = {
        name: value.grad.numpy()
        for name, value in model.named_parameters()
        if value.grad is not None
    }
    assert_close(found, {"loss": loss.detach().numpy(), **expected})


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("kind", RANDOM)
def test_dropout_is_that_of_the_graph(kind, backend, tmp_path):
    model, batch = make(kind)
    export.export_onnx(model, batch, tmp_path / "m.onnx")
    fused = import_model(tmp_path / "m.onnx")
    plain = import_model(expose(tmp_path / "m.onnx"), fuses=False)
    found, expected, other = (
        evaluate(module, batch, rng, backend)
        for module, rng in [(fused, [5, 3]), (plain, [5, 3]), (fused, [5, 4])]
    )
    expected.pop("p")
    assert_close(found, expected, 1e-5)
    assert abs(found["loss"] - other["loss"]) > 1e-3
