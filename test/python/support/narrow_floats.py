"""Casts to and from narrow floats: inputs, modules and expected bits."""

import ml_dtypes
import numpy as np

F32 = np.float32
# The formats with the code that binade-interpret uses for NaN.
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
    """All values of a format, the midpoints between them, and the next larger f32 values."""
    values = all_codes(name).astype(F32)
    finite = np.unique(values[np.isfinite(values)])
    step = finite[-1] - finite[-2]
    with np.errstate(over="ignore"):  # Overflows to infinity for bf16.
        beyond = finite[-1] + step * np.array([0.5, 1, 2], F32)
    middles = np.append((finite[:-1].astype(np.float64) + finite[1:]) / 2, beyond)
    around = np.concatenate([finite, middles.astype(F32)])
    around = np.concatenate([around, np.nextafter(around, F32(np.inf))])
    nans = np.array([0x7FC00000, 0xFFC00000, 0xFF812345, 0x7F800001], np.uint32)
    special = np.array([0.0, 1e-45, 1.2e-38, 3.4e38, np.inf], F32)
    positive = np.concatenate([around, special])
    return np.concatenate([positive, -positive, nans.view(F32)])


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
