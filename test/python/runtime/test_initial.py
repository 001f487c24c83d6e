"""Initial weights drawn from rules, compared with data of test/data/make_initial_values.py."""

import json
import math

import numpy as np
import pytest
from binade import initial
from binade.errors import RejectedError
from support.paths import ROOT

MASK = 0xFFFFFFFF
DATA = ROOT / "test/data/initial-values.json"
CASES = json.loads(DATA.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [  # The test vectors of Random123, the authors' library.
        ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([MASK] * 4, [MASK] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
        ),
    ],
)
def test_the_generator_matches_the_test_vectors(counter, key, expected):
    found = initial.philox(np.array([counter], np.uint32), tuple(key))
    assert found.tolist() == [expected]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_elements_match_the_definition(case):
    near = {int(i): x for i, x in case["elements"].items() if int(i) < 100}
    arguments = case["rule"], case["name"], (len(near),)
    values = initial.draw(*arguments, seed=case["seed"])
    assert values.dtype == np.float32
    # One ulp, because another libm may round a logarithm or a cosine differently.
    np.testing.assert_array_max_ulp(values, np.float32(list(near.values())), 1)


def test_constants():
    for rule, value in (
        ({"rule": "zeros"}, 0),
        ({"rule": "ones"}, 1),
        ({"rule": "constant", "value": 0.1}, np.float32(0.1)),
    ):
        assert (initial.draw(rule, "w", (2, 3), seed=0) == value).all()


def test_a_value_depends_only_on_seed_name_and_index():
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
        ({"rule": "normal", "std": -1.0}, "needs 0 <= std"),
        ({"rule": "uniform", "low": 1.0, "high": 0.5}, "and low <= high"),
    ],
)
def test_an_invalid_rule_is_rejected(rule, message):
    with pytest.raises(RejectedError, match=message):
        initial.draw(rule, "w", (1,), seed=0)
