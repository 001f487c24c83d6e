"""Attention, losses and splits of exported graphs, run by ONNX's reference implementation,
match PyTorch."""

import numpy as np
import pytest
import torch

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxscript", reason="PyTorch's exporter needs onnxscript")

import torch.nn.functional as F
from support import export_models as models
from support.exported_graphs import op_types, run, write  # noqa: E402
from torch import nn


def test_attention_is_decomposed_with_a_shared_mask(tmp_path):
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = models.MiniGPT(), models.MiniGPT()

        def forward(self, input_ids):
            return self.one(input_ids) + self.two(input_ids)

    types = op_types(write(tmp_path, Two(), models.tokens()))
    start = types.index("LessOrEqual")
    assert types[start - 2 : start + 5] == [
        "MatMul", "Mul", "LessOrEqual", "Where", "Add", "Softmax", "MatMul",
    ]  # fmt: skip
    assert types.count("Softmax") == 2 and types.count("Where") == 1
    assert not {"Sqrt", "Shape", "Trilu", "CastLike", "Expand"} & set(types)
    assert {"Gelu", "LayerNormalization", "SoftmaxCrossEntropyLoss"} <= set(types)


ATTENTION = {
    "plain": {},
    "scale": {"scale": 0.3},
    "bool mask": {"attn_mask": torch.tensor([[True, False, True]] * 4)},
    "float mask": {"attn_mask": torch.arange(12.0).view(4, 3)},
    "causal, more queries than keys": {"is_causal": True},
}


def test_attention_matches_pytorch(tmp_path):
    class Attend(nn.Module):
        def forward(self, query, key, value):
            attend = F.scaled_dot_product_attention
            results = {
                case: attend(query, key, value, **options)
                for case, options in ATTENTION.items()
            }
            results["grouped heads"] = attend(
                query, key[:, :2], value[:, :2], enable_gqa=True
            )
            return {"loss": query.mean(), **results}

    torch.manual_seed(0)
    sizes = {"query": (2, 4, 4, 5), "key": (2, 4, 3, 5), "value": (2, 4, 3, 6)}
    batch = {name: torch.randn(size) for name, size in sizes.items()}
    write(tmp_path, Attend(), batch, loss=None)
    found, expected = run(tmp_path, batch), Attend()(**batch)
    assert list(found) == list(expected) and len(found) == 7
    for case, value in expected.items():
        np.testing.assert_allclose(
            found[case], value, rtol=2e-5, atol=2e-6, err_msg=case
        )


LOSSES = {
    "mean": {},
    "sum": {"reduction": "sum"},
    "none": {"reduction": "none"},
    "ignore": {"ignore_index": 2},
    "smoothed": {"label_smoothing": 0.1, "ignore_index": 2},
    "smoothed sum": {"label_smoothing": 0.1, "reduction": "sum"},
    "weighted": {"weight": torch.tensor([0.5, 1.0, 2.0])},
}


def test_cross_entropy_matches_pytorch(tmp_path):
    class Losses(nn.Module):
        def forward(self, x, labels, shares):
            x = x[:, :3]
            results = {
                case: F.cross_entropy(x, labels, **options)
                for case, options in LOSSES.items()
            }
            for how in ("mean", "sum", "none"):
                results[f"shares {how}"] = F.cross_entropy(x, shares, reduction=how)
            return {"loss": x.mean(), **results}

    batch = models.vectors()
    batch["shares"] = torch.softmax(batch["x"][:, 3:], dim=-1)
    write(tmp_path, Losses(), batch, loss=None)
    found, expected = run(tmp_path, batch), Losses()(**batch)
    assert list(found) == list(expected) and len(found) == 11
    for case, value in expected.items():
        np.testing.assert_allclose(found[case], value, rtol=2e-6, err_msg=case)


def test_uneven_splits_and_mean_squared_error(tmp_path):
    class Parts(nn.Module):
        def forward(self, x):
            first, second = x.split(4, dim=1)
            a, b, c = x.split([1, 2, 3], dim=1)
            rows = x.unbind(0)
            return first.sum() * second + a * b * c[:, :2] + rows[0][:2]

    batch = {"x": torch.randn(5, 6), "target": torch.randn(5, 2)}
    types = op_types(write(tmp_path, Parts(), batch, loss=lambda prediction, target:
                           F.mse_loss(prediction, target)))  # fmt: skip
    assert types.count("Sub") == 1 and "SequenceAt" not in types
    expected = F.mse_loss(Parts()(batch["x"]), batch["target"]).item()
    np.testing.assert_allclose(run(tmp_path, batch)["loss"], expected, rtol=2e-6)


def test_a_model_can_compute_its_own_loss(tmp_path):
    model, batch = models.OwnLoss(), models.vectors()
    write(tmp_path, model, batch, loss=None)
    found = run(tmp_path, batch)
    assert list(found) == ["loss", "logits"]
    expected = model(**batch)["loss"].item()
    np.testing.assert_allclose(found["loss"], expected, rtol=2e-6)


@pytest.mark.parametrize("opset", [18, 23])
def test_other_operator_sets(tmp_path, opset):
    torch.manual_seed(0)
    model, batch = models.MLP(), models.vectors()
    proto = write(tmp_path, model, batch, opset=opset)
    assert proto.opset_import[0].version == opset
    loss = models.cross_entropy(model(batch["x"]), batch["labels"]).item()
    np.testing.assert_allclose(run(tmp_path, batch)["loss"], loss, rtol=2e-6)
