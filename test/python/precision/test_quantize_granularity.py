"""Quantization with scales per tensor, row, group or block, with two 4-bit codes per byte, and
of values that are not finite."""

import ml_dtypes
import numpy as np
import pytest
from support.codec import write_book
from support.quantization import backends, book, floats, load, quantize

F32 = np.float32
E4M3, E8M0 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu
SHAPES = {
    "per_tensor": ((5, 12), ()),
    "per_row": ((5, 12), (5,)),
    "per_group<16>": ((5, 12), (4,)),
    "per_group<64>": ((4, 64), (4,)),
    "per_block<1, 8>": ((2, 3, 12), (2, 3, 2)),
    "per_block<2, 8>": ((2, 3, 12), (2, 2, 2)),
    "per_block<128, 128>": ((256, 128), (2, 1)),
    # Groups that are larger than the tensor take no more memory.
    "per_group<99999999>": ((5, 12), (1,)),
    "per_block<1, 99999999>": ((5, 12), (5, 1)),
    "per_block<99999999, 1>": ((5, 12), (1, 12)),
    "per_block<999999, 999999>": ((40, 24), (1, 1)),
}


def share(x, granularity):
    """The index of the scale of each element."""
    index = np.indices(x.shape)
    if granularity.startswith("per_block"):
        high, wide = (int(n) for n in granularity[10:-1].split(", "))
        rows, columns = x.shape[-2:]
        down, across = -(-rows // high), -(-columns // wide)
        outer = index[0] if x.ndim == 3 else 0
        return (outer * down + index[-2] // high) * across + index[-1] // wide
    flat = np.arange(x.size).reshape(x.shape)
    if granularity.startswith("per_group"):
        return flat // int(granularity[10:-1])
    return flat // x.shape[-1] if granularity == "per_row" else flat * 0


@backends
@pytest.mark.parametrize("granularity", SHAPES)
def test_granularities(granularity, backend):
    shape, scale_shape = SHAPES[granularity]
    generator = np.random.default_rng(7)
    x = generator.standard_normal(shape).astype(np.float32)
    x *= np.exp(generator.standard_normal(shape)).astype(np.float32)
    (codes, scale), back = quantize(
        x, f"f8E4M3FN, {granularity}, scale = f32",
        [(shape, "f8E4M3FN"), (scale_shape, "f32")], backend,
    )  # fmt: skip
    which = share(x, granularity)
    amax = np.zeros(which.max() + 1, np.float32)
    np.maximum.at(amax, which.ravel(), np.abs(x).ravel())
    expected = amax / np.float32(448)
    np.testing.assert_array_equal(scale.ravel(), expected)
    quotient = np.clip(x / expected[which], -448, 448)
    np.testing.assert_array_equal(codes, quotient.astype(E4M3))
    np.testing.assert_array_equal(back, codes.astype(np.float32) * expected[which])


@backends
@pytest.mark.parametrize("count", [32, 33])
def test_two_codes_in_a_byte(count, backend):
    case = load("bnb8")
    values = floats(case["map4_signed"])
    x = floats(case["x"])[:count]
    form = f"{write_book('four', values)}, per_group<32>, scale = f32"
    (codes, scale), back = quantize(
        x, form, [((-(-count // 2),), "i8"), ((-(-count // 32),), "f32")], backend
    )
    groups = [x[i : i + 32] for i in range(0, count, 32)]
    expected = np.array([np.abs(group).max() for group in groups], np.float32)
    np.testing.assert_array_equal(scale, expected)
    relative = x / np.repeat(expected, 32)[:count]
    nearest = np.abs(relative[:, None] - values).argmin(1)
    nearest[(values[nearest] == 0) & (relative < 0)] -= 1
    unpacked = np.stack([codes.view(np.uint8) >> 4, codes.view(np.uint8) & 15], 1)
    np.testing.assert_array_equal(unpacked.ravel()[:count], nearest)
    np.testing.assert_array_equal(
        back, values[nearest] * np.repeat(expected, 32)[:count]
    )


@backends
@pytest.mark.parametrize("element, largest", [("f8E4M3FN", 448), ("f8E5M2", 57344)])
@pytest.mark.parametrize("rule", ["inverse", "inverse_power"])
def test_infinities_saturate_as_in_transformer_engine(element, largest, rule, backend):
    """With an infinity the scale is 1, as from its compute_scale_from_amax, and elements
    saturate."""
    x = np.array([[1.0, -np.inf, 2.0, 1e9], [1.0, -3.5, 2.0, 0.5]], F32)
    form = f"{element}, per_row, scale = f32, rule = {rule}"
    parts = [(x.shape, element), ((2,), "f32")]
    (_, scale), back = quantize(x, form, parts, backend)
    assert scale[0] == 1
    np.testing.assert_array_equal(back[0], [1, -largest, 2, largest])
    np.testing.assert_allclose(back[1], x[1], rtol=0.08)


HARD = [
    ("nan", [1.0, np.nan, -2.0, 0.5]), ("infinity", [1.0, -np.inf, 2.0, 0.5]),
    ("zeros", [0.0, -0.0, 0.0, 0.0]), ("subnormal", [1e-44, 0.0, -3e-45, 1e-42]),
]  # fmt: skip


@backends
@pytest.mark.parametrize("name, row", HARD, ids=[name for name, _ in HARD])
@pytest.mark.parametrize("form, parts", [
    ("f8E4M3FN, per_row, scale = f32", ["f8E4M3FN", "f32"]),
    ("f8E5M2, per_row, scale = f32", ["f8E5M2", "f32"]),
    ("f8E4M3FN, per_row, scale = f32, rule = inverse", ["f8E4M3FN", "f32"]),
    ("f8E4M3FN, per_row, scale = bf16, rule = amax_offset", ["f8E4M3FN", "bf16"]),
    ("f8E4M3FN, per_row, scale = f8E8M0FNU, rule = round_up", ["f8E4M3FN", "f8E8M0FNU"]),
    ("f4E2M1FN, per_row, scale = f8E8M0FNU, rule = floor", ["i8", "f8E8M0FNU"]),
    ("f8E4M3FN, per_row, scale = f32, expand", ["f8E4M3FN", "f32", "f32", "f32"]),
    ("BOOK, per_row, scale = f32", ["i8", "f32"]),
])  # fmt: skip
def test_non_finite_values_are_never_stored_as_finite(name, row, form, parts, backend):
    x = np.array([row, [1.0, 2.0, -3.0, 4.0]], np.float32)
    form = form.replace("BOOK", book("bnb_dynamic_signed"))
    shapes = [x.shape] + [(2,)] * (len(parts) - 1)
    _, back = quantize(x, form, list(zip(shapes, parts)), backend)
    # With these rules the scale stays finite, and infinities saturate.
    if name == "infinity" and ("inverse" in form):
        assert np.isfinite(back[0, [0, 2, 3]]).all()
    elif name in ("nan", "infinity"):
        assert not np.isfinite(back[0, 1])
    else:
        # Scales are normal values or powers of two; a subnormal element may become 0.
        np.testing.assert_allclose(back[0], x[0], rtol=0, atol=2.0**-127)
    np.testing.assert_allclose(back[1], x[1], rtol=0.15)
