#!/usr/bin/env python3
"""Writes golden/nvfp4.json: tensors quantized to NVFP4 by the published formulas.

NVFP4 (NVIDIA, arXiv 2509.25149) as Transformer Engine's reference quantizer computes it, in
f32 numpy: E2M1 by its list of thresholds, scales in E4M3 for each block, and a factor for the
tensor. Tests import `quantize` for random tensors; the file holds the hard cases.
"""

import json
from pathlib import Path

import numpy as np

F32 = np.float32
MAX = np.finfo(F32).max
LARGEST, LARGEST_SCALE = F32(6), F32(448)
VALUES = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], F32)
# A magnitude above a limit, or equal to it where marked, belongs to the next value.
LIMITS = [(0.25, False), (0.75, True), (1.25, False), (1.75, True), (2.5, False),
          (3.5, True), (5.0, False)]  # fmt: skip


def encode_e2m1(x):
    """The codes of f32 values; the sign is bit 3."""
    magnitude = np.abs(x)
    code = np.zeros(x.shape, np.uint8)
    for limit, isUp in LIMITS:
        code += magnitude >= limit if isUp else magnitude > limit
    return code | np.signbit(x).astype(np.uint8) << 3


def decode_e2m1(code):
    return np.where(code & 8, -VALUES[code & 7], VALUES[code & 7])


def decode_e4m3(code):
    """The values of the codes 0 to 126, without NaN."""
    exponent, fraction = code >> 3, (code & 7).astype(F32)
    normal = np.ldexp(1 + fraction / 8, exponent.astype(int) - 7)
    return np.where(exponent == 0, fraction * F32(2.0**-9), normal).astype(F32)


def encode_e4m3(x):
    """The codes of nonnegative f32 values up to 448, to nearest even; NaN is 127."""
    values = decode_e4m3(np.arange(127, dtype=np.uint8))
    middles = (values[1:] + values[:-1]) / 2
    below = np.searchsorted(middles, x, "left")  # a middle value goes down,
    isOdd = np.isin(x, middles) & (below % 2 == 1)  # unless that code is odd
    return np.where(np.isnan(x), 127, below + isOdd).astype(np.uint8)


def encode_randomly(x, random):
    """The codes of stochastic rounding: the larger neighbor if `random`, in [0, 1), is less
    than the fraction of the distance from the smaller one."""
    magnitude = np.abs(x).astype(float)
    low = np.searchsorted(VALUES[:-2], magnitude, "right") - 1
    low = np.where(magnitude >= VALUES[-2], 6, low)
    way = (magnitude - VALUES[low]) / (VALUES[low + 1] - VALUES[low])
    code = (low + (random < way)).astype(np.uint8)
    return code | np.signbit(x).astype(np.uint8) << 3


def tensor_factor(amax, peak=LARGEST, scale=LARGEST_SCALE):
    """The factor by which the magnitudes of the tensor are mapped to the peak times `scale`."""
    factor = np.minimum(F32(peak * float(scale)) / amax, MAX)
    return F32(1) if amax == 0 or factor == 0 else factor


