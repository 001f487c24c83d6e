#!/usr/bin/env python3
"""Writes golden/nvfp4_eden.json: tensors quantized to NVFP4 by MS-EDEN.

The published formulas (Quartet II, arXiv 2601.22813) in f32 numpy: elements by rounding to
nearest, then a correction of the scales of 128 elements, which are rounded stochastically with
the random numbers of Philox. Tests import `quantize` for random tensors.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1] / "python"))
import make_nvfp4 as nvfp4  # noqa: E402
from support.philox import draw_elements  # noqa: E402

F32 = np.float32
# The value that the largest magnitude of a block is mapped to, and the largest scale before the
# correction.
PEAK, LARGEST_SCALE = 6 / ((17 / 16) * 0.93), 255.99
BLOCKS = 8  # With one correction: 128 elements.
SEED, STEP, STREAM = 0x123456789ABCDE, 41, 9


def draw(count, step=STEP):
    return draw_elements(count, SEED, step, STREAM)


def count_scales(shape):
    return shape[0], -(-shape[1] // 16)


def round_scales(scale, random):
    """The E4M3 codes of stochastic rounding: the larger neighbor if `random` is less than the
    fraction of the distance from the smaller one; NaN is 127."""
    values = nvfp4.decode_e4m3(np.arange(127, dtype=np.uint8)).astype(float)
    scale = np.minimum(scale, values[-1]).astype(float)
    low = np.minimum(np.searchsorted(values, scale, "right") - 1, 125)
    way = (scale - values[low]) / (values[low + 1] - values[low])
    return np.where(np.isnan(scale), 127, low + (random < way)).astype(np.uint8)


def add_halves(x):
    while x.shape[-1] > 1:
        half = x.shape[-1] // 2
        x = x[..., :half] + x[..., half:]
    return x[..., 0]


def sum_groups(products):
    """Sums of 8 blocks, of products [row, block, element]: a block in order, then by halves."""
    total = np.zeros(products.shape[:2], F32)
    for column in range(products.shape[2]):
        total = total + products[..., column]
    total = np.pad(total, [(0, 0), (0, -total.shape[1] % BLOCKS)])
    return add_halves(total.reshape(len(total), -1, BLOCKS))


def correct(exact, rounded):
    """The correction of each block; 1 if the quotient is not finite."""
    quotient = sum_groups(exact * exact) / sum_groups(exact * rounded)
    quotient = np.where(np.isfinite(quotient), quotient, F32(1))
    return np.repeat(quotient, BLOCKS, 1)[:, : exact.shape[1]]


def quantize(x, random=None):
    """Codes of the elements, E4M3 codes of the corrected scales of 16 elements of a row, and
    the tensor's scale. `random` has a value for each scale."""
    shape = count_scales(x.shape)
    random = draw(shape[0] * shape[1]).reshape(shape) if random is None else random
    with np.errstate(all="ignore"):
        encode = nvfp4.tensor_factor(np.abs(x).max(), PEAK, LARGEST_SCALE)
        decode = F32(1) / encode
        blocks = nvfp4.cut(x, 1, 16)
        unit = encode * (F32(1) / F32(PEAK))
        _, stored, inverse = nvfp4.store_scale(
            np.abs(blocks).max((1, 3)) * unit, decode
        )
        scaled = blocks * inverse[:, None, :, None]
        codes = nvfp4.encode_e2m1(np.clip(scaled, -nvfp4.LARGEST, nvfp4.LARGEST))
        rounded = nvfp4.decode_e2m1(codes) * stored[:, None, :, None]
        c = correct((blocks * encode)[:, 0], rounded[:, 0])
        scales = round_scales(stored * c, random)
    return nvfp4.join(codes, x.shape), scales, decode


def hard_cases():
    """Those of NVFP4, and rows of two groups of 128: random, with a block of zeros, with blocks
    whose scales are subnormal or 0, and with one group of zeros."""
    yield from nvfp4.hard_cases()
    x = np.random.default_rng(20).standard_normal((2, 256)).astype(F32)
    yield "groups", x
    other = x.copy()
    other[:, 32:48] = 0
    yield "groups with a block of zeros", other
    other = x * np.repeat(np.exp2(-np.arange(16, dtype=F32)), 16)
    yield "groups with small scales", other.astype(F32)
    other = x.copy()
    other[:, 128:] *= F32(1e-9)
    yield "a group of elements that become 0", other
    for name, value in ("infinity", np.inf), ("NaN", np.nan):
        other = x.copy()
        other[1, 200] = value
        yield f"groups with {name}", other
    yield "groups of huge values", x * F32(7e37)
    yield "groups of subnormal values", x * F32(1e-41)
    yield "a row of 150", x[:, :150].copy()


if __name__ == "__main__":
    nvfp4.write("nvfp4_eden", quantize, hard_cases())
