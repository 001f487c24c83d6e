"""Functions whose results are rounded to 16 bits or fewer have shorter polynomials.

Compiled code is compared with the C library's functions in f64, for all finite inputs of the
format. Errors are in units of the last place (ulp) of the result's format, of which rounding
alone takes half.
"""

import math

import numpy as np
import pytest
from support.reference import BF16, F16, PRECISION, evaluate, op_module

NAMES = {BF16: "bf16", F16: "f16"}
ROOT_HALF = math.sqrt(0.5)
FIT = math.sqrt(2 / math.pi)

erf, erfc = np.vectorize(math.erf), np.vectorize(math.erfc)


def sigmoid(x):
    """Without cancellation or overflow."""
    decay = np.exp(-np.abs(x))
    return np.where(x < 0, decay, 1.0) / (1.0 + decay)


def gelu(x):
    return x * 0.5 * erfc(-x * ROOT_HALF)


def gelu_by_tanh(x):
    return x * sigmoid(2 * FIT * (x + 0.044715 * x**3))


FUNCTIONS = {
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "erf": erf,
    "sigmoid": sigmoid,
    "softplus": lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
    "gelu": gelu,
    "gelu_by_tanh": gelu_by_tanh,
    "silu": lambda x: x * sigmoid(x),
}
# What the functions of an op may lose, together with its other arithmetic.
MARGIN = 1 / 32
TANH = "approximate = #binade.approximation<tanh>"


def finite(dtype, positive=False):
    x = np.arange(2**15 if positive else 2**16, dtype=np.uint16).view(dtype)
    with np.errstate(invalid="ignore"):
        return x[np.isfinite(x.astype(np.float64))]


def compute(op, operands, shape, dtype, backend="cpu", attributes=""):
    inputs = {f"arg{i}": operand for i, operand in enumerate(operands)}
    module = op_module(op, operands, [(shape, dtype)], attributes)
    return evaluate(module, inputs, "--backend", backend)["result0"]


def largest_error(got, exact, dtype):
    """The largest error in ulps. Results that overflow are those that exceed the format."""
    name = NAMES[dtype]
    smallest = -126 if name == "bf16" else -14
    largest = float(np.float32(3.3895314e38)) if name == "bf16" else 65504.0
    with np.errstate(all="ignore"):
        exponent = np.frexp(exact)[1] - 1
        ulp = np.ldexp(1.0, np.maximum(exponent, smallest) - PRECISION[name] + 1)
        error = np.abs(got.astype(np.float64) - exact) / ulp
    is_large = np.abs(exact) > largest
    assert np.all(
        np.isinf(got[is_large]) | (np.abs(got[is_large].astype(float)) == largest)
    )
    return np.nanmax(error[~is_large])


@pytest.mark.parametrize("dtype", [BF16, F16], ids=["bf16", "f16"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_lose_little_before_they_are_rounded(name, dtype):
    x = finite(dtype, positive=name == "log")
    if name == "sigmoid":  # Below, 1 + e^-x overflows, whatever the accuracy.
        x = x[x.astype(np.float64) > -87]
    op, attributes = ("gelu", TANH) if name == "gelu_by_tanh" else (name, "")
    got = compute(op, [x], x.shape, dtype, attributes=attributes)
    with np.errstate(all="ignore"):
        exact = FUNCTIONS[name](x.astype(np.float64))
    assert largest_error(got, exact, dtype) <= 0.5 + MARGIN
    assert not np.any(np.isnan(got))


SPECIAL = {  # Of 0, -0, infinity, minus infinity and NaN, as IEEE 754 and C define them.
    "exp": [1.0, 1.0, np.inf, 0.0, np.nan],
    "log": [-np.inf, -np.inf, np.inf, np.nan, np.nan],
    "tanh": [0.0, -0.0, 1.0, -1.0, np.nan],
    "erf": [0.0, -0.0, 1.0, -1.0, np.nan],
    "gelu": [0.0, -0.0, np.inf, np.nan, np.nan],
}


@pytest.mark.parametrize("dtype", [BF16, F16], ids=["bf16", "f16"])
@pytest.mark.parametrize("name", SPECIAL)
def test_special_values(name, dtype):
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan]).astype(dtype)
    got = compute(name, [x], x.shape, dtype).astype(np.float64)
    np.testing.assert_array_equal(got, SPECIAL[name])
    known = ~np.isnan(got)
    np.testing.assert_array_equal(
        np.signbit(got)[known], np.signbit(SPECIAL[name])[known]
    )


@pytest.mark.parametrize("dtype", [BF16, F16], ids=["bf16", "f16"])
@pytest.mark.parametrize("length", [7, 256, 5000])
def test_softmax(length, dtype):
    rng = np.random.default_rng(length)
    x = (rng.standard_normal((64, length)) * 4).astype(dtype)
    got = compute("softmax", [x], x.shape, dtype)
    wide = x.astype(np.float64)
    e = np.exp(wide - wide.max(-1, keepdims=True))
    assert largest_error(got, e / e.sum(-1, keepdims=True), dtype) <= 0.5 + MARGIN


@pytest.mark.parametrize("name", ["exp", "tanh", "erf", "gelu", "silu"])
def test_results_of_f32_are_as_accurate_as_before(name):
    x = finite(BF16)
    x = x[np.abs(x.astype(np.float64)) < 4]
    got = compute(name, [x], x.shape, np.float32).astype(np.float64)
    exact = FUNCTIONS[name](x.astype(np.float64))
    # Terms of gelu that are as large as x cancel.
    magnitude = np.maximum(np.abs(exact), np.abs(x.astype(np.float64)))
    assert np.max(np.abs(got - exact) / np.maximum(magnitude, 1e-37)) <= 4 * 2.0**-24


@pytest.mark.parametrize("dtype", [BF16, F16], ids=["bf16", "f16"])
@pytest.mark.parametrize(
    "name", ["exp", "log", "tanh", "erf", "gelu", "silu", "softmax"]
)
def test_targets_compute_the_same_bits(name, dtype):
    rng = np.random.default_rng(3)
    x = (rng.standard_normal((8, 96)) * 3).astype(dtype)
    x[0, :5] = [0.0, -0.0, np.inf, -np.inf, np.nan]
    results = [
        compute(name, [x], x.shape, dtype, target) for target in ("cpu", "simulator")
    ]
    if name == "softmax":  # The order of sums differs between targets.
        np.testing.assert_allclose(
            *[y[1:].astype(np.float64) for y in results], rtol=2.0**-7
        )
        return
    bits = [np.where(np.isnan(y), 0, y).astype(dtype).view(np.uint16) for y in results]
    np.testing.assert_array_equal(*bits)
    np.testing.assert_array_equal(*[np.isnan(y) for y in results])
