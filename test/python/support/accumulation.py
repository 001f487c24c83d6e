"""The model of an accumulator, `#binade.accumulation`, in exact arithmetic."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np

F32 = np.float32
E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
# Fraction bits and bias.
LAYOUT = {np.dtype(E4M3): (3, 7), np.dtype(E5M2): (2, 15)}


def round_f32(x):
    """A fraction in f32, to nearest even; magnitudes stay below the largest f32."""
    if x == 0:
        return F32(0)
    magnitude = abs(x)
    spacing = Fraction(2) ** (max(floor_log2(magnitude), -126) - 23)
    value = round(magnitude / spacing) * spacing  # `round` is to nearest even.
    return F32(float(math.copysign(1, x) * value))


def floor_log2(x):
    """The exponent of a positive fraction."""
    exponent = x.numerator.bit_length() - x.denominator.bit_length()
    return exponent if x >= Fraction(2) ** exponent else exponent - 1


def truncate(x, unit):
    """A multiple of `unit`, toward zero."""
    return math.trunc(x / unit) * unit


def exponents(codes):
    """The exponents by which elements are aligned: those of their bits, at least that of the
    smallest normal element."""
    fraction, bias = LAYOUT[codes.dtype]
    field = (codes.view(np.uint8) & 0x7F) >> fraction
    return np.maximum(field.astype(int), 1) - bias


def add_step(accumulator, products, bits):
    """`products` are pairs of a value and an exponent, of which no value is 0."""
    if accumulator != 0:
        products = [*products, (accumulator, floor_log2(abs(accumulator)))]
    if not products:
        return Fraction(0)
    unit = Fraction(2) ** (max(exponent for _, exponent in products) - bits + 1)
    total = sum(truncate(value, unit) for value, _ in products)
    if total == 0:
        return Fraction(0)
    return truncate(total, Fraction(2) ** (floor_log2(abs(total)) - bits + 1))


def add_products(x, y, bits, step, promote):
    """The sum of the products of two vectors of codes, in f32."""
    with np.errstate(invalid="ignore"):
        products = x.astype(F32) * y.astype(F32)
        if not np.isfinite(products).all():
            return products[~np.isfinite(products)].sum(dtype=F32)
    aligned = exponents(x) + exponents(y)
    total, accumulator = F32(0), Fraction(0)
    for first in range(0, len(x), step):
        if promote and first and first % promote == 0:
            total = round_f32(Fraction(float(total)) + accumulator)
            accumulator = Fraction(0)
        part = slice(first, first + step)
        pairs = zip(products[part], aligned[part])
        accumulator = add_step(
            accumulator, [(Fraction(float(p)), int(e)) for p, e in pairs if p], bits
        )
    return round_f32(Fraction(float(total)) + accumulator)


def fma(a, b, c):
    if not np.isfinite([a, b, c]).all():
        with np.errstate(invalid="ignore"):
            return F32(F32(a * b) + c)
    return round_f32(Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)))


def multiply(x, x_scale, y, y_scale, bits, step, promote, block=None):
    """The f32 totals of rows of `x` and rows of `y`. `x_scale(row, index)` is the scale of a
    row in a block of `block` products."""
    length = x.shape[1]
    block = block or max(length, 1)
    totals = np.zeros((len(x), len(y)), F32)
    for i, left in enumerate(x):
        for j, right in enumerate(y):
            for index, first in enumerate(range(0, length, block)):
                part = slice(first, first + block)
                added = add_products(left[part], right[part], bits, step, promote)
                scale = F32(x_scale(i, index) * y_scale(j, index))
                totals[i, j] = fma(added, scale, totals[i, j])
    return totals
