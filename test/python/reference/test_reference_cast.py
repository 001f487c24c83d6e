"""Compares casts, in the reference and in kernels, with recorded values. Tests `save`."""

import json

import ml_dtypes
import numpy as np
import pytest
from support.paths import ROOT
from support.reference import BF16, evaluate, evaluate_op, op_module, tensor_type

CASES = json.loads((ROOT / "test/data/golden/casts.json").read_text())["cases"]
FORMATS = {
    "e4m3": ("f8E4M3FN", np.uint8), "e5m2": ("f8E5M2", np.uint8),
    "e2m1": ("f4E2M1FN", np.uint8), "e3m2": ("f6E3M2FN", np.uint8),
    "e2m3": ("f6E2M3FN", np.uint8),
    "f16": ("f16", np.uint16), "bf16": ("bf16", np.uint16),
}  # fmt: skip
# The largest magnitude bits that are not NaN, in formats with NaN.
LARGEST = {"e4m3": 0x7E, "e5m2": 0x7C, "f16": 0x7C00, "bf16": 0x7F80}


def is_nan(name, code):
    magnitude = int(code) & (0x7F if name in ("e4m3", "e5m2") else 0x7FFF)
    return name in LARGEST and magnitude > LARGEST[name]


def cast_bits(x, element, unsigned, attribute, *flags):
    types = [tensor_type(x.shape, x.dtype), tensor_type(x.shape, element)]
    module = f"""
      func.func @f(%x: {types[0]}) -> {types[1]} {{
        %y = binade.cast %x {{{attribute}}} : ({types[0]}) -> {types[1]}
        return %y : {types[1]}
      }}"""
    return evaluate(module, {"arg0": x}, *flags)["result0"].view(unsigned)


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("key, attribute", [
    ("rne_satfinite", "saturate"), ("rne_nosat", ""), ("rne", ""),
])  # fmt: skip
def test_cast_to_narrow_formats(backend, name, key, attribute):
    if key not in CASES[name]:
        return
    bits = [int(x, 16) for x in CASES[name]["in"]["x"]]
    x = np.array(bits, np.uint32).view(np.float32)
    expected = np.array([int(v, 16) for v in CASES[name][key]])
    element, unsigned = FORMATS[name]
    actual = cast_bits(x, element, unsigned, attribute, "--backend", backend)
    for value, code, wanted in zip(x, actual, expected):
        # Any NaN is correct, and any result for NaN in formats without it.
        if np.isnan(value) or is_nan(name, wanted):
            assert name not in LARGEST or is_nan(name, code)
        else:
            assert code == wanted, f"{value!r}: {code:#x}, expected {wanted:#x}"


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_cast_to_wider_formats_is_exact(backend):
    codes = np.arange(256, dtype=np.uint8)
    for dtype in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
        x = codes.view(dtype)
        module = op_module("cast", [x], [(x.shape, np.float32)])
        y = evaluate(module, {"arg0": x}, "--backend", backend)["result0"]
        np.testing.assert_array_equal(y, x.astype(np.float32))


def test_cast_from_f64_rounds_once():
    # Rounded to f32 first, this would be a tie of bf16.
    x = np.array([1 + 2**-8 + 2**-40])
    (y,) = evaluate_op("cast", [x], [((1,), BF16)])
    assert y[0] == np.float32(1 + 2**-7)


def test_cast_between_integers_and_floats():
    x = np.array([1.9, -1.9, 0.0, 3e9, -3e9, np.nan], np.float32)
    (y,) = evaluate_op("cast", [x], [(x.shape, np.int32)])
    np.testing.assert_array_equal(y, [1, -1, 0, 2**31 - 1, -(2**31), 0])
    (y,) = evaluate_op("cast", [x], [(x.shape, np.bool_)])
    np.testing.assert_array_equal(y, [True, True, False, True, True, True])
    i = np.array([2**62 + 1, -(2**24) - 1, 7], np.int64)
    (y,) = evaluate_op("cast", [i], [(i.shape, np.float32)])
    np.testing.assert_array_equal(y, i.astype(np.float32))
    (y,) = evaluate_op("cast", [i], [(i.shape, np.int8)])
    np.testing.assert_array_equal(y, i.astype(np.int8))
    (y,) = evaluate_op("cast", [np.array([True, False])], [((2,), np.float32)])
    np.testing.assert_array_equal(y, [1, 0])


def test_large_integers_are_rounded_once():
    # Conversion through f64 would drop the last bit, and f32 would round a tie down.
    i = np.array([2**60 + 2**36 + 1, -(2**60) - 2**36 - 1, 2**60 + 2**36], np.int64)
    (y,) = evaluate_op("cast", [i], [(i.shape, np.float32)])
    step = 2**37
    np.testing.assert_array_equal(y, [2**60 + step, -(2**60) - step, 2**60])


def test_save_keeps_or_rounds():
    x = np.array([1.0, 1 + 2**-9], np.float32)
    (y,) = evaluate_op("save", [x], [((2,), np.float32)])
    np.testing.assert_array_equal(y, x)
    (y,) = evaluate_op("save", [x], [((2,), BF16)])
    np.testing.assert_array_equal(y.astype(np.float32), [1, 1])
