"""Compares matmuls and convolutions in the reference with NumPy."""

import itertools

import numpy as np
import pytest
from support.reference import BF16, assert_close, evaluate_op, random, rounded, wide


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
@pytest.mark.parametrize("transpose_lhs", [False, True])
@pytest.mark.parametrize("transpose_rhs", [False, True])
def test_matmul(batch, transpose_lhs, transpose_rhs):
    lhs, rhs = random((*batch, 3, 4), seed=1), random((*batch, 4, 5), seed=2)
    expected = np.matmul(*wide(lhs, rhs))
    flags = []
    if transpose_lhs:
        lhs, flags = np.swapaxes(lhs, -1, -2).copy(), [*flags, "transpose_lhs"]
    if transpose_rhs:
        rhs, flags = np.swapaxes(rhs, -1, -2).copy(), [*flags, "transpose_rhs"]
    (y,) = evaluate_op(
        "matmul", [lhs, rhs], [((*batch, 3, 5), np.float32)], ", ".join(flags)
    )
    np.testing.assert_array_equal(y, rounded(expected, np.float32))


@pytest.mark.parametrize(
    "m, k, n", [(1, 1, 1), (4, 256, 16), (5, 600, 33), (7, 257, 3)]
)
def test_matmul_sums_in_order(m, k, n):
    """The bits are those of a loop over k, for sizes within one tile and larger ones."""
    draw = np.random.default_rng(6)
    lhs, rhs = draw.standard_normal((m, k)), draw.standard_normal((k, n))
    expected = np.zeros((m, n))
    for summand in range(k):
        expected += lhs[:, summand, None] * rhs[summand]
    (y,) = evaluate_op("matmul", [lhs, rhs], [((m, n), np.float64)])
    np.testing.assert_array_equal(y, expected)


def test_matmul_rounds_once_after_the_bias():
    # In bf16, 256 + 1 is 256: rounding before the bias would return 255.
    lhs, rhs = np.array([[16, 1]], BF16), np.array([[16], [1]], BF16)
    bias = np.array([-1], BF16)
    (y,) = evaluate_op("matmul", [lhs, rhs, bias], [((1, 1), BF16)])
    assert y[0, 0] == 256


def test_matmul_with_bias_and_free_formats():
    lhs, rhs = random((4, 8), BF16, seed=3), random((8, 2), BF16, seed=4)
    bias = random(2, np.float32, seed=5)
    (y,) = evaluate_op("matmul", [lhs, rhs, bias], [((4, 2), np.float32)])
    left, right, shift = wide(lhs, rhs, bias)
    np.testing.assert_array_equal(y, rounded(left @ right + shift, np.float32))


class Convolution:
    """A convolution computed by its definition, with any number of spatial axes."""

    def __init__(self, x, weight, strides, low, high, dilations, groups):
        self.x, self.weight, self.strides, self.low = x, weight, strides, low
        self.dilations, self.groups = dilations, groups
        spatial = range(len(strides))
        self.out = [
            (x[2 + i] + low[i] + high[i] - dilations[i] * (weight[2 + i] - 1) - 1)
            // strides[i] + 1 for i in spatial
        ]  # fmt: skip
        self.y = (x[0], weight[0], *self.out)

    def products(self):
        """Indices (x, weight, y) of all multiplications."""
        inputs, outputs = self.weight[1], self.weight[0] // self.groups
        for p in itertools.product(*map(range, self.out)):
            for k in itertools.product(*map(range, self.weight[2:])):
                q = tuple(
                    a * s + b * d - f
                    for a, s, b, d, f in zip(
                        p, self.strides, k, self.dilations, self.low
                    )
                )
                if any(not 0 <= a < size for a, size in zip(q, self.x[2:])):
                    continue
                for o in range(self.weight[0]):
                    first = o // outputs * inputs
                    rows = slice(first, first + inputs)
                    yield (
                        (slice(None), rows, *q),
                        (o, slice(None), *k),
                        (slice(None), o, *p),
                    )

    def forward(self, x, weight):
        y = np.zeros(self.y)
        for xi, wi, yi in self.products():
            y[yi] += x[xi] @ weight[wi]
        return y


