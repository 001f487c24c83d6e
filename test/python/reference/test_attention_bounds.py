"""The bounds of attention admit what fused kernels of libraries compute, and no wrong attention."""

import numpy as np
import pytest
from support.reference import BF16, evaluate_op, random

F32, F16 = np.float32, np.float16
BLOCK = 32


def inexact(values, draw):
    """Moves each value by up to two units in the last place, as fast exponentials do."""
    ulps = draw.integers(-2, 3, values.shape)
    return (values + ulps * np.spacing(values)).astype(F32)


def attend_in_one_pass(query, key, value, scale, causal, dtype):
    """Softmax relative to the largest score so far. Exponentials are rounded to `dtype` before
    they multiply the values, and the sum is divided at the end.
    """
    draw = np.random.default_rng(3)
    scores = (query.astype(F32) @ key.astype(F32).T) * F32(scale)
    if causal:
        scores[~np.tri(*scores.shape, dtype=bool)] = -np.inf
    top = np.full((len(query), 1), -np.inf, F32)
    total, y = np.zeros_like(top), np.zeros((len(query), value.shape[1]), F32)
    with np.errstate(under="ignore"):
        for begin in range(0, len(key), BLOCK):
            block = scores[:, begin : begin + BLOCK]
            new = np.maximum(top, block.max(1, keepdims=True))
            exponentials = inexact(np.exp(block - new), draw)
            factor = inexact(np.exp(top - new), draw)
            total = total * factor + exponentials.sum(1, keepdims=True, dtype=F32)
            narrow = exponentials.astype(dtype).astype(F32)
            y = y * factor + narrow @ value[begin : begin + BLOCK].astype(F32)
            top = new
        return (y / total).astype(dtype), (top + inexact(np.log(total), draw))[:, 0]


def fma(x, y, z):
    """Rounds once: a product of values in f32 is exact in f64."""
    return (x.astype(np.float64) * np.float64(y) + z).astype(F32)


def attend_by_powers_of_two(query, key, value, scale, causal, dtype):
    """The same by powers of two, relative to a value that the largest score so far exceeds by a
    factor of up to 2^8. The factor of the scores contains log2(e).
    """
    draw = np.random.default_rng(5)
    products = query.astype(F32) @ key.astype(F32).T
    if causal:
        products[~np.tri(*products.shape, dtype=bool)] = -np.inf
    factor = F32(scale * np.log2(np.e))
    top = np.full((len(query), 1), np.finfo(F32).min, F32)
    total, y = np.zeros_like(top), np.zeros((len(query), value.shape[1]), F32)
    with np.errstate(under="ignore"):
        for begin in range(0, len(key), BLOCK):
            block = products[:, begin : begin + BLOCK]
            highest = block.max(1, keepdims=True) * factor
            new = np.where(highest > top + F32(8), highest, top)
            powers = inexact(np.exp2(fma(block, factor, -new)), draw)
            change = inexact(np.exp2(top - new), draw)
            total = total * change + powers.sum(1, keepdims=True, dtype=F32)
            narrow = powers.astype(dtype).astype(F32)
            y = y * change + narrow @ value[begin : begin + BLOCK].astype(F32)
            top = new
        lse = (top.astype(np.float64) * np.log(2)).astype(F32) + np.log(total)
        return (y * (1 / total)).astype(dtype), lse[:, 0]


def differentiate(dy, query, key, value, y, lse, scale, causal, dtype, by_powers=False):
    """Gradients whose scores are rounded before they are multiplied by the scale, or whose
    probabilities are powers of two.
    """
    draw = np.random.default_rng(4)
    dy, query, key, value, y = (
        x.astype(F32) for x in (dy, query, key, value, y)
    )  # fmt: skip
    products = query @ key.T
    if causal:
        products[~np.tri(*products.shape, dtype=bool)] = -np.inf
    inner = (dy * y).sum(1, keepdims=True, dtype=F32)
    with np.errstate(under="ignore"):
        if by_powers:
            exponent = (lse[:, None] * -np.log2(np.e)).astype(F32)
            factor = F32(scale * np.log2(np.e))
            p = inexact(np.exp2(fma(products, factor, exponent)), draw)
            ds, last = p * fma(dy @ value.T, F32(scale), -F32(scale) * inner), F32(1)
        else:
            p = inexact(np.exp(products * F32(scale) - lse[:, None]), draw)
            ds, last = p * (dy @ value.T - inner), F32(scale)
        p, ds = (x.astype(dtype).astype(F32) for x in (p, ds))
    results = last * (ds @ key), last * (ds.T @ query), p.T @ dy
    return [x.astype(dtype) for x in results]


def evaluate(op, operands, results, scale, causal):
    attributes = f"scale = {scale} : f64" + ", causal" * causal
    return evaluate_op(op, operands, results, attributes, bounds=True)


def is_within(found, expected, bound):
    difference = abs(found.astype(np.float64) - expected.astype(np.float64))
    return (difference <= bound.astype(np.float64)).all()


@pytest.mark.parametrize("dtype", [BF16, F16])
@pytest.mark.parametrize("scale", [0.125, 1.5])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("attend", [attend_in_one_pass, attend_by_powers_of_two])
def test_a_pass_over_the_keys_is_within_the_bounds(attend, causal, scale, dtype):
    rows, columns = 3 * BLOCK + 7, 16
    query, key, value, dy = (
        random((rows, columns), dtype, seed=i + 1) for i in range(4)
    )
    shape = (rows, columns)
    (y, y_bound), (lse, lse_bound) = evaluate(
        "attention",
        [query, key, value],
        [(shape, dtype), ((rows,), F32)],
        scale,
        causal,
    )
    found = attend(query, key, value, scale, causal, dtype)
    assert is_within(found[0], y, y_bound) and is_within(found[1], lse, lse_bound)
    wrong = attend(query, key, value, scale, not causal, dtype)
    assert not is_within(wrong[0], y, y_bound)
    assert not is_within(wrong[1], lse, lse_bound)

    given = [dy, query, key, value, y, lse]
    expected = evaluate("attention_grad", given, [(shape, dtype)] * 3, scale, causal)
    by_powers = attend == attend_by_powers_of_two
    gradients = differentiate(*given, scale, causal, dtype, by_powers)
    with np.errstate(over="ignore", invalid="ignore"):
        wrong = differentiate(*given, scale, not causal, dtype, by_powers)
    for (result, bound), own, other in zip(expected, gradients, wrong):
        assert is_within(own, result, bound)
        assert not is_within(other, result, bound)


def test_small_probabilities_are_rounded_differently():
    """Three keys take almost all of the weight and have values of 0, so that the result is a sum
    of probabilities that are subnormal in f16, and a third of exponentials that are not.
    """
    rows, columns = 2 * BLOCK, 16
    key = np.zeros((rows, columns), F16)
    key[:, 0] = -10.0 - np.arange(rows) / 64
    key[:3, 0] = 4.0
    value = random((rows, columns), F16, seed=2) * F16(256)
    value[:3] = 0
    query = np.zeros((rows, columns), F16)
    query[:, 0] = 1.0
    shape = (rows, columns)
    (y, y_bound), (lse, lse_bound) = evaluate(
        "attention", [query, key, value], [(shape, F16), ((rows,), F32)], 1.0, False
    )
    found = attend_in_one_pass(query, key, value, 1.0, False, F16)
    assert is_within(found[0], y, y_bound) and is_within(found[1], lse, lse_bound)
