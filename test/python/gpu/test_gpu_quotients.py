"""GPU kernels quantize quotients by multiplying with a reciprocal. In the assembled PTX,
the result equals that of a division: near ties, in all ranges, for NaN and infinity."""

import ml_dtypes
import numpy as np
import pytest
from support.gpu_code import compile_ptx, parse
from support.ptx import run

F32 = np.float32
ROWS, COLUMNS = 256, 768
FORMATS = {"f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2}


def list_hard():
    """Lists integers S, X of 24 bits for which X / S is within 2^-21 units in the last
    place of the midpoint between a tie of E4M3 and a neighbor of the tie in f32."""
    found = []
    for near in range(8, 17):
        for scale in range((near << 20) - 8, (near << 20) + 9):
            for middle in range(16, 33):  # Below 32 units are half as large.
                for midpoint in ((middle << 20) - 1, (middle << 20) + 1):
                    for shift in (24, 25):
                        x = round(scale * midpoint / 2**shift)
                        off = (x << shift) - scale * midpoint
                        bits = {value.bit_length() for value in (scale, x)}
                        if bits == {24} and abs(off) <= 8:
                            found.append((scale, x))
    return np.array(sorted(set(found)))


def compile_quotients(path, element):
    """Compiles a kernel that divides each row by its scale and quantizes the result."""
    wide, row = f"tensor<{ROWS}x{COLUMNS}xf32>", f"tensor<{ROWS}xf32>"
    codes = f"tensor<{ROWS}x{COLUMNS}x{element}>"
    path.write_text(f"""
      func.func private @divide(%x: {wide}, %by: {row}) -> {codes}
          attributes {{binade.kernel = #binade.schedule<elementwise>}} {{
        %y = binade.encode %x, %by {{format = #binade.quantized<{element}, per_row,
            scale = f32>, saturate}} : ({wide}, {row}) -> {codes}
        return %y : {codes}
      }}""")
    process = compile_ptx(path, "sm_90")
    assert process.returncode == 0, process.stderr
    (entry,) = parse(process.stdout)
    return entry


def divide(entry, x, scales):
    codes = np.full(x.size, 0xFF, np.uint8)
    memories = [x.reshape(-1).view(np.uint8), scales.view(np.uint8), codes]
    run(entry, [*memories, np.zeros(0, np.uint8)], None)
    return codes.reshape(x.shape)


def encode(x, scales, element):
    with np.errstate(all="ignore"):
        quotients = x / scales[:, None]
    largest = F32(ml_dtypes.finfo(FORMATS[element]).max)
    codes = np.clip(quotients, -largest, largest).astype(FORMATS[element])
    return np.where(np.isnan(quotients), 0x7F, codes.view(np.uint8))


def draw(scales, seed):
    """Draws values whose quotients cover the range of the format, and values near ties."""
    random = np.random.default_rng(seed)
    shape = (ROWS, COLUMNS)
    spread = np.ldexp(F32(1), random.integers(-22, 22, shape)).astype(F32)
    with np.errstate(all="ignore"):
        x = random.standard_normal(shape).astype(F32) * spread * scales[:, None]
        # Values of the format, midpoints between two of them, and their f32 neighbors.
        middle = random.integers(16, 32, shape) * np.ldexp(
            F32(1), random.integers(-16, 8, shape)
        )
        tie = (middle.astype(F32) * scales[:, None]).view(np.int32)
        tie = (tie + random.integers(-1, 2, shape).astype(np.int32)).view(F32)
    return np.where(random.random(shape) < 0.5, x, tie).astype(F32)


@pytest.mark.parametrize("element", FORMATS)
def test_quantized_quotients_equal_those_of_a_division(element, tmp_path):
    entry = compile_quotients(tmp_path / "divide.mlir", element)
    # The reciprocal of the scale, and the slow paths of three vectors.
    assert sum("rcp.rn.f32" in line for line in entry.lines) == 1
    assert sum("div.rn.f32" in line for line in entry.lines) == 3 * 8
    random = np.random.default_rng(3)
    exponents = random.integers(-70, 70, ROWS)
    scales = np.ldexp(1 + random.random(ROWS), exponents).astype(F32)
    # Scales at which prescaling changes (2^32, 2^64), at both ends of the range in which
    # the reciprocal is used, and outside of it.
    ends = [np.ldexp(F32(1), e) for e in (32, 64, -126, 127)]
    ends += [np.nextafter(end, F32(0)) for end in ends[:3]]
    ends += [np.inf, np.nan, 0, 1e-40, -1.5]
    scales[: len(ends)] = ends
    x = draw(scales, 4)
    # Rows of ordinary scale contain vectors with these as well.
    special = [
        0.0,
        -0.0,
        np.inf,
        -np.inf,
        np.nan,
        3.4e38,
        -3.4e38,
        1e-45,
        -1e-45,
        1e-38,
    ]
    for at, value in enumerate(special):
        x[:, 9 * at] = value
    x[20:24, :] = np.array([0.0, -0.0, 1e-45, -1e-38])[:, None]
    np.testing.assert_array_equal(divide(entry, x, scales), encode(x, scales, element))


def test_hard_quotients(tmp_path):
    entry = compile_quotients(tmp_path / "divide.mlir", "f8E4M3FN")
    hard = list_hard()
    assert len(hard) > 50
    scales = np.ones(ROWS, F32)
    x = np.ones((ROWS, COLUMNS), F32)
    chosen = np.unique(hard[:, 0])
    assert len(chosen) <= ROWS
    for row, scale in enumerate(chosen):
        scales[row] = np.ldexp(F32(scale), row % 40 - 20)
        numerators = hard[hard[:, 0] == scale, 1]
        both = np.concatenate([numerators, -numerators]).astype(F32)
        exponents = np.arange(-8, 10)[:, None] + row % 40 - 20
        every = np.ldexp(both, exponents).astype(F32).ravel()
        assert len(every) <= COLUMNS
        x[row, : len(every)] = every
    np.testing.assert_array_equal(
        divide(entry, x, scales), encode(x, scales, "f8E4M3FN")
    )
