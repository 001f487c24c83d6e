"""Formats with range expansion: all backends compute the same bits, and these are close to
the exact formulas. docs/decisions/0058-range-expansion-bits.md."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from support.codec import FLOATS
from support.range_expansion import FORMATS, draw_groups, quantize
from support.reference import evaluate

F32 = np.float32


def as_bits(values):
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8)


@pytest.mark.parametrize("backend", ["cpu", "simulator", "onnx", "onnx-optimized"])
@pytest.mark.parametrize("name", FORMATS)
def test_backends_have_the_bits_of_the_reference(name, backend):
    x = draw_groups(name, 3)
    expected, got = quantize(name, x, "reference"), quantize(name, x, backend)
    for part in expected:
        wrong = as_bits(expected[part]) != as_bits(got[part])
        assert not wrong.any(), f"{part}: {np.flatnonzero(wrong)[:5]}"


def exact(name, x):
    """The formulas in f64. Returns amax, the power before it is rounded down (in 16ths), the
    power, centre, scale, and the elements divided by their scale."""
    form = FORMATS[name]
    rows = form.rows(x).astype(np.float64)
    magnitude = np.abs(rows)
    amax = magnitude.max(1)
    with np.errstate(all="ignore"):
        smallest = np.where(magnitude == 0, np.inf, magnitude).min(1)
        steps = np.log2(float(form.bound)) / np.log2(amax / smallest) * 16
        power = np.where(
            amax / smallest <= 1 + 2**-12, 1, np.maximum(np.floor(steps), 1) / 16
        )
        centre = np.sqrt(amax) * np.sqrt(smallest)
        scale = (amax / centre) ** power / float(form.largest)
        y = np.sign(rows) * (magnitude / centre[:, None]) ** power[:, None]
    return amax, steps, power, centre, scale, y / scale[:, None]


@pytest.mark.parametrize("name", FORMATS)
def test_bits_are_close_to_the_formulas(name):
    """The bounds are those of docs/decisions/0058-range-expansion-bits.md."""
    x = draw_groups(name, 3)
    parts = quantize(name, x, "reference")
    amax, steps, power, centre, scale, _ = exact(name, x)
    some = (amax > 0) & (np.arange(len(amax)) < len(amax) - 1)
    # The power may differ where the quotient is within rounding errors of an integer.
    with np.errstate(invalid="ignore"):
        near = np.abs(steps - np.rint(steps)) < 1e-5 * np.maximum(steps, 1)
    same = parts["power"] == power
    assert (same | near)[some].all() and same[some & (power <= 16)].mean() > 0.95
    kept = some & same
    np.testing.assert_allclose(parts["centre"][kept], centre[kept], rtol=2**-22)
    # The bound holds for magnitudes up to 2^127 times the centre.
    normal = kept & (scale > 2.0**-126) & (power <= 16) & (amax / centre < 2.0**127)
    np.testing.assert_allclose(parts["scale"][normal], scale[normal], rtol=2e-6)
    assert normal.mean() > 0.5
    # Decodes the elements in f64, from the computed codes, scales, powers and centres.
    form = FORMATS[name]
    codes = form.unpack(parts["codes"], len(x))
    numbers = (
        form.element[codes] if form.is_book
        else codes.view({"f8E4M3FN": ml_dtypes.float8_e4m3fn,
                         "f8E5M2": ml_dtypes.float8_e5m2}.get(form.element, np.float16))
    ).astype(np.float64)  # fmt: skip
    groups = [np.repeat(parts[p].astype(np.float64), form.group)[: len(x)]
              for p in ("scale", "power", "centre")]  # fmt: skip
    wanted = np.abs(numbers * groups[0]) ** (1 / groups[1]) * groups[2]
    ratio = wanted / groups[2]
    held = (wanted > 2.0**-120) & (wanted < 2.0**126)
    held &= (ratio > 2.0**-125) & (ratio < 2.0**127)
    for low, high, bound in ((0, 0.5, 1e-5), (0.5, 16.01, 5e-6)):
        some = held & (groups[1] >= low) & (groups[1] < high)
        np.testing.assert_allclose(np.abs(parts["y"])[some], wanted[some], rtol=bound)
        assert some.mean() > 0.1


def test_a_ratio_beyond_f32_is_not_constant():
    """The ratio of the largest to the smallest magnitude overflows f32. The power is still
    computed from its logarithm, as for other ratios."""
    x = np.tile(F32(1), 128)
    x[0] = F32(2.0**-120)
    for backend in ("reference", "cpu", "simulator"):
        power = quantize("e4m3x", x, backend)["power"]
        assert power == F32(np.floor(np.log2(100352) / 120 * 16) / 16), backend


@pytest.mark.parametrize("name", ["e4m3x", "e5m2x"])
def test_logarithms_of_elements_are_far_from_ties(name):
    """Thus a logarithm in f64 with 40 correct bits always rounds to the nearest f32."""
    codes = np.arange(1, 128, dtype=np.uint8).view(FLOATS[FORMATS[name].element])
    codes = codes.astype(np.float64)
    logs = np.log2(codes[np.isfinite(codes)])
    below = logs.astype(F32)
    ends = np.nextafter(below, F32(np.inf)), np.nextafter(below, F32(-np.inf))
    for end in ends:
        middle = (below.astype(np.float64) + end) / 2
        assert (np.abs(logs - middle) > 2.0**-40 * np.abs(logs)).all()


FMA = """
binade.optimizer @rule {states = [#binade.setting<"s" = 0.0>], hypers = []}
func.func private @rule.update(%p: f32, %g: f32, %s: f32) -> (f32, f32) {
  %y = math.fma %p, %g, %s : f32
  return %y, %s : f32, f32
}
func.func @f(%p: tensor<2000xf32>, %g: tensor<2000xf32>, %s: tensor<2000xf32>)
    -> tensor<2000xf32> {
  %y:2 = binade.optimizer_update @rule %p, %g states(%s) : (tensor<2000xf32>,
    tensor<2000xf32>, tensor<2000xf32>) -> (tensor<2000xf32>, tensor<2000xf32>)
  return %y#0 : tensor<2000xf32>
}
"""


def round_to_f32(numerator):
    """Rounds an integer to nearest even, to a normal value of f32."""
    size = abs(numerator)
    cut = max(size.bit_length() - 24, 0)
    kept, rest = size >> cut, size & ((1 << cut) - 1)
    kept += 2 * rest > 1 << cut or (2 * rest == 1 << cut and kept % 2)
    return F32(np.ldexp(float(kept if numerator >= 0 else -kept), cut))


def draw_sums(count):
    """Yields numerators of factors and summands: (1 + 2^-a) m, 1 - 2^-a, and a value with a
    distance of 2 to the next f32. The sum is so close to the midpoint of two f32 values that
    f64 often cannot distinguish it from the midpoint."""
    random = np.random.default_rng(3)
    for _ in range(count):
        a = int(random.integers(15, 24))
        m = int(random.integers(0, 1 << 24 - a)) | 1
        z = int(random.integers(1 << 23, 1 << 24)) * 2 * int(random.choice([-1, 1]))
        m *= int(random.choice([-1, 1]))
        yield m * ((1 << a) + 1), (1 << a) - 1, z, a


@pytest.mark.parametrize("backend", ["reference", "onnx", "onnx-optimized"])
def test_exported_fma_rounds_once(backend):
    rows = list(draw_sums(2000))
    sums = [(p * g + (z << 2 * a), 2 * a) for p, g, z, a in rows]
    expected = np.array([np.ldexp(round_to_f32(n), -shift) for n, shift in sums], F32)
    p = np.array([np.ldexp(float(p), -a) for p, _, _, a in rows], F32)
    g = np.array([np.ldexp(float(g), -a) for _, g, _, a in rows], F32)
    z = np.array([row[2] for row in rows], F32)
    twice = (p.astype(np.float64) * g + z).astype(F32)
    assert 0.2 < (twice != expected).mean() < 0.8
    inputs = {"arg0": p, "arg1": g, "arg2": z}
    values = evaluate(FMA, inputs, "--backend", backend)
    np.testing.assert_array_equal(values["result0"], expected)
