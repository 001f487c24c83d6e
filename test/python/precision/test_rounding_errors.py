"""Parameters in bf16 with an 8-bit code of the rounding error (`master: split_8bit`), compared
with the formulas of FlashOptim in numpy: f32 for codes as published, f64 for what they mean."""

import numpy as np
import pytest
from support.reference import BF16, evaluate
from support.storage import (
    Update,
    assert_equal_bits,
    bits,
    decode_error,
    encode_error,
    half_units,
    join,
    write,
)

F32 = np.float32
BACKENDS = ["reference", "cpu", "simulator", "onnx"]


def draw_words():
    """f32 of all exponents; ties, powers of two and their neighbors, subnormals, both zeros,
    infinities, NaN, and values that overflow bf16."""
    random = np.random.default_rng(5).integers(0, 2**32, 60_000, np.uint32)
    powers = np.arange(0, 0x7F800001, 0x00800000, np.uint32)
    around = np.arange(-0x18000, 0x18001, 0x1000, np.int64)
    near = (powers[:, None].astype(np.int64) + around).ravel()
    near = np.concatenate([near, near - 1, near + 1])
    near = near[(near >= 0) & (near <= 0x7F800000)].astype(np.uint32)
    special = np.array([0x7FC00000, 0x7F800001, 0xFFFFFFFF, 0x7F7FFFFF, 0x7F7F8000,
                        0x7F7F7FFF, 1, 0x7FFF, 0x8000, 0x8001], np.uint32)  # fmt: skip
    words = np.concatenate([random, near, special])
    return np.concatenate([words, words ^ np.uint32(0x80000000)]).view(F32)


def encode_as_published(value, p):
    """In f32: the error times the reciprocal of half a unit, in two factors."""
    wide = p.astype(F32)
    exponent = np.maximum(bits(np.abs(wide)) >> 23, 1).astype(np.int32) - 127
    places = 8 - exponent
    half = places // 2
    scaled = np.ldexp(np.ldexp(value - wide, half), places - half)
    scaled = np.clip(scaled, F32(-1), F32(1)) * F32(127)
    return np.copysign(np.floor(np.abs(scaled) + F32(0.5)), scaled).astype(np.int8)


@pytest.mark.parametrize("backend", BACKENDS)
def test_values_are_split_as_published(backend, tmp_path):
    value = draw_words()
    found = write(Update(tmp_path, backend, "take", [], len(value), "split_8bit"),
                  value, "split_8bit")  # fmt: skip
    with np.errstate(over="ignore", invalid="ignore"):
        p = value.astype(BF16)
    finite = np.isfinite(p.astype(F32))
    assert_equal_bits(found["p"][finite], p[finite])
    np.testing.assert_array_equal(
        found["p"][~finite].astype(F32), p[~finite].astype(F32)
    )
    code = found["b"]
    with np.errstate(over="ignore"):
        published = encode_as_published(value[finite], p[finite])
    np.testing.assert_array_equal(code[finite], published)
    assert not code[~finite].any()
    np.testing.assert_array_equal(code, encode_error(value, p))
    assert set(code) == set(range(-127, 128))
    # What is lost: half a code, and half a unit in the last place of f32.
    kept = join("split_8bit", {"p": p[finite], "b": code[finite]}).astype(np.float64)
    error = np.abs(kept - value[finite].astype(np.float64)) / half_units(p[finite])
    assert 1 / 255 < error.max() <= 1 / 254 + 2.0**-16 < 1 / 253


@pytest.mark.parametrize("backend", [*BACKENDS, "onnx-optimized"])
def test_values_are_joined(backend):
    """Every bf16 with some codes."""
    words = np.arange(2**16, dtype=np.uint32).astype(np.uint16).view(BF16)
    codes = np.random.default_rng(3).integers(-127, 128, 5 * 2**16).astype(np.int8)
    ends = np.repeat(np.array([-127, -64, -1, 0, 1, 127], np.int8), 2**16)
    high, low = np.tile(words, 11), np.concatenate([codes, ends])
    count = len(high)
    wide = f"tensor<{count}xf32>"
    operands = f"(tensor<{count}xbf16>, tensor<{count}xi8>)"
    module = f"""
func.func @f(%p: tensor<{count}xbf16>, %b: tensor<{count}xi8>) -> {wide} {{
  %y = binade.join_halves %p, %b : {operands} -> {wide}
  return %y : {wide}
}}"""
    inputs = {"arg0": high, "arg1": low}
    found = evaluate(module, inputs, "--backend", backend)["result0"]
    p = high.astype(F32)
    finite = np.isfinite(p)
    assert_equal_bits(found[finite], decode_error(high[finite], low[finite]))
    np.testing.assert_array_equal(found[~finite], p[~finite])


@pytest.mark.parametrize("backend", BACKENDS)
def test_writing_what_was_read_changes_no_value(backend, tmp_path):
    """Halfway between two bf16 values, the other one may be stored. If that is a power of two,
    its distance is a whole number of codes and a half."""
    value = draw_words()
    value = value[np.abs(value) < 3.3e38]
    kept = write(Update(tmp_path, backend, "take", [], len(value), "split_8bit"),
                 value, "split_8bit")  # fmt: skip
    keep = Update(tmp_path, backend, "keep", [], len(value), "split_8bit")
    again = keep(g=np.zeros_like(value), step=np.int64(0), **kept)
    before, after = join("split_8bit", kept), join("split_8bit", again)
    half = (bits(before) & 0xFFFF) == 0x8000
    below = half & ((bits(before) & 0x7F0000) == 0x7F0000)
    assert_equal_bits(after[~below], before[~below])
    change = np.abs(after[below].astype(np.float64) - before[below])
    assert (change <= half_units(again["p"][below]) * (0.5 / 127 + 2.0**-16)).all()
    # Others may be halfway between two values, and -0 is read as 0.
    same = (np.abs(kept["b"].astype(int)) < 64) & (bits(kept["p"]) != 0x8000)
    for name in ("p", "b"):
        assert_equal_bits(again[name][same], kept[name][same])


def test_small_updates_add_up(tmp_path):
    """Updates of a 200th of a bf16 unit are not lost if they exceed half a code."""
    size, unit = 200, 2.0**-8
    update = Update(tmp_path, "cpu", "sgd", [unit / 100, 0, 0, 0, 0], size, "split_8bit",
                    times=20)  # fmt: skip
    kept = {
        "p": np.ones(size, BF16),
        "b": np.zeros(size, np.int8),
        "s0": np.zeros(size, F32),
    }
    for step in range(50):
        kept = update(g=-np.ones(size, F32), step=np.int64(step), **kept)
    found = join("split_8bit", kept)
    # 1000 updates of 1/100 of the largest error, each rounded to 1/127 of it.
    assert (np.abs(found - (1 + 1000 * unit / 127)) < 2 * unit / 127).all()
