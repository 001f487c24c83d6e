"""NVFP4 and other formats with a scale of the tensor above the scales of blocks, compared with
the published formulas in numpy (test/data/make_nvfp4.py) and with ml_dtypes."""

import sys

import ml_dtypes
import numpy as np
import pytest
from support.nvfp4 import SHAPES, parts_of, quantize_all, same
from support.paths import ROOT
from support.quantization import apply, backends, bits, load, quantize

sys.path.append(str(ROOT / "test/data"))
import make_nvfp4 as published  # noqa: E402

F32 = np.float32
E4M3, E2M1 = ml_dtypes.float8_e4m3fn, ml_dtypes.float4_e2m1fn
NVFP4 = "f4E2M1FN, per_block<{}, {}>, scale = f8E4M3FN, tensor_scale = f32, rule = rounded_inverse"
CASES = load("nvfp4")


@backends
@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_recorded_tensors(case, backend):
    x = bits(case["in"]).view(F32).reshape(case["shape"])
    found, back = quantize(x, NVFP4.format(1, 16), parts_of(x.shape), backend)
    scales = np.array(case["scales"], np.uint8).reshape(found[1].shape)
    tensor = np.uint32(int(case["tensor_scale"], 16)).view(F32)
    codes = np.array(case["codes"], np.uint8).reshape(x.shape)
    same(found, (codes, scales, tensor))
    np.testing.assert_array_equal(back, published.dequantize(codes, scales, tensor))


BATCHES = 20


@backends
@pytest.mark.parametrize("rows", [1, 16])
def test_random_tensors(rows, backend):
    """Of all magnitudes, with blocks of zeros, subnormals, infinities and NaN: 10,000 on each
    backend, half of them in blocks of 16 x 16."""
    for batch in range(BATCHES):
        random = np.random.default_rng([batch, rows])
        tensors = [
            published.draw(random, SHAPES[random.integers(len(SHAPES))])
            for _ in range(250)
        ]
        for x, found in zip(tensors, quantize_all(tensors, NVFP4, backend, rows)):
            same(found, published.quantize(x, rows))


def move(x, steps):
    """The f32 values that many steps away."""
    return (np.asarray(x, F32).view(np.int32) + np.int32(steps)).view(F32)


def draw_ties(random):
    """A tensor whose scales and elements are next to the values at which rounding changes, so
    that another order of the operations gives other codes."""
    amax = F32(random.uniform(0.5, 2) * 2.0 ** random.integers(-20, 20))
    encode = published.tensor_factor(amax)
    values = published.decode_e4m3(np.arange(127, dtype=np.uint8))
    scale = (values[16:-1] + values[17:]) / 2
    largest = scale.astype(float) * 6 / float(encode)
    largest = np.concatenate([move(largest, step) for step in range(-3, 4)])
    x = np.zeros((largest.size + 1, 16), F32)
    x[0, 0], x[1:, 0] = amax, largest
    _, codes, decode = published.quantize(x)
    unit = published.decode_e4m3(codes).astype(float) * float(decode)
    limits = np.array([limit for limit, _ in published.LIMITS])
    x[:, 1:8] = move(unit * limits, random.integers(-2, 3, (x.shape[0], 7)))
    x[:, 8:15] = -move(unit * limits, random.integers(-2, 3, (x.shape[0], 7)))
    return x


@backends
def test_order_of_operations(backend):
    random = np.random.default_rng(7)
    tensors = [draw_ties(random) for _ in range(40)]
    for x, found in zip(tensors, quantize_all(tensors, NVFP4, backend)):
        same(found, published.quantize(x))


def encode(x, backend):
    (codes,) = apply(
        "encode", [(x, "f32"), (np.ones((), F32), "f32")], [(x.shape, "i8")],
        "format = #binade.quantized<f4E2M1FN, per_tensor, scale = f32>, saturate", backend,
    )  # fmt: skip
    return codes.view(np.uint8)


@backends
def test_elements_at_all_boundaries(backend):
    """E2M1 of all f32 values around each boundary and of all upper halves of an f32."""
    middles = np.array([limit for limit, _ in published.LIMITS] + [6, 7, 8], F32)
    near = middles.view(np.uint32)[:, None] + np.arange(-64, 65).astype(np.uint32)
    halves = np.arange(1 << 16, dtype=np.uint32)[:, None] << 16
    halves = halves | np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    x = np.concatenate([near.ravel(), near.ravel() | 1 << 31, halves.ravel()]).view(F32)
    x = x[~np.isnan(x)]
    codes = encode(x, backend)
    np.testing.assert_array_equal(codes, published.encode_e2m1(np.clip(x, -6, 6)))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(codes, x.astype(E2M1).view(np.uint8))


