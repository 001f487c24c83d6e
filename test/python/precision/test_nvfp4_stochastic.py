"""NVFP4 with stochastic rounding, as of gradients: bit for bit the published formulas in numpy
(test/data/make_nvfp4.py) with the random numbers of Philox, and errors as published."""

import re
import sys

import numpy as np
import pytest
from support.nvfp4 import SHAPES, quantize_all
from support.paths import ROOT
from support.philox import draw_elements
from support.quantization import backends
from support.reference import binade

sys.path.append(str(ROOT / "test/data"))
import make_nvfp4 as published  # noqa: E402

F32 = np.float32
SEED, STEP = 0x123456789ABCDE, 41
NVFP4 = "f4E2M1FN, per_block<{}, {}>, scale = f8E4M3FN, tensor_scale = f32, rule = {rule}, stochastic"
PEAKS = {"rounded_inverse": 6.0, "rounded_headroom": 6 * 16 / 17}
rules = pytest.mark.parametrize("rule", PEAKS)


def quantize(tensors, rule, backend):
    """The parts of each tensor from one module: codes, scales, tensor's scale."""
    return quantize_all(
        tensors, NVFP4.replace("{rule}", rule), backend, random=(SEED, STEP, 9)
    )


def draw(x):
    return draw_elements(x.size, SEED, STEP, 9).reshape(x.shape)


def check_random_tensors(rule, backend, count):
    random = np.random.default_rng(11)
    tensors = [
        published.draw(random, SHAPES[random.integers(len(SHAPES))])
        for _ in range(count)
    ]
    for x, (codes, scales, tensor) in zip(tensors, quantize(tensors, rule, backend)):
        expected = published.quantize(x, random=draw(x), peak=PEAKS[rule])
        np.testing.assert_array_equal(scales.view(np.uint8), expected[1])
        np.testing.assert_array_equal(tensor, expected[2])
        if not np.isnan(tensor):
            np.testing.assert_array_equal(codes.view(np.uint8), expected[0])


@backends
@rules
def test_random_tensors(rule, backend):
    """Of all magnitudes, with blocks of zeros, subnormals, infinities and NaN."""
    check_random_tensors(rule, backend, 250)


@pytest.mark.parametrize("backend", ["onnx", "onnx-optimized"])
@rules
def test_random_tensors_in_onnx(rule, backend):
    """The code of a negative number that is rounded to 0 has its sign."""
    check_random_tensors(rule, backend, 24)


COUNTS = 4 ** np.arange(6)


def measure(rule, rows=64, counts=COUNTS):
    """Mean squared errors of N(0, 1), times 1000: of the means of so many draws."""
    x = np.random.default_rng(5).standard_normal((rows, 512)).astype(F32)
    copies = np.tile(x, (counts[-1], 1))  # Each element has random numbers of its own.
    ((codes, scales, tensor),) = quantize([copies], rule, "cpu")
    scales = scales.view(np.uint8)
    values = published.dequantize(codes.view(np.uint8), scales, tensor)
    values = values.reshape(-1, *x.shape)
    return np.array(
        [1e3 * np.square(values[:n].mean(0, dtype=float) - x).mean() for n in counts]
    )


def test_the_error_with_headroom_is_as_published():
    """Quartet II (arXiv 2601.22813) reports 23.5; that of the mean of N draws falls as 1 / N."""
    assert measure("rounded_headroom", 512, [1]) == pytest.approx(23.5, rel=0.01)
    errors = measure("rounded_headroom")
    slope, _ = np.polyfit(np.log(COUNTS), np.log(errors), 1)
    assert slope == pytest.approx(-1, abs=0.01)


def test_the_largest_elements_are_biased_without_headroom():
    """An element that is the largest of its block saturates if its scale was rounded down, so
    that the error of a mean falls more slowly: after 64 draws it is 1.33 times as large."""
    assert measure("rounded_inverse", 512, [1]) == pytest.approx(18.9, rel=0.01)
    errors = measure("rounded_inverse")
    assert 64 * errors[3] / errors[0] == pytest.approx(1.33, abs=0.04)
    slope, _ = np.polyfit(np.log(COUNTS), np.log(errors), 1)
    assert slope > -0.95


@backends
def test_no_element_saturates_with_headroom(backend):
    """The largest element of a block, at each position between two values of E4M3, is the
    mean of what it is rounded to: 6 and 4."""
    x = np.zeros((512, 16), F32)
    x[:, 0] = np.linspace(2, 4, 512)
    x[0, 1:] = 4  # The largest magnitude of the tensor.
    ((codes, scales, tensor),) = quantize([x], "rounded_headroom", backend)
    unit = scales.astype(F32)[:, 0] * tensor
    assert (x[:, 0] / unit).max() <= 6
    assert set(np.unique(codes[1:, 0])) == {6, 7}  # The codes of 4 and 6.


POLICY = """
name: mine
extends: nvfp4
rules:
- match: { op: matmul, role: weight }
  quantize:
    fprop: { activation: nvfp4, weight: nvfp4-16x16 }
    dgrad: { gradient: "nvfp4-headroom:stochastic", weight: nvfp4-16x16 }
    wgrad: { activation: nvfp4, gradient: "nvfp4-headroom:stochastic" }
"""


def test_a_policy_rounds_gradients_with_headroom(tmp_path):
    """The products are multiplied in bf16, which represents each element with its scale."""
    policy = tmp_path / "mine.yaml"
    policy.write_text(POLICY)
    model = ROOT / "examples/char-gpt/mini.onnx"
    process = binade("explain", model, "--policy", policy)
    assert process.returncode == 0, process.stderr
    for product in ("dgrad", "wgrad"):
        assert re.search(
            rf"  {product}  bf16, sums f32, operands f4E2M1FN/1/16 in two levels with headroom "
            r"stochastic x f4E2M1FN", process.stdout
        )  # fmt: skip
