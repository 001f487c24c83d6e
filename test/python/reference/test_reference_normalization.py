"""Compares softmax and norms with NumPy, and their gradients with differences."""

import numpy as np
import pytest
from support.reference import (
    BF16,
    assert_close,
    differentiate,
    evaluate_op,
    random,
    rounded,
    wide,
)

F32 = np.float32
EPSILON = "epsilon = 1.0e-5 : f64"


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def log_softmax(x):
    shifted = x - x.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def moments(x, axes):
    return x.mean(axes, keepdims=True), x.var(axes, keepdims=True)


def layer_norm(x, scale, bias):
    mean, variance = moments(x, -1)
    return (x - mean) / np.sqrt(variance + 1e-5) * scale + bias


def batch_norm(x, scale, bias, axis=1):
    axes = tuple(a for a in range(x.ndim) if a != axis)
    mean, variance = moments(x, axes)
    return normalize(x, mean, variance, scale, bias, axis)


def normalize(x, mean, variance, scale, bias, axis=1):
    shape = [-1 if a == axis else 1 for a in range(x.ndim)]
    mean, variance, scale, bias = (
        v.reshape(shape) for v in (mean, variance, scale, bias)
    )
    return (x - mean) / np.sqrt(variance + 1e-5) * scale + bias


@pytest.mark.parametrize("dtype", [F32, BF16, np.float64])
@pytest.mark.parametrize(
    "op, function", [("softmax", softmax), ("log_softmax", log_softmax)]
)
def test_softmax(op, function, dtype):
    x = random((3, 4, 17), dtype, seed=1, scale=4)
    (y,) = evaluate_op(op, [x], [(x.shape, dtype)])
    if dtype == np.float64:
        assert_close(y, function(x), 1e-14)
    else:
        np.testing.assert_array_equal(y, rounded(function(*wide(x)), dtype))


def test_softmax_of_huge_and_masked_scores():
    x = np.array([[1e30, -1e30, 0], [-np.inf, 2, 2]], F32)
    (y,) = evaluate_op("softmax", [x], [(x.shape, F32)])
    np.testing.assert_array_equal(y, [[1, 0, 0], [0, 0.5, 0.5]])


@pytest.mark.parametrize("op, function", [
    ("softmax_grad", softmax), ("log_softmax_grad", log_softmax),
])  # fmt: skip
def test_softmax_grad(op, function):
    x, dy = random((4, 9), np.float64, seed=2), random((4, 9), np.float64, seed=3)
    (dx,) = evaluate_op(op, [dy, function(x)], [(x.shape, np.float64)])
    assert_close(dx, differentiate(lambda x: [function(x)], [x], 0, [dy]), 1e-8)


@pytest.mark.parametrize("dtype", [F32, BF16])
def test_layer_norm(dtype):
    x = random((5, 3, 16), dtype, seed=4) + dtype(2)
    scale, bias = random(16, seed=5), random(16, seed=6)
    y, mean, rstd = evaluate_op(
        "layer_norm", [x, scale, bias],
        [(x.shape, dtype), (x.shape[:-1], F32), (x.shape[:-1], F32)], EPSILON,
    )  # fmt: skip
    np.testing.assert_array_equal(y, rounded(layer_norm(*wide(x, scale, bias)), dtype))
    expected_mean, variance = moments(*wide(x), -1)
    np.testing.assert_array_equal(mean, rounded(expected_mean[..., 0], F32))
    np.testing.assert_array_equal(
        rstd, rounded(1 / np.sqrt(variance[..., 0] + 1e-5), F32)
    )


def test_layer_norm_without_bias():
    x, scale = random((2, 8), seed=7), random(8, seed=8)
    y, _, _ = evaluate_op(
        "layer_norm", [x, scale], [(x.shape, F32), ((2,), F32), ((2,), F32)], EPSILON
    )
    np.testing.assert_array_equal(y, rounded(layer_norm(*wide(x, scale), 0.0), F32))


def test_layer_norm_gradients():
    x, dy = random((4, 3, 8), seed=9), random((4, 3, 8), seed=10)
    scale, bias = random(8, seed=11), random(8, seed=12)
    mean, variance = moments(*wide(x), -1)
    mean = rounded(mean[..., 0], F32)
    rstd = rounded(1 / np.sqrt(variance[..., 0] + 1e-5), F32)

    def forward(*arguments):
        return [layer_norm(*arguments)]

    (dx,) = evaluate_op("layer_norm_grad", [dy, x, scale, mean, rstd], [(x.shape, F32)])
    assert_close(dx, differentiate(forward, [x, scale, bias], 0, [dy]))
    dscale, dbias = evaluate_op(
        "layer_norm_param_grad", [dy, x, mean, rstd], [((8,), F32), ((8,), F32)]
    )
    assert_close(dscale, differentiate(forward, [x, scale, bias], 1, [dy]))
    assert_close(dbias, differentiate(forward, [x, scale, bias], 2, [dy]))