def cut(x, rows, columns):
    """Blocks: [down, row, across, column], filled up with zeros."""
    down, across = -(-x.shape[0] // rows), -(-x.shape[1] // columns)
    padded = np.zeros((down * rows, across * columns), F32)
    padded[: x.shape[0], : x.shape[1]] = x
    return padded.reshape(down, rows, across, columns)


def store_scale(scale, decode):
    """The E4M3 codes of scales, their values, and the factors of elements."""
    code = encode_e4m3(np.minimum(scale, LARGEST_SCALE))
    # A scale of NaN makes the block NaN, whatever its elements' codes are.
    stored = np.where(code == 127, F32(np.nan), decode_e4m3(np.minimum(code, 126)))
    return code, stored, np.minimum(F32(1) / (stored * decode), MAX)


def join(blocks, shape):
    """The elements of blocks as a tensor of two axes, without filling."""
    down, rows, across, columns = blocks.shape
    return blocks.reshape(down * rows, across * columns)[: shape[0], : shape[1]]


def quantize(x, rows=1, columns=16, random=None, peak=LARGEST):
    """Codes of the elements, E4M3 codes of the scales of blocks, and the tensor's scale.

    `x` has two axes. Blocks at the ends of rows and columns are filled up with zeros. `random`
    has a value for each element if it is rounded stochastically. `peak`, 6 unless scales have
    headroom, is the value that the largest magnitude of a block is mapped to.
    """
    with np.errstate(all="ignore"):
        encode = tensor_factor(np.abs(x).max(), peak)
        decode = F32(1) / encode
        blocks = cut(x, rows, columns)
        amax = np.abs(blocks).max((1, 3))
        scale = np.minimum(amax * (encode * (F32(1) / F32(peak))), MAX)
        code, _, inverse = store_scale(scale, decode)
        scaled = np.clip(blocks * inverse[:, None, :, None], -LARGEST, LARGEST)
    scaled = join(scaled, x.shape)
    codes = encode_e2m1(scaled) if random is None else encode_randomly(scaled, random)
    return codes, code, decode


SHARED = F32(256)  # The largest scale that may be multiplied by 6 / 4.


def sum_squares(squares):
    """Sums of blocks: columns in order, then the rows by halves."""
    total = np.zeros(squares.shape[:3], F32)
    for column in range(squares.shape[3]):
        total = total + squares[..., column]
    while total.shape[1] > 1:
        half = total.shape[1] // 2
        total = total[:, :half] + total[:, half:]
    return total[:, 0]


def quantize_four_six(x, rows=1, columns=16):
    """As `quantize`, with the better of two scales of each block (Four Over Six, arXiv
    2512.02010, with the mean squared error of Transformer Engine's reference)."""
    with np.errstate(all="ignore"):
        largest = np.abs(x).max()
        encode = tensor_factor(largest, LARGEST, SHARED)
        decode = F32(1) / encode
        blocks = cut(x, rows, columns)
        unit = np.abs(blocks).max((1, 3)) / LARGEST * encode
        tried = []
        for stretch in F32(1), F32(1.5):
            code, stored, inverse = store_scale(unit * stretch, decode)
            scaled = np.clip(blocks * inverse[:, None, :, None], -LARGEST, LARGEST)
            codes = encode_e2m1(scaled)
            back = decode_e2m1(codes) * stored[:, None, :, None] * largest
            error = back / (LARGEST * SHARED) - blocks
            tried.append((codes, code, sum_squares(error * error)))
        (six, scale, error), (four, other, less) = tried
        pick = less < error
    codes = np.where(pick[:, None, :, None], four, six)
    return join(codes, x.shape), np.where(pick, other, scale), decode


def dequantize(codes, scales, tensor_scale, rows=1, columns=16):
    stored = np.where(scales == 127, F32(np.nan), decode_e4m3(np.minimum(scales, 126)))
    spread = np.repeat(np.repeat(stored, rows, 0), columns, 1)
    values = decode_e2m1(codes)
    return values * spread[: values.shape[0], : values.shape[1]] * tensor_scale


def draw(random, shape):
    """A random tensor: magnitudes over all of f32's range, with blocks of zeros, subnormals,
    infinities and NaN in some of them."""
    x = random.standard_normal(shape).astype(F32)
    x *= np.exp2(random.integers(-12, 12, (shape[0], 1))).astype(F32)
    with np.errstate(over="ignore", under="ignore"):
        x *= F32(
            2.0 ** float(random.choice([-140, -126, -60, -20, 0, 0, 0, 20, 60, 110]))
        )
    if random.random() < 0.3:
        x[:, 16 * random.integers(0, max(shape[1] // 16, 1)) :][:, :16] = 0
    if random.random() < 0.1:
        x[random.integers(shape[0])] = 0
    for value, share in ((np.inf, 0.03), (-np.inf, 0.02), (np.nan, 0.03), (1e-45, 0.1)):
        if random.random() < share:
            x[random.integers(shape[0]), random.integers(shape[1])] = value
    if random.random() < 0.02:
        x[:] = 0
    return x


def hard_cases():
    ramp = np.arange(1, 33, dtype=F32).reshape(1, 32)
    yield "ramp", ramp
    yield "zeros", np.zeros((2, 32), F32)
    yield "a block of zeros", np.concatenate([ramp[:, :16] * 0, ramp[:, 16:]], 1)
    yield "ties", np.tile(np.array([limit for limit, _ in LIMITS] + [6], F32), (1, 4))
    yield "a scale that becomes 0", np.concatenate([ramp[:, :16] * F32(1e-8), ramp], 1)
    yield "subnormal", ramp * F32(1e-43)
    yield "tiny", ramp * F32(1e-37)
    yield "largest", ramp * (MAX / F32(32))
    for name, value in ("infinity", np.inf), ("NaN", np.nan):
        x = ramp.copy()
        x[0, 5] = value
        yield name, x


def write(name, rule, tensors):
    cases = []
    for title, x in tensors:
        codes, scales, scale = rule(x)
        cases.append({
            "name": title, "shape": x.shape,
            "in": [f"0x{bits:08x}" for bits in x.view(np.uint32).ravel()],
            "codes": codes.ravel().tolist(), "scales": scales.ravel().tolist(),
            "tensor_scale": f"0x{int(np.asarray(scale, F32).view(np.uint32)):08x}",
        })  # fmt: skip
    target = Path(__file__).parent / "golden" / f"{name}.json"
    target.write_text(json.dumps({"cases": cases}, separators=(",", ":")) + "\n")


def main():
    assert list(encode_e2m1(np.array([0.25, 0.75, 1.25, 2.5, 3.5, 5, 5.0001, 7, -5], F32))) == [
        0x0, 0x2, 0x2, 0x4, 0x6, 0x6, 0x7, 0x7, 0xE]  # fmt: skip
    write("nvfp4", quantize, hard_cases())
    write("nvfp4_four_six", quantize_four_six, hard_cases())


if __name__ == "__main__":
    main()
