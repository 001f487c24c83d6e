"""Compares the counter-based random generator and dropout with their definitions."""

import numpy as np
import pytest
from support.reference import BF16, evaluate_op, random, rounded, wide

F32 = np.float32


def philox(counter, key):
    """Philox4x32-10 as the paper defines it, in Python integers."""
    c, k = list(counter), list(key)
    for _ in range(10):
        first, second = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(second >> 32) ^ c[1] ^ k[0], second & 0xFFFFFFFF,
             (first >> 32) ^ c[3] ^ k[1], first & 0xFFFFFFFF]  # fmt: skip
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def uniform(index, seed, step, stream, word=0):
    low, high = (lambda x: x & 0xFFFFFFFF), (lambda x: x >> 32 & 0xFFFFFFFF)
    words = philox(
        [low(index), high(index), low(stream), low(step)], [low(seed), high(seed)]
    )
    return (words[word] >> 8) * 2.0**-24


def test_philox_returns_the_published_answers():
    # Known answers of the authors' Random123.
    assert philox([0] * 4, [0] * 2)[0] == 0x6627E8D5
    assert philox([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2)[0] == 0x408F276D
    counter = [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344]
    assert philox(counter, [0xA4093822, 0x299F31D0])[0] == 0xD16CFE09


def test_random_uniform():
    index = np.array([0, 1, 2**32 - 1, 2**40 + 5])
    seed = np.array([0, 2**63 - 1, -1, 12345678901])
    step = np.array([0, 1, 2**31, 7])
    (y,) = evaluate_op("random_uniform", [index, seed, step], [((4,), F32)],
                       "stream = 3 : i64")  # fmt: skip
    expected = [
        uniform(int(i), int(s), int(t), 3) for i, s, t in zip(index, seed, step)
    ]
    np.testing.assert_array_equal(y, np.array(expected, F32))
    assert ((0 <= y) & (y < 1)).all()


def test_four_elements_per_counter():
    index = np.array([0, 1, 2, 3, 4, 2**32 - 1, 2**40 + 6])
    seed, step = np.full(7, 12345678901), np.full(7, 2**31 + 5)
    (y,) = evaluate_op("random_uniform", [index, seed, step], [((7,), F32)],
                       "per_counter = 4 : i64, stream = 3 : i64")  # fmt: skip
    expected = [uniform(int(i) // 4, int(seed[0]), int(step[0]), 3, int(i) % 4)
                for i in index]  # fmt: skip
    np.testing.assert_array_equal(y, np.array(expected, F32))


@pytest.mark.parametrize("op", ["dropout", "dropout_grad"])
@pytest.mark.parametrize("dtype", [F32, BF16])
def test_dropout(op, dtype):
    x, rng = random((20, 10), dtype, seed=1), np.array([77, 4])
    (y,) = evaluate_op(op, [x, rng], [(x.shape, dtype)],
                       "ratio = 0.3 : f64, stream = 5 : i64")  # fmt: skip
    draws = np.array([uniform(i, 77, 4, 5) for i in range(x.size)]).reshape(x.shape)
    expected = np.where(draws >= 0.3, wide(x)[0] / (1 - 0.3), 0)
    np.testing.assert_array_equal(y, rounded(expected, dtype))
    assert 0.2 < np.mean(y == 0) < 0.4


@pytest.mark.parametrize("ratio, kept", [("0.0", True), ("1.0", False)])
def test_dropout_with_ratio_0_or_1(ratio, kept):
    x, rng = random(50, seed=2), np.array([1, 1])
    (y,) = evaluate_op("dropout", [x, rng], [(x.shape, F32)],
                       f"ratio = {ratio} : f64, stream = 0 : i64")  # fmt: skip
    np.testing.assert_array_equal(y, x if kept else np.zeros_like(x))
