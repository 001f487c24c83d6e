"""Casts of narrow floats in kernels of the gpu dialect: every code, every tie."""

import ml_dtypes
import numpy as np
import pytest
from reference import evaluate, tensor_type

F32 = np.float32
# And the code of NaN, which the tensors of binade-eval have.
FORMATS = {
    "f8E4M3FN": (ml_dtypes.float8_e4m3fn, 0x7F),
    "f8E5M2": (ml_dtypes.float8_e5m2, 0x7F),
    "bf16": (ml_dtypes.bfloat16, 0x7FC0),
    "f16": (np.float16, 0x7E00),
}


def words(values):
    return values.view(np.uint8 if values.dtype.itemsize == 1 else np.uint16)


def all_codes(name):
    dtype = np.dtype(FORMATS[name][0])
    count = 1 << (8 * dtype.itemsize)
    return np.arange(count, dtype=words(np.zeros(1, dtype)).dtype).view(dtype)


def edges(name):
    """All numbers of a format, the middles between them, and what lies beside."""
    values = all_codes(name).astype(F32)
    finite = np.unique(values[np.isfinite(values)])
    step = finite[-1] - finite[-2]
    with np.errstate(over="ignore"):  # bf16 goes on to infinity.
        beyond = finite[-1] + step * np.array([0.5, 1, 2], F32)
    middles = np.append((finite[:-1].astype(np.float64) + finite[1:]) / 2, beyond)
    around = np.concatenate([finite, middles.astype(F32)])
    around = np.concatenate([around, np.nextafter(around, F32(np.inf))])
    nans = np.array([0x7FC00000, 0xFFC00000, 0xFF812345, 0x7F800001], np.uint32)
    special = np.array([0.0, 1e-45, 1.2e-38, 3.4e38, np.inf], F32)
    positive = np.concatenate([around, special])
    return np.concatenate([positive, -positive, nans.view(F32)])


def cast(x, source, target, backend, attributes=""):
    module = f"""func.func @f(%x: {tensor_type(x.shape, source)}) -> {tensor_type(x.shape, target)} {{
        %y = binade.cast %x {attributes} : ({tensor_type(x.shape, source)}) -> {tensor_type(x.shape, target)}
        return %y : {tensor_type(x.shape, target)}
      }}"""
    (y,) = evaluate(module, {"arg0": x}, "--backend", backend).values()
    return y


def expected_codes(x, name, saturate):
    dtype, nan = FORMATS[name]
    if saturate:
        largest = F32(ml_dtypes.finfo(dtype).max)
        x = np.clip(x, -largest, largest)
    with np.errstate(over="ignore", invalid="ignore"):
        codes = words(x.astype(dtype)).copy()
    wide = codes.view(dtype).astype(F32)
    codes[np.isnan(wide)] = nan
    return codes


@pytest.mark.parametrize("saturate", [False, True])
@pytest.mark.parametrize("name", FORMATS)
def test_every_tie_rounds_to_even(name, saturate):
    if saturate and not name.startswith("f8"):
        pytest.skip("16 bits overflow to infinity")
    x = edges(name)
    got = words(cast(x, "f32", name, "simulator", "{saturate}" if saturate else ""))
    expected = expected_codes(x, name, saturate)
    wrong = np.flatnonzero(got != expected)
    assert not wrong.size, [(x[i], hex(got[i]), hex(expected[i])) for i in wrong[:5]]


@pytest.mark.parametrize("saturate", [False, True])
@pytest.mark.parametrize("name", ["f8E4M3FN", "f8E5M2"])
def test_codes_of_8_bits_are_the_cpus(name, saturate):
    x, form = edges(name), "{saturate}" if saturate else ""
    on_cpu = words(cast(x, "f32", name, "cpu", form))
    assert (words(cast(x, "f32", name, "simulator", form)) == on_cpu).all()


@pytest.mark.parametrize("name", FORMATS)
def test_every_code_is_decoded(name):
    codes = all_codes(name)
    got = cast(codes, name, "f32", "simulator")
    expected = codes.astype(F32)
    same = got.view(np.uint32) == expected.view(np.uint32)
    assert (same | (np.isnan(got) & np.isnan(expected))).all()
