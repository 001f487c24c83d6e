"""Compares losses with NumPy, and loss scaling with a trace of PyTorch's GradScaler."""

import json

import numpy as np
import pytest
from support.paths import ROOT
from support.reference import (
    BF16,
    assert_close,
    differentiate,
    evaluate,
    evaluate_op,
    fail_op,
    random,
    rounded,
    wide,
)

F32 = np.float32
IGNORE = "ignore_index = -100 : i64"


def cross_entropy(logits, labels):
    top = logits.max(-1)
    logarithm = np.log(np.exp(logits - top[:, None]).sum(-1))
    picked = logits[np.arange(len(labels)), np.maximum(labels, 0)]
    losses = np.where(labels == -100, 0, logarithm - (picked - top))
    return losses, top, logarithm


@pytest.mark.parametrize("dtype", [F32, BF16])
@pytest.mark.parametrize("integer", [np.int64, np.int32])
def test_cross_entropy(dtype, integer):
    logits = random((6, 10), dtype, seed=1, scale=5)
    labels = np.array([3, 0, -100, 9, 5, -100], integer)
    results = evaluate_op("cross_entropy", [logits, labels], 3 * [((6,), F32)], IGNORE)
    for result, expected in zip(results, cross_entropy(*wide(logits), labels)):
        np.testing.assert_array_equal(result, rounded(expected, F32))


def test_cross_entropy_grad():
    logits, dy = random((4, 7), seed=2), random(4, seed=3)
    labels = np.array([6, -100, 0, 2])
    _, top, logarithm = cross_entropy(*wide(logits), labels)
    (dlogits,) = evaluate_op(
        "cross_entropy_grad",
        [dy, logits, labels, top.astype(F32), rounded(logarithm, F32)],
        [((4, 7), F32)],
        IGNORE,
    )
    expected = differentiate(
        lambda x: [cross_entropy(x, labels)[0]], [logits], 0, [dy], step=1e-5
    )
    assert_close(dlogits, expected)
    assert not dlogits[1].any()


@pytest.mark.parametrize("label", [10, -1])
def test_labels_out_of_range_are_errors(label):
    logits, labels = random((2, 10), seed=4), np.array([3, label])
    message = fail_op("cross_entropy", [logits, labels], 3 * [((2,), F32)], IGNORE)
    assert (
        f"label {label} of row 1 is neither one of 10 classes nor ignore_index"
        in message
    )


def test_label_weight():
    labels = np.array([1, -100, 4, 2, -100])
    (weight,) = evaluate_op("label_weight", [labels], [((), F32)], IGNORE)
    assert weight == F32(1 / 3)
    (weight,) = evaluate_op("label_weight", [np.full(2, -100)], [((), F32)], IGNORE)
    assert weight == np.inf


def test_gradient_seed_and_unscale_factor():
    module = """
      func.func @f(%s: tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>,
                                         tensor<f32>, tensor<f32>) {
        %one = binade.gradient_seed : () -> tensor<f32>
        %seed = binade.gradient_seed %s : (tensor<f32>) -> tensor<f32>
        %none = binade.unscale_factor : () -> tensor<f32>
        %factor = binade.unscale_factor %s : (tensor<f32>) -> tensor<f32>
        %mean = binade.unscale_factor {batches = 7 : i64} : () -> tensor<f32>
        %both = binade.unscale_factor %s {batches = 7 : i64} : (tensor<f32>) -> tensor<f32>
        return %one, %seed, %none, %factor, %mean, %both
          : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
      }"""
    expected = [1, 3, 1, F32(1 / 3), F32(1 / 7), F32(1 / 21)]
    for backend in ("reference", "cpu"):
        outputs = evaluate(module, {"arg0": F32(3)}, "--backend", backend)
        assert [float(outputs[f"result{i}"]) for i in range(6)] == expected


def test_update_scale_follows_grad_scaler():
    golden = json.loads((ROOT / "test/data/golden/loss_scale.json").read_text())[
        "cases"
    ]
    attributes = "growth = 2.0 : f64, backoff = 0.5 : f64, interval = 3 : i64"
    scale, count = F32(65536), np.int32(0)
    for step, expected in enumerate(golden["torch_growth_interval_3"]):
        found = np.bool_(step in golden["overflow_steps"])
        scale, count = evaluate_op(
            "update_scale",
            [scale, count, found],
            [((), F32), ((), np.int32)],
            attributes,
        )
        assert (scale, count) == (expected["scale"], expected["tracker"]), step


@pytest.mark.parametrize("minimum", ["", ", min = 0.0 : f64"])
def test_the_scale_keeps_a_finite_reciprocal(minimum):
    attributes = "growth = 2.0 : f64, backoff = 0.5 : f64, interval = 1 : i64" + minimum
    scale, _ = evaluate_op(
        "update_scale", [F32(2**-126), np.int32(0), np.bool_(True)],
        [((), F32), ((), np.int32)], attributes,
    )  # fmt: skip
    assert scale == F32(2**-126) and np.isfinite(1 / scale)


def test_the_scale_does_not_grow_to_infinity():
    attributes = "growth = 2.0 : f64, backoff = 0.5 : f64, interval = 1 : i64"
    scale, count = evaluate_op(
        "update_scale", [F32(2**127), np.int32(0), np.bool_(False)],
        [((), F32), ((), np.int32)], attributes,
    )  # fmt: skip
    assert (scale, count) == (F32(2**127), 0)