CONVOLUTIONS = {
    "line": Convolution((2, 3, 9), (4, 3, 3), [2], [1], [0], [1], 1),
    "plane": Convolution((2, 4, 6, 5), (6, 2, 3, 2), [1, 2], [1, 0], [1, 2], [1, 1], 2),
    "dilated": Convolution((1, 2, 7, 7), (3, 2, 3, 3), [1, 1], [2, 2], [2, 2], [2, 2], 1),
    "depthwise": Convolution((2, 3, 5, 5), (3, 1, 3, 3), [1, 1], [1, 1], [1, 1], [1, 1], 3),
    "space": Convolution((1, 2, 4, 3, 4), (2, 2, 2, 2, 2), [1, 1, 2], [0, 1, 0],
                         [0, 0, 1], [1, 1, 1], 1),
}  # fmt: skip


def attributes(c, channels_last):
    def array(values):
        return "array<i64: " + ", ".join(map(str, values)) + ">"

    high = [
        (n - 1) * s + d * (k - 1) + 1 - x - f
        for n, s, d, k, x, f in zip(
            c.out, c.strides, c.dilations, c.weight[2:], c.x[2:], c.low
        )
    ]
    high = [max(h, 0) for h in high]
    parts = [
        f"strides = {array(c.strides)}", f"padding_low = {array(c.low)}",
        f"padding_high = {array(high)}", f"dilations = {array(c.dilations)}",
        f"groups = {c.groups} : i64",
    ]  # fmt: skip
    return ", ".join(parts + ["channels_last"] * channels_last)


def last(array):
    return np.moveaxis(array, 1, -1).copy()


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_conv(name, channels_last):
    c = CONVOLUTIONS[name]
    layout = last if channels_last else np.array
    x, weight = random(c.x, seed=1), random(c.weight, seed=2)
    bias = random(c.weight[0], seed=3)
    expected = c.forward(*wide(x, weight)) + bias.astype(np.float64).reshape(
        -1, *[1] * len(c.out)
    )
    (y,) = evaluate_op("conv", [layout(x), weight, bias],
                       [(layout(expected).shape, np.float32)],
                       attributes(c, channels_last))  # fmt: skip
    np.testing.assert_array_equal(y, rounded(layout(expected), np.float32))


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_conv_gradients(name, channels_last):
    c = CONVOLUTIONS[name]
    layout = last if channels_last else np.array
    x, weight, dy = random(c.x, seed=4), random(c.weight, seed=5), random(c.y, seed=6)
    flags = attributes(c, channels_last)
    (dx,) = evaluate_op("conv_input_grad", [layout(dy), weight],
                        [(layout(x).shape, np.float32)], flags)  # fmt: skip
    (dw,) = evaluate_op("conv_weight_grad", [layout(dy), layout(x)],
                        [(weight.shape, np.float32)], flags)  # fmt: skip
    # A convolution is linear in either operand, so its value at a unit vector is its
    # derivative along that vector.
    wide_x, wide_w, wide_dy = wide(x, weight, dy)
    for position in np.ndindex(x.shape):
        unit = np.zeros(x.shape)
        unit[position] = 1
        expected = np.sum(wide_dy * c.forward(unit, wide_w))
        got = dx[
            (position[0], *position[2:], position[1]) if channels_last else position
        ]
        assert abs(got - expected) <= 1e-6 * np.abs(dx).max()
    for position in np.ndindex(weight.shape):
        unit = np.zeros(weight.shape)
        unit[position] = 1
        expected = np.sum(wide_dy * c.forward(wide_x, unit))
        assert abs(dw[position] - expected) <= 1e-6 * np.abs(dw).max()


def test_conv_in_bf16_rounds_once():
    c = CONVOLUTIONS["plane"]
    x, weight = random(c.x, BF16, seed=7), random(c.weight, BF16, seed=8)
    expected = c.forward(*wide(x, weight))
    (y,) = evaluate_op("conv", [x, weight], [(c.y, BF16)], attributes(c, False))
    np.testing.assert_array_equal(y, rounded(expected, BF16))
    assert_close(y, expected, 1e-2)