@pytest.mark.slow
@pytest.mark.nightly
def test_all_elements():
    """E2M1 of all 2^32 values equals that of ml_dtypes; a NaN becomes 6."""
    count = 1 << 26
    for part in range((1 << 32) // count):
        x = np.arange(part * count, (part + 1) * count, dtype=np.uint64)
        x = x.astype(np.uint32).view(F32)
        codes, isNaN = encode(x, "cpu"), np.isnan(x)
        assert (codes[isNaN] == 7).all()
        with np.errstate(over="ignore", invalid="ignore"):
            expected = x.astype(E2M1).view(np.uint8)
        assert ((codes == expected) | isNaN).all(), part


@backends
@pytest.mark.parametrize(
    "rule, scale", [("round_up", "f8E8M0FNU"), ("floor", "f8E8M0FNU")]
)
def test_powers_of_two_below_the_scale_of_the_tensor(rule, scale, backend):
    """The largest magnitude of the tensor, which one power of two for each block would miss
    by up to a factor of two, is represented exactly."""
    x = np.random.default_rng(3).standard_normal((8, 64)).astype(F32)
    form = f"f4E2M1FN, per_block<1, 32>, scale = {scale}, tensor_scale = f32, rule = {rule}"
    (codes, scales, tensor), back = quantize(
        x, form, parts_of(x.shape, 1, 32, scale), backend
    )
    amax = np.abs(x).max()
    factor = F32(6) / amax
    assert tensor == F32(1) / factor
    scaled = np.abs(x).reshape(8, 2, 32).max(2) * factor
    expected = (
        2.0 ** (np.floor(np.log2(scaled)) - 2)
        if rule == "floor"
        else 2.0 ** np.ceil(np.log2((scaled * F32(1 / 6)).astype(float)))
    ).astype(F32)
    np.testing.assert_array_equal(scales.astype(F32), expected)
    spread = np.repeat(expected, 32, 1)
    quotient = np.clip(x * (F32(1) / (spread * tensor)), -6, 6).astype(E2M1)
    np.testing.assert_array_equal(codes.view(np.uint8), quotient.view(np.uint8))
    np.testing.assert_array_equal(back, quotient.astype(F32) * spread * tensor)
    np.testing.assert_allclose(back.ravel()[np.abs(x).argmax()], x.ravel()[np.abs(x).argmax()],
                               rtol=1e-6)  # fmt: skip


@backends
def test_blocks_without_a_scale_of_the_tensor(backend):
    x = np.random.default_rng(4).standard_normal((8, 40)).astype(F32)
    form = "f4E2M1FN, per_block<1, 16>, scale = f8E4M3FN, rule = rounded_inverse"
    (codes, scales), back = quantize(x, form, parts_of(x.shape)[:2], backend)
    padded = np.pad(x, ((0, 0), (0, 8))).reshape(8, 3, 16)
    expected = (np.abs(padded).max(2) * F32(1 / 6)).astype(E4M3)
    np.testing.assert_array_equal(scales.view(np.uint8), expected.view(np.uint8))
    spread = np.repeat(expected.astype(F32), 16, 1)[:, :40]
    quotient = np.clip(x * (F32(1) / spread), -6, 6).astype(E2M1)
    np.testing.assert_array_equal(codes.view(np.uint8), quotient.view(np.uint8))
    np.testing.assert_array_equal(back, quotient.astype(F32) * spread)


@pytest.mark.parametrize("rows, published_error", [(1, 9.0), (16, 12.4)])
def test_the_error_of_normal_values_is_as_published(rows, published_error):
    """Quartet II (arXiv 2601.22813) reports the mean squared error of N(0, 1), times 1e-3."""
    x = np.random.default_rng(5).standard_normal((512, 512)).astype(F32)
    form = NVFP4.format(rows, 16)
    _, back = quantize(x, form, parts_of(x.shape, rows), "cpu")
    error = 1e3 * np.square(back.astype(float) - x).mean()
    assert error == pytest.approx(published_error, rel=0.01)


EXPORTS = pytest.mark.parametrize("backend", ["onnx", "onnx-optimized"])


@EXPORTS
@pytest.mark.parametrize("rows", [1, 16])
def test_exported_steps_quantize_equally(rows, backend):
    random = np.random.default_rng(6)
    for shape in SHAPES:
        x = published.draw(random, shape)
        found, back = quantize(
            x, NVFP4.format(rows, 16), parts_of(shape, rows), backend
        )
        expected = published.quantize(x, rows)
        same(found, expected)
        np.testing.assert_array_equal(back, published.dequantize(*expected, rows))
