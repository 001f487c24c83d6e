"""Compares attention in the reference with NumPy, and gradients with differences."""

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
SCALE = 0.37


def attention(query, key, value, causal, compute=None):
    """The result and the logarithm of the sum of exponentials of each query."""
    scores = SCALE * query @ np.swapaxes(key, -1, -2)
    if causal:
        hidden = np.triu(np.ones(scores.shape[-2:], bool), 1)
        scores = np.where(hidden, -np.inf, scores)
    top = scores.max(-1, keepdims=True)
    lse = top + np.log(np.exp(scores - top).sum(-1, keepdims=True))
    p = np.exp(scores - lse)
    if compute:
        p = rounded(p, compute).astype(np.float64)
    return p @ value, lse[..., 0]


def operands(leading, dtype, causal):
    n, k = (6, 6) if causal else (5, 7)
    shapes = [(*leading, n, 4), (*leading, k, 4), (*leading, k, 3)]
    return [random(shape, dtype, seed=i + 1) for i, shape in enumerate(shapes)]


def attributes(causal):
    return f"scale = {SCALE} : f64" + ", causal" * causal


@pytest.mark.parametrize("dtype", [F32, BF16])
@pytest.mark.parametrize("leading", [(), (2, 3)])
@pytest.mark.parametrize("causal", [False, True])
def test_attention(leading, causal, dtype):
    query, key, value = operands(leading, dtype, causal)
    shape = (*query.shape[:-1], 3)
    y, lse = evaluate_op("attention", [query, key, value],
                         [(shape, dtype), (shape[:-1], F32)],
                         attributes(causal))  # fmt: skip
    compute = BF16 if dtype == BF16 else None
    expected = attention(*wide(query, key, value), causal, compute)
    np.testing.assert_array_equal(y, rounded(expected[0], dtype))
    np.testing.assert_array_equal(lse, rounded(expected[1], F32))


@pytest.mark.parametrize("leading", [(), (2,)])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_grad(leading, causal):
    query, key, value = operands(leading, np.float64, causal)
    y, lse = attention(query, key, value, causal)
    dy = random(y.shape, np.float64, seed=9)
    gradients = evaluate_op(
        "attention_grad", [dy, query, key, value, y, rounded(lse, F32)],
        [(x.shape, np.float64) for x in (query, key, value)], attributes(causal),
    )  # fmt: skip

    def forward(*arguments):
        return [attention(*arguments, causal)[0]]

    for index, gradient in enumerate(gradients):
        expected = differentiate(forward, [query, key, value], index, [dy])
        # `lse` is rounded to f32, which changes the probabilities by about 1e-7.
        assert_close(gradient, expected, 1e-6)


def share(operands, heads):
    """The key and value of the first of `heads` heads, and copies of it for all of them."""
    query, key, value = operands
    shared = [x[..., :1, :, :] for x in (key, value)]
    copies = [np.repeat(x, heads, -3) for x in shared]
    return (query, *shared), (query, *copies)


@pytest.mark.parametrize("leading", [(3,), (2, 3)])
@pytest.mark.parametrize("causal", [False, True])
def test_heads_share_keys_and_add_their_gradients(leading, causal):
    shared, copies = share(operands(leading, np.float64, causal), leading[-1])
    shape = (*shared[0].shape[:-1], 3)
    results = [(shape, np.float64), (shape[:-1], F32)]
    y, lse = evaluate_op("attention", shared, results, attributes(causal))
    expected = attention(*copies, causal)
    assert_close(y, expected[0], 1e-12)
    np.testing.assert_array_equal(lse, rounded(expected[1], F32))
    dy = random(shape, np.float64, seed=9)
    gradients, parts = (
        evaluate_op(
            "attention_grad", [dy, *given, y, lse],
            [(x.shape, np.float64) for x in given], attributes(causal),
        )
        for given in (shared, copies)
    )  # fmt: skip
    assert_close(gradients[0], parts[0], 1e-12)
    for gradient, part in zip(gradients[1:], parts[1:]):
        assert_close(gradient, part.sum(-3, keepdims=True), 1e-12)
