"""Attention with queries whose keys are all masked. As in PyTorch, their rows of the result
are 0 and they contribute 0 to the gradients."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("onnxscript", reason="PyTorch's exporter needs onnxscript")

import torch.nn.functional as F
from binade import export
from support.paths import BUILD

if not (BUILD / "python" / "binade").exists():
    pytest.skip("the extension is not built", allow_module_level=True)

import binade

SAMPLES, HEADS, QUERIES, KEYS, SIZE = 2, 2, 5, 7, 8


def hide(*shape):
    """A mask that hides all keys from the second query, or the second sample."""
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(1)) < 0.7
    mask[..., 0] = True
    mask[(slice(None),) * (len(shape) - 2) + (1,)] = False
    return mask


class Attention(torch.nn.Module):
    """Learns a query, a key and a value."""

    def __init__(self, key_heads=HEADS):
        super().__init__()
        for name, heads, rows in (
            ("q", HEADS, QUERIES), ("k", key_heads, KEYS), ("v", key_heads, KEYS),
        ):  # fmt: skip
            shape = (SAMPLES, heads, rows, SIZE)
            self.register_parameter(name, torch.nn.Parameter(torch.randn(shape)))

    def attend(self, mask, **options):
        return F.scaled_dot_product_attention(
            self.q, self.k, self.v, attn_mask=mask, **options
        )

    def forward(self, mask, weight):
        y = self.attend(mask)
        return (y * weight).sum(), y


class Grouped(Attention):
    def __init__(self):
        super().__init__(key_heads=1)

    def attend(self, mask):
        return super().attend(mask, enable_gqa=True)


class Infinities(Attention):
    def attend(self, mask):
        return super().attend(torch.zeros(mask.shape).masked_fill(~mask, -torch.inf))


class Layer(torch.nn.Module):
    """All keys of a sample are padding."""

    def __init__(self):
        super().__init__()
        width = HEADS * SIZE
        self.x = torch.nn.Parameter(torch.randn(SAMPLES, QUERIES, width))
        self.layer = torch.nn.MultiheadAttention(width, HEADS, batch_first=True)

    def forward(self, mask, weight):
        y, _ = self.layer(
            self.x, self.x, self.x, key_padding_mask=~mask, need_weights=False
        )
        return (y * weight).sum(), y


WHOLE = (SAMPLES, HEADS, QUERIES, SIZE)
MODELS = {
    "bool": (Attention, hide(SAMPLES, HEADS, QUERIES, KEYS), WHOLE),
    "broadcast": (Attention, hide(QUERIES, KEYS), WHOLE),
    "grouped": (Grouped, hide(QUERIES, KEYS), WHOLE),
    "infinities": (Infinities, hide(QUERIES, KEYS), WHOLE),
    "padding": (Layer, hide(SAMPLES, QUERIES), (SAMPLES, QUERIES, HEADS * SIZE)),
}
# The largest error, relative to the largest magnitude.
TOLERANCES = {"fp32": 1e-5, "fp16-amp": 2**-7, "bf16-amp": 2**-4}
# Starts at a loss scale that does not overflow, so that the first step is not skipped.
FP16 = {"name": "fp16", "extends": "fp16-amp", "loss_scale": {"init": 256}}


def compute(name):
    """The model, its batch, and PyTorch's result and gradients."""
    make, mask, shape = MODELS[name]
    torch.manual_seed(0)
    model, batch = make(), {"mask": mask, "weight": torch.randn(shape)}
    loss, y = model(**batch)
    loss.backward()
    return model, batch, {"y": y, **{n: p.grad for n, p in model.named_parameters()}}


def check(path, batch, expected, policy, **options):
    step = binade.compile(
        path, policy=FP16 if policy == "fp16-amp" else policy, optimizer="sgd",
        settings={"lr": 0.0},
        keep_gradients=True, keep_outputs=True, **options,
    )  # fmt: skip
    metrics = step({name: value.numpy() for name, value in batch.items()})
    assert not metrics.skipped
    (y,) = [v for v in step.outputs.values() if v.ndim > 0]
    found = {"y": y, **{n: v / metrics.scale for n, v in step.gradients.items()}}
    assert set(found) == set(expected)
    for name, value in expected.items():
        value = value.detach().numpy()
        assert np.isfinite(value).all()
        atol = TOLERANCES[policy] * np.abs(value).max()
        np.testing.assert_allclose(found[name], value, rtol=0, atol=atol, err_msg=name)


@pytest.mark.parametrize(
    ("name", "policy"),
    [*((name, "fp32") for name in MODELS), ("bool", "fp16-amp"), ("bool", "bf16-amp")],
)
def test_queries_without_visible_keys(name, policy, tmp_path):
    model, batch, expected = compute(name)
    export.export_onnx(model, batch, tmp_path / "m.onnx")
    check(tmp_path / "m.onnx", batch, expected, policy)
    if name != "padding":
        np.testing.assert_array_equal(expected["y"].detach()[..., 1, :], 0)
        np.testing.assert_array_equal(expected["q"][..., 1, :], 0)


@pytest.mark.filterwarnings("ignore:Exporting a model while it is in training mode")
@pytest.mark.parametrize("name", ["bool", "grouped"])
def test_the_onnx_attention_op(name, tmp_path):
    """`Attention` of opset 23, which PyTorch's exporter writes."""
    model, batch, expected = compute(name)
    torch.onnx.export(
        model, tuple(batch.values()), tmp_path / "m.onnx", input_names=list(batch),
        output_names=["loss", "y"], opset_version=23, dynamo=True, verbose=False,
        optimize=False,
    )  # fmt: skip
    check(tmp_path / "m.onnx", batch, expected, "fp32", train=["q", "k", "v"])
