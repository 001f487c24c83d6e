"""The error bounds of the reference accept correct implementations and reject wrong ones.

The implementations are written in NumPy: computing in f32 is correct; computing in bf16
instead of f32, or leaving out a term, is wrong.
"""

import pathlib
import tempfile

import numpy as np
import pytest
from support.reference import BF16, op_module, random, rounded, run, safetensors, wide

F32 = np.float32


def sum_in(dtype, terms):
    """Row sums with every partial sum rounded."""
    total = np.zeros(terms.shape[:-1], dtype)
    for column in range(terms.shape[-1]):
        total = (total + terms[..., column].astype(dtype)).astype(dtype)
    return total


def matmul_in(dtype, lhs, rhs):
    terms = lhs[:, None, :].astype(dtype) * rhs.T[None, :, :].astype(dtype)
    return sum_in(dtype, terms).astype(F32)


def check(op, operands, results, candidate, attributes=""):
    """Whether binade-interpret accepts `candidate` for the op's results."""
    operands = [np.asarray(operand) for operand in operands]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "candidate.safetensors"
        safetensors.save(path, {f"result{i}": c for i, c in enumerate(candidate)})
        process, _ = run(
            op_module(op, operands, results, attributes),
            {f"arg{i}": array for i, array in enumerate(operands)},
            "--results", str(path), "--check",
        )  # fmt: skip
    assert process.returncode in (0, 1), process.stderr
    return process.returncode == 0


@pytest.mark.parametrize("size", [4, 64, 700])
def test_matmul(size):
    lhs, rhs = random((8, size), seed=1), random((size, 6), seed=2)
    results = [((8, 6), F32)]
    assert check("matmul", [lhs, rhs], results, [lhs @ rhs])
    assert check("matmul", [lhs, rhs], results, [matmul_in(F32, lhs, rhs)])
    assert not check("matmul", [lhs, rhs], results, [matmul_in(BF16, lhs, rhs)])
    wrong = matmul_in(F32, lhs, rhs)
    wrong[3, 4] -= lhs[3, 0] * rhs[0, 4]
    assert not check("matmul", [lhs, rhs], results, [wrong])


def test_matmul_may_accumulate_in_the_decided_format():
    lhs, rhs = random((8, 64), BF16, seed=3), random((64, 6), BF16, seed=4)
    narrow = [matmul_in(BF16, lhs, rhs).astype(BF16)]
    results = [((8, 6), BF16)]
    decision = (
        "precision = #binade.precision<compute = bf16, accumulate = {}, result = bf16>"
    )
    assert not check("matmul", [lhs, rhs], results, narrow, decision.format("f32"))
    assert check("matmul", [lhs, rhs], results, narrow, decision.format("bf16"))


def test_reduce_sum():
    x, axes = random((5, 900), seed=5), "axes = array<i64: 1>"
    results = [((5,), F32)]
    assert check("reduce_sum", [x], results, [sum_in(F32, x)], axes)
    assert check("reduce_sum", [x], results, [sum_in(F32, x[:, ::-1])], axes)
    assert not check("reduce_sum", [x], results, [sum_in(BF16, x).astype(F32)], axes)


def test_operations_with_one_rounding_have_one_result():
    x, y = random(100, seed=6), random(100, seed=7)
    assert check("mul", [x, y], [((100,), F32)], [x * y])
    assert not check("mul", [x, y], [((100,), F32)], [np.nextafter(x * y, F32(9))])
    a, b = random(100, BF16, seed=8), random(100, BF16, seed=9)
    expected = rounded(np.multiply(*wide(a, b)), BF16)
    assert check("mul", [a, b], [((100,), BF16)], [expected])


def test_approximated_functions_may_differ_by_a_few_ulps():
    x = random(100, seed=10)
    y = np.exp(x)
    assert check("exp", [x], [((100,), F32)], [np.nextafter(y, F32(0))])
    assert not check("exp", [x], [((100,), F32)], [y * F32(1 + 20 * 2**-23)])


def test_softmax():
    x, results = random((4, 300), seed=11, scale=8), [((4, 300), F32)]

    def softmax(x, shifted=True):
        e = np.exp(x - x.max(-1, keepdims=True) * shifted)
        return e / sum_in(e.dtype, e)[:, None]

    assert check("softmax", [x], results, [softmax(x)])
    assert check("softmax", [x], results, [softmax(x, shifted=False)])
    assert not check("softmax", [x], results, [softmax(x.astype(BF16)).astype(F32)])


def test_layer_norm_by_the_difference_of_squares_is_rejected():
    x = random((4, 64), seed=12) + F32(300)
    scale, bias = np.ones(64, F32), np.zeros(64, F32)
    results = [((4, 64), F32), ((4,), F32), ((4,), F32)]

    def layer_norm(variance):
        mean = x.mean(-1, dtype=F32)
        rstd = 1 / np.sqrt(variance(mean) + F32(1e-5))
        return [(x - mean[:, None]) * rstd[:, None], mean, rstd]

    def run_check(candidate):
        return check("layer_norm", [x, scale, bias], results, candidate,
                     "epsilon = 1.0e-5 : f64")  # fmt: skip

    centred = layer_norm(lambda mean: ((x - mean[:, None]) ** 2).mean(-1, dtype=F32))
    assert run_check(centred)
    squares = layer_norm(lambda mean: (x**2).mean(-1, dtype=F32) - mean**2)
    assert not run_check(squares)
