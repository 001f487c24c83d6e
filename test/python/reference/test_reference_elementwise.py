"""Compares elementwise ops in the reference with NumPy in f64, rounded once."""

import math

import numpy as np
import pytest
from support.reference import (
    BF16,
    F16,
    assert_close,
    differentiate,
    evaluate_op,
    fail_op,
    random,
    rounded,
    wide,
)

erf = np.vectorize(math.erf)


def gelu(x):
    return 0.5 * x * np.vectorize(math.erfc)(-x / math.sqrt(2))


def gelu_tanh(x):
    # (1 + tanh a) / 2 = 1 / (1 + exp(-2 a)), without cancellation.
    return x / (1 + np.exp(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


TANH = "approximate = #binade.approximation<tanh>"
ANY, POSITIVE = 1, 2
UNARY = {
    "neg": (np.negative, ANY),
    "abs": (np.abs, ANY),
    "sign": (np.sign, ANY),
    "exp": (np.exp, ANY),
    "expm1": (np.expm1, ANY),
    "log": (np.log, POSITIVE),
    "log1p": (np.log1p, POSITIVE),
    "sin": (np.sin, ANY),
    "cos": (np.cos, ANY),
    "atan": (np.arctan, ANY),
    "floor": (np.floor, ANY),
    "ceil": (np.ceil, ANY),
    "round": (np.rint, ANY),
    "softplus": (lambda x: np.logaddexp(0, x), ANY),
    "sqrt": (np.sqrt, POSITIVE),
    "reciprocal": (lambda x: 1 / x, ANY),
    "tanh": (np.tanh, ANY),
    "erf": (erf, ANY),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), ANY),
    "relu": (lambda x: np.maximum(x, 0), ANY),
    "gelu": (gelu, ANY),
    "silu": (lambda x: x / (1 + np.exp(-x)), ANY),
}
BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "max": np.maximum,
    "min": np.minimum,
}
FLOATS = [np.float64, np.float32, F16, BF16]


def assert_rounded(actual, expected, dtype):
    """Expects the f64 value rounded once; f64 results may differ by the math library."""
    if dtype == np.float64:
        np.testing.assert_allclose(actual, expected, rtol=1e-13)
    else:
        np.testing.assert_array_equal(actual, rounded(expected, dtype))


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("op", UNARY)
def test_unary(op, dtype):
    function, domain = UNARY[op]
    x = random((6, 50), dtype, seed=1, scale=3)
    if domain == POSITIVE:
        x = np.abs(x)
    (y,) = evaluate_op(op, [x], [(x.shape, dtype)])
    assert_rounded(y, function(*wide(x)), dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("op", BINARY)
def test_binary(op, dtype):
    x, y = random(300, dtype, seed=2), random(300, dtype, seed=3)
    (z,) = evaluate_op(op, [x, y], [(x.shape, dtype)])
    assert_rounded(z, BINARY[op](*wide(x, y)), dtype)


def test_pow():
    x, y = np.abs(random(200, seed=4)), random(200, seed=5, scale=2)
    (z,) = evaluate_op("pow", [x, y], [(x.shape, np.float32)])
    assert_rounded(z, np.power(*wide(x, y)), np.float32)
    square = random(50, seed=6)
    (z,) = evaluate_op(
        "pow", [square, np.full(50, 2, np.float32)], [((50,), np.float32)]
    )
    assert_rounded(z, wide(square)[0] ** 2, np.float32)


def test_gelu_by_tanh():
    x = random(300, seed=7, scale=2)
    (y,) = evaluate_op("gelu", [x], [(x.shape, np.float32)], TANH)
    assert_rounded(y, gelu_tanh(*wide(x)), np.float32)


@pytest.mark.parametrize("attributes, function", [("", gelu), (TANH, gelu_tanh)])
def test_gelu_grad(attributes, function):
    dy, x = random(300, seed=8), random(300, seed=9, scale=2)
    (dx,) = evaluate_op("gelu_grad", [dy, x], [(x.shape, np.float32)], attributes)
    assert_close(dx, differentiate(lambda x: [function(x)], [x], 0, [dy]), 1e-7)


def test_silu_grad():
    dy, x = random(300, seed=10), random(300, seed=11, scale=4)
    (dx,) = evaluate_op("silu_grad", [dy, x], [(x.shape, np.float32)])

    def silu(x):
        return [x / (1 + np.exp(-x))]

    assert_close(dx, differentiate(silu, [x], 0, [dy]), 1e-7)


def test_relu_grad_follows_the_result():
    dy = np.arange(1, 6, dtype=np.float32)
    y = np.array([0, 2, 0, 1e-30, np.nan], np.float32)
    (dx,) = evaluate_op("relu_grad", [dy, y], [(y.shape, np.float32)])
    np.testing.assert_array_equal(dx, [0, 2, 0, 4, 5])


def test_quotients_of_integers():
    """Rounds toward zero as in C. Cases that C leaves undefined are defined."""
    least = np.iinfo(np.int64).min
    x = np.array([7, -7, 7, -7, 5, -5, 0, least, least])
    y = np.array([2, 2, -2, -2, 0, 0, 0, -1, 1])
    (z,) = evaluate_op("div", [x, y], [(x.shape, np.int64)])
    np.testing.assert_array_equal(z, [3, -3, -3, 3, 0, 0, 0, least, least])


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.int64])
def test_xor(dtype):
    x, y = np.array([0, 0, 1, 1], dtype), np.array([0, 1, 0, 1], dtype)
    (z,) = evaluate_op("xor", [x, y], [(x.shape, dtype)])
    np.testing.assert_array_equal(z, x ^ y)


