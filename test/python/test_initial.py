"""Initial weights drawn from rules, against a plain reading of docs/Import.md."""

import hashlib
import math

import numpy as np
import pytest
from binade import initial
from binade.command import RejectedError

MASK = 0xFFFFFFFF


def philox(counter, key):
    """Philox4x32-10 in Python integers."""
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & MASK, (a >> 32) ^ c[3] ^ k[1], a & MASK]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return c


def words(name, element, seed):
    stream = hashlib.sha256(name.encode()).digest()
    halves = [int.from_bytes(stream[i : i + 4], "little") for i in (0, 4)]
    block = element // 4
    return philox([block & MASK, block >> 32, *halves], [seed & MASK, seed >> 32])


def unit_normal(name, element, seed):
    pair = words(name, element, seed)[element % 4 // 2 * 2 :][:2]
    radius = math.sqrt(-2 * math.log((pair[0] + 1) / 2**32))
    angle = 2 * math.pi * pair[1] / 2**32
    return radius * (math.sin(angle) if element % 2 else math.cos(angle))


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [  # The known answers that come with the authors' Random123.
        ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([MASK] * 4, [MASK] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
        ),
    ],
)
def test_the_generator_gives_the_known_answers(counter, key, expected):
    found = initial.philox(np.array([counter], np.uint32), tuple(key))
    assert found.tolist() == [expected]


@pytest.mark.parametrize("seed", [0, 7, (5 << 32) + 3])
def test_normal_elements_are_those_of_the_definition(seed):
    rule = {"rule": "normal", "mean": 1.5, "std": 0.02}
    values = initial.draw(rule, "blocks.0.w", (3, 7), seed=seed).reshape(-1)
    expected = [1.5 + 0.02 * unit_normal("blocks.0.w", i, seed) for i in range(21)]
    # One ulp: another libm may round a logarithm or a cosine otherwise.
    np.testing.assert_array_max_ulp(values, np.float32(expected), 1)


def test_uniform_elements_are_those_of_the_definition():
    rule = {"rule": "uniform", "low": -0.25, "high": 0.5}
    values = initial.draw(rule, "w", (10,), seed=3)
    expected = [
        -0.25 + 0.75 * ((words("w", i, 3)[i % 4] >> 8) / 2**24) for i in range(10)
    ]
    np.testing.assert_array_equal(values, np.float32(expected))


def test_constants():
    for rule, value in (
        ({"rule": "zeros"}, 0),
        ({"rule": "ones"}, 1),
        ({"rule": "constant", "value": 0.1}, np.float32(0.1)),
    ):
        assert (initial.draw(rule, "w", (2, 3), seed=0) == value).all()


def test_a_value_depends_on_seed_name_and_index_alone():
    rule = {"rule": "normal", "std": 1.0}
    values = initial.draw(rule, "w", (100,), seed=1)
    np.testing.assert_array_equal(
        initial.draw(rule, "w", (6, 5), seed=1).reshape(-1), values[:30]
    )
    assert (initial.draw(rule, "v", (100,), seed=1) != values).all()
    assert (initial.draw(rule, "w", (100,), seed=2) != values).all()


def test_draws_have_the_moments_of_their_distribution():
    normal = initial.draw({"rule": "normal", "std": 2.0}, "w", (100_000,), seed=0)
    uniform = initial.draw(
        {"rule": "uniform", "low": 1.0, "high": 3.0}, "w", (100_000,), seed=0
    )
    # Five standard errors of the mean and of the variance.
    assert abs(normal.mean(dtype=np.float64)) < 5 * 2 / 316
    assert abs(normal.var(dtype=np.float64) - 4) < 5 * 4 * math.sqrt(2) / 316
    assert abs(uniform.mean(dtype=np.float64) - 2) < 5 * math.sqrt(1 / 3) / 316
    assert uniform.min() >= 1 and uniform.max() < 3


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"rule": "orthogonal"}, "known are normal"),
        ("normal", "known are normal"),
        ({"rule": "normal"}, "needs a finite number 'std'"),
        ({"rule": "normal", "std": "big"}, "needs a finite number 'std'"),
        ({"rule": "uniform", "low": 0, "high": math.inf}, "finite number 'high'"),
        ({"rule": "zeros", "std": 1.0}, "has no field 'std'"),
    ],
)
def test_a_wrong_rule_is_rejected(rule, message):
    with pytest.raises(RejectedError, match=message):
        initial.draw(rule, "w", (1,), seed=0)