def rms_norm(x, scale):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * scale


@pytest.mark.parametrize("dtype", [F32, BF16])
def test_rms_norm(dtype):
    x, scale = random((5, 3, 16), dtype, seed=4) + dtype(2), random(16, seed=5)
    y, rstd = evaluate_op(
        "rms_norm", [x, scale], [(x.shape, dtype), (x.shape[:-1], F32)], EPSILON
    )
    np.testing.assert_array_equal(y, rounded(rms_norm(*wide(x, scale)), dtype))
    (square,) = wide(x)
    expected = 1 / np.sqrt((square * square).mean(-1) + 1e-5)
    np.testing.assert_array_equal(rstd, rounded(expected, F32))


def test_rms_norm_gradients():
    x, dy = random((4, 3, 8), seed=9), random((4, 3, 8), seed=10)
    scale = random(8, seed=11)
    (square,) = wide(x)
    rstd = rounded(1 / np.sqrt((square * square).mean(-1) + 1e-5), F32)

    def forward(*arguments):
        return [rms_norm(*arguments)]

    (dx,) = evaluate_op("rms_norm_grad", [dy, x, scale, rstd], [(x.shape, F32)])
    assert_close(dx, differentiate(forward, [x, scale], 0, [dy]))
    (dscale,) = evaluate_op("rms_norm_scale_grad", [dy, x, rstd], [((8,), F32)])
    assert_close(dscale, differentiate(forward, [x, scale], 1, [dy]))


@pytest.mark.parametrize(
    "shape, axis", [((4, 3, 2, 5), 1), ((4, 2, 3), 2), ((6, 3), 1)]
)
class TestBatchNorm:
    def attributes(self, axis, *more):
        return ", ".join([EPSILON, f"axis = {axis} : i64", *more])

    def statistics(self, x, axis):
        axes = tuple(a for a in range(x.ndim) if a != axis)
        return [rounded(m.reshape(-1), F32) for m in moments(*wide(x), axes)]

    def test_statistics(self, shape, axis):
        x = random(shape, seed=13, scale=3) + F32(1)
        mean, variance = evaluate_op(
            "batch_norm_statistics",
            [x],
            [((3,), F32), ((3,), F32)],
            f"axis = {axis} : i64",
        )
        expected = self.statistics(x, axis)
        np.testing.assert_array_equal(mean, expected[0])
        np.testing.assert_array_equal(variance, expected[1])

    def test_forward(self, shape, axis):
        x, scale, bias = (
            random(shape, BF16, seed=14),
            random(3, seed=15),
            random(3, seed=16),
        )
        mean, variance = random(3, seed=17), np.abs(random(3, seed=18))
        (y,) = evaluate_op(
            "batch_norm", [x, scale, bias, mean, variance], [(shape, BF16)],
            self.attributes(axis),
        )  # fmt: skip
        expected = normalize(*wide(x, mean, variance, scale, bias), axis)
        np.testing.assert_array_equal(y, rounded(expected, BF16))

    @pytest.mark.parametrize("training", [False, True])
    def test_gradients(self, shape, axis, training):
        x, dy = random(shape, seed=19), random(shape, seed=20)
        scale, bias = random(3, seed=21), random(3, seed=22)
        mean, variance = self.statistics(x, axis)

        def forward(x, scale, bias):
            if training:
                return [batch_norm(x, scale, bias, axis)]
            return [normalize(x, *wide(mean, variance), scale, bias, axis)]

        dscale, dbias = evaluate_op(
            "batch_norm_param_grad", [dy, x, mean, variance], [((3,), F32), ((3,), F32)],
            self.attributes(axis),
        )  # fmt: skip
        (dx,) = evaluate_op(
            "batch_norm_grad", [dy, x, scale, mean, variance, dscale, dbias],
            [(shape, F32)], self.attributes(axis, *["training"] * training),
        )  # fmt: skip
        assert_close(dx, differentiate(forward, [x, scale, bias], 0, [dy]))
        assert_close(dscale, differentiate(forward, [x, scale, bias], 1, [dy]))
        assert_close(dbias, differentiate(forward, [x, scale, bias], 2, [dy]))