def test_round_breaks_ties_to_even():
    x = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, np.inf, np.nan], np.float32)
    (y,) = evaluate_op("round", [x], [(x.shape, np.float32)])
    np.testing.assert_array_equal(y, [-2, -2, 0, 0, 2, 2, np.inf, np.nan])


def test_softplus_is_exact_in_both_tails():
    x = np.array([-100, -30, 30, 100, -np.inf, np.inf, np.nan], np.float32)
    (y,) = evaluate_op("softplus", [x], [(x.shape, np.float32)])
    np.testing.assert_array_equal(y, np.logaddexp(0, *wide(x)).astype(np.float32))


def test_special_values():
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], np.float32)
    shape = [(special.shape, np.float32)]
    np.testing.assert_array_equal(evaluate_op("relu", [special], shape)[0],
                                  [np.nan, np.inf, 0, 0, 0])  # fmt: skip
    np.testing.assert_array_equal(evaluate_op("sign", [special], shape)[0],
                                  [np.nan, 1, -1, 0, 0])  # fmt: skip
    ones = np.ones_like(special)
    np.testing.assert_array_equal(evaluate_op("max", [special, ones], shape)[0],
                                  [np.nan, np.inf, 1, 1, 1])  # fmt: skip
    np.testing.assert_array_equal(evaluate_op("min", [ones, special], shape)[0],
                                  [np.nan, 1, -np.inf, 0, 0])  # fmt: skip
    (zero,) = evaluate_op("max", [special[3:], special[:2:-1]], [((2,), np.float32)])
    assert not np.signbit(zero).any()


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.int8])
def test_integers_wrap_around(dtype):
    limit = np.iinfo(dtype)
    x = np.array([limit.max, limit.min, 7, -3], dtype)
    y = np.array([1, -1, 3, 5], dtype)
    with np.errstate(over="ignore"):
        expected = {"add": x + y, "sub": x - y, "mul": x * y, "max": np.maximum(x, y),
                    "min": np.minimum(x, y), "and": x & y, "or": x | y}  # fmt: skip
    for op, result in expected.items():
        (z,) = evaluate_op(op, [x, y], [(x.shape, dtype)])
        np.testing.assert_array_equal(z, result, err_msg=op)


def test_ops_without_a_value_are_rejected():
    integers, floats = np.ones(2, np.int64), np.ones(2, np.float32)
    assert "must be statically shaped tensor of floating-point" in fail_op(
        "exp", [integers], [((2,), np.int64)]
    )
    assert "must be statically shaped tensor of integer values" in fail_op(
        "and", [floats, floats], [((2,), np.float32)]
    )


@pytest.mark.parametrize("comparison, function", [
    ("equal", np.equal), ("less", np.less), ("less_equal", np.less_equal),
    ("greater", np.greater), ("greater_equal", np.greater_equal),
])  # fmt: skip
def test_compare(comparison, function):
    x = np.array([1, 2, 3, np.nan, -0.0], np.float32)
    y = np.array([2, 2, 1, np.nan, 0.0], np.float32)
    attribute = f"comparison = #binade.comparison<{comparison}>"
    (z,) = evaluate_op("compare", [x, y], [(x.shape, np.bool_)], attribute)
    np.testing.assert_array_equal(z, function(x, y))
    i, j = np.array([-5, 3], np.int64), np.array([4, 3], np.int64)
    (z,) = evaluate_op("compare", [i, j], [(i.shape, np.bool_)], attribute)
    np.testing.assert_array_equal(z, function(i, j))


def test_not_and_select():
    condition = np.array([True, False, True])
    (inverse,) = evaluate_op("not", [condition], [((3,), np.bool_)])
    np.testing.assert_array_equal(inverse, ~condition)
    for dtype in (BF16, np.int64):
        x, y = np.array([1, 2, 3], dtype), np.array([4, 5, 6], dtype)
        (z,) = evaluate_op("select", [condition, x, y], [((3,), dtype)])
        np.testing.assert_array_equal(z, np.where(condition, x, y))
