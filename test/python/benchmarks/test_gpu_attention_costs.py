"""benchmarks/gpu: predicted times of cuDNN's attention agree with what an H100 measured."""

import dataclasses
import sys

import pytest
from support.paths import ROOT

sys.path.insert(0, str(ROOT / "benchmarks" / "gpu"))

from attention_costs import (
    Attention,
    find_attention,
    fit_law,
    predict_attention,
    read_measured,
)
from chips import Chip

RATES = ROOT / "benchmarks/gpu/results/rates/nvidia-h100-80gb-hbm3-2026-11-27.json"
CHIP = Chip.load("sm_90")
MEASURED = read_measured(RATES.read_text())
ERROR = 0.15


def list_measured(gradients):
    return [one for one in MEASURED if one[0].gradients == gradients]


@pytest.mark.parametrize("gradients", [False, True])
def test_each_measured_shape_is_predicted(gradients):
    measured = list_measured(gradients)
    assert len(measured) > 20
    for shape, seconds in measured:
        predicted = predict_attention(shape, CHIP.law_of(shape))
        assert predicted == pytest.approx(seconds, rel=ERROR), shape


@pytest.mark.parametrize("gradients", [False, True])
def test_shapes_are_predicted_by_the_others(gradients):
    """Heads of 64 columns and 2048 keys are those with the largest error: 18 %."""
    measured = list_measured(gradients)
    errors = []
    for shape, seconds in measured:
        law = fit_law([one for one in measured if one[0] != shape])
        errors.append(abs(predict_attention(shape, law) / seconds - 1))
    assert max(errors) < 0.18
    assert sum(errors) / len(errors) < 0.08


@pytest.mark.parametrize("gradients", [False, True])
def test_constants_are_fitted_to_the_measurements(gradients):
    measured = list_measured(gradients)
    law = CHIP.law_of(measured[0][0])
    found = dataclasses.replace(fit_law(measured), part=law.part)
    assert dataclasses.astuple(law) == pytest.approx(
        dataclasses.astuple(found), rel=1e-3
    )


def test_each_further_part_takes_the_same_time():
    shape = Attention(heads=384, queries=1024, keys=1024, columns=64, gradients=True)
    law = CHIP.law_of(shape)
    one = predict_attention(shape, law)
    three = predict_attention(dataclasses.replace(shape, parts=3), law)
    assert law.part > 0 and three == pytest.approx(one + 2 * law.part)


def test_less_workspace_than_all_heads_need_makes_parts():
    """GPT-2: of each head 1024 x 64 gradients of queries in f32 for each 128 keys, and 1024
    numbers more."""
    record = {"kind": "attention", "batch": [32, 12], "queries": 1024, "keys": 1024,
              "depth": 64, "width": 64, "causal": True, "gradients": {}}  # fmt: skip
    needed = 32 * 12 * 4 * (1024 // 128 * 1024 * 64 + 1024)
    assert find_attention(record).parts == 1
    for workspace, parts in [
        (needed, 1),
        (needed - 1, 2),
        (needed / 2, 2),
        (needed / 3, 3),
    ]:
        assert find_attention(record, workspace).parts == parts


def test_hidden_tiles_are_not_counted():
    """Of 4 x 4 tiles 10 are not hidden."""
    whole = Attention(heads=3, queries=512, keys=512, columns=64)
    assert whole.scores == 3 * 512 * 512
    causal = dataclasses.replace(whole, causal=True)
    assert causal.scores == pytest.approx(whole.scores * 10 / 16)


def test_the_attention_of_a_record():
    record = {"kind": "attention", "batch": [8, 4, 8], "queries": 2048, "keys": 2048,
              "depth": 64, "width": 80, "causal": True, "grouped": True}  # fmt: skip
    expected = Attention(256, 2048, 2048, 80, causal=True)
    assert find_attention(record) == expected
    record["gradients"] = {}
    assert find_attention(record) == dataclasses.replace(expected, gradients=True)
