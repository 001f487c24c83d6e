"""Merging of casts by binade-simplify-casts changes no value.

The pass may replace a cast of a cast by one cast if every value stays the same. The test
runs it on every pair of casts between formats and evaluates the casts before and after
the pass, with conversions written in numpy: on all values of a source format of 8 or
16 bits, and on a large sample with ties, neighbours and special values of a wider one.
"""

import collections
import functools
import itertools
import re
import subprocess

import ml_dtypes
import numpy as np
import pytest
from support.paths import BUILD
from support.reference import evaluate, evaluate_op

Format = collections.namedtuple("Format", "dtype precision low largest inf nan zeros")
# Bits of the significand, smallest exponent of normal values, largest value, and whether
# the format has infinities, NaN and signed zeros.
FORMATS = {
    "f64": Format(np.float64, 53, -1022, np.finfo("f8").max, True, True, True),
    "f32": Format(np.float32, 24, -126, float(np.finfo("f4").max), True, True, True),
    "bf16": Format(ml_dtypes.bfloat16, 8, -126, (2 - 2.0**-7) * 2.0**127, True, True, True),
    "f16": Format(np.float16, 11, -14, 65504.0, True, True, True),
    "f8E5M2": Format(ml_dtypes.float8_e5m2, 3, -14, 57344.0, True, True, True),
    "f8E4M3": Format(ml_dtypes.float8_e4m3, 4, -6, 240.0, True, True, True),
    "f8E3M4": Format(ml_dtypes.float8_e3m4, 5, -2, 15.5, True, True, True),
    "f8E4M3FN": Format(ml_dtypes.float8_e4m3fn, 4, -6, 448.0, False, True, True),
    "f8E5M2FNUZ": Format(ml_dtypes.float8_e5m2fnuz, 3, -15, 57344.0, False, True, False),
    "f8E4M3FNUZ": Format(ml_dtypes.float8_e4m3fnuz, 4, -7, 240.0, False, True, False),
    "f8E4M3B11FNUZ": Format(ml_dtypes.float8_e4m3b11fnuz, 4, -10, 30.0, False, True, False),
    "f4E2M1FN": Format(ml_dtypes.float4_e2m1fn, 2, 0, 6.0, False, False, True),
}  # fmt: skip
# The formats that Binade computes in. For these, MISSED lists all pairs of casts that
# could be merged but are not.
CORE = ["f64", "f32", "bf16", "f16", "f8E5M2", "f8E4M3FN"]

MISSED = {  # The value is the number of pairs of `saturate` flags, of four.
    ("bf16", "f16", "f8E4M3FN"): 4,
    ("bf16", "f16", "f8E5M2"): 4,
}


def convert(x, name, saturate):
    """Rounds `x` (f64) to a format, to nearest even, and returns the values as f64."""
    f = FORMATS[name]
    with np.errstate(all="ignore"):
        exponent = np.maximum(np.frexp(x)[1] - 1, f.low)
        step = np.ldexp(1.0, exponent - f.precision + 1)
        y = (
            np.where(np.isfinite(x), np.rint(x / step) * step, x)
            if name != "f64"
            else x
        )
        beyond = (
            f.largest
            if saturate or not (f.inf or f.nan)
            else np.inf
            if f.inf
            else np.nan
        )
        y = np.where(np.abs(y) > f.largest, np.copysign(beyond, x), y)
    y = np.where(np.isnan(x), np.nan if f.nan else f.largest, y)
    return y if f.zeros else np.where(y == 0, 0.0, y)


@functools.cache
def values(name):
    """Returns all values of a format of at most 16 bits, and a sample of a wider one."""
    dtype = FORMATS[name].dtype
    if dtype is not None and np.dtype(dtype).itemsize <= 2:
        unsigned = np.uint8 if np.dtype(dtype).itemsize == 1 else np.uint16
        codes = np.arange(16 if "f4" in name else 1 << np.dtype(unsigned).itemsize * 8)
        with np.errstate(invalid="ignore"):
            return codes.astype(unsigned).view(dtype).astype(np.float64)
    narrow = [
        n for n, f in FORMATS.items() if f.dtype and np.dtype(f.dtype).itemsize == 1
    ]
    points = np.unique(np.concatenate([values(n) for n in narrow]))
    points = points[np.isfinite(points)]
    random = np.random.default_rng(0)
    with np.errstate(over="ignore", invalid="ignore"):
        sample = random.standard_normal(4000) * 2.0 ** random.integers(-160, 140, 4000)
        wide = random.choice(values("f16"), 1500), random.choice(values("bf16"), 1500)
        largest = [f.largest * s for f in FORMATS.values() for s in (1, 1.001, 1.06, 2)]
        base = np.concatenate(
            [points, (points[1:] + points[:-1]) / 2, *wide, sample, largest]
        )
        near = [
            base * (1 + sign * 2.0**-bits)
            for sign in (1, -1)
            for bits in (3, 8, 11, 12, 24, 25, 52)
        ]
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, 2.0**-149, 2.0**-150]
    x = np.concatenate([base, -base, *near, special])
    return np.unique(convert(x, name, False).view(np.uint64)).view(np.float64)


@functools.cache
def cast(source, target, saturate):
    return convert(values(source), target, saturate)


def chain(source, middle, target, first, second):
    return convert(cast(source, middle, first), target, second)


def same(x, y):
    """Compares values and the signs of zeros; all NaNs are equal."""
    return np.array_equal(
        np.where(np.isnan(x), np.nan, x), np.where(np.isnan(y), np.nan, y), equal_nan=True
    ) and np.array_equal(np.signbit(x[x == 0]), np.signbit(y[y == 0]))  # fmt: skip


def function(number, formats, flags):
    types = [f"tensor<8x{name}>" for name in formats]
    flags = ["{saturate} " if flag else "" for flag in flags]
    return f"""
  func.func @f{number}(%x: {types[0]}) -> {types[2]} {{
    %y = binade.cast %x {flags[0]}: ({types[0]}) -> {types[1]}
    %z = binade.cast %y {flags[1]}: ({types[1]}) -> {types[2]}
    return %z : {types[2]}
  }}"""


@pytest.fixture(scope="module")
def table():
    """Maps each pair of casts (formats, flags) to the casts that the pass leaves, as
    pairs of a format and a flag.
    """
    rows = list(
        itertools.product(
            itertools.product(FORMATS, repeat=3),
            itertools.product((False, True), repeat=2),
        )
    )
    rows = [row for row in rows if row[0][0] != row[0][1] and row[0][1] != row[0][2]]
    module = "".join(function(n, *row) for n, row in enumerate(rows))
    process = subprocess.run(
        [BUILD / "bin" / "binade-opt", "--binade-simplify-casts"],
        input=module, capture_output=True, text=True, check=True,
    )  # fmt: skip
    bodies = process.stdout.split("func.func ")[1:]
    assert len(bodies) == len(rows)
    found = re.compile(r"binade\.cast %\w+ (\{saturate\} )?: \(.*\) -> tensor<8x(\w+)>")
    return {
        row: [(name, bool(flag)) for flag, name in found.findall(body)]
        for row, body in zip(rows, bodies)
    }


def test_conversions_agree_with_ml_dtypes():
    """An independent library confirms the conversions that this test uses."""
    x = values("f32")
    for name, f in FORMATS.items():
        if f.dtype is None or name in ("f64", "f4E2M1FN"):
            continue
        with np.errstate(all="ignore"):
            expected = x.astype(np.float32).astype(f.dtype).astype(np.float64)
        assert same(convert(x, name, False), expected), name


@pytest.mark.parametrize("name", ["f32", "f16", "bf16", "f8E5M2", "f8E4M3FN"])
@pytest.mark.parametrize("source", ["f16", "bf16", "f32", "f8E5M2"])
@pytest.mark.parametrize("saturate", [False, True])
def test_conversions_agree_with_the_reference(source, name, saturate):
    dtype = FORMATS[source].dtype
    with np.errstate(all="ignore"):
        x = values(source).astype(dtype)
    flag = "saturate" if saturate else ""
    (y,) = evaluate_op("cast", [x], [(x.shape, FORMATS[name].dtype)], flag)
    assert same(y.astype(np.float64), cast(source, name, saturate))


COMPILED = ["f64", "f32", "f16", "bf16"]


def test_compiled_casts_agree_with_the_reference():
    """One step contains all casts, including those that only saturate."""
    casts = list(itertools.product(COMPILED, COMPILED, (False, True)))
    casts = [(s, t, flag) for s, t, flag in casts if s != t or flag]
    inputs = {}
    for number, name in enumerate(COMPILED):
        with np.errstate(all="ignore"):
            inputs[f"arg{number}"] = values(name).astype(FORMATS[name].dtype)
    type_of = {n: inputs[f"arg{i}"].shape[0] for i, n in enumerate(COMPILED)}
    type_in = lambda source, name: f"tensor<{type_of[source]}x{name}>"
    arguments = ", ".join(f"%{n}: {type_in(n, n)}" for n in COMPILED)
    types = ", ".join(type_in(s, t) for s, t, _ in casts)
    body = "".join(
        f"    %{n} = binade.cast %{s} {'{saturate} ' if flag else ''}: "
        f"({type_in(s, s)}) -> {type_in(s, t)}\n"
        for n, (s, t, flag) in enumerate(casts)
    )
    results = ", ".join(f"%{n}" for n in range(len(casts)))
    module = f"""module {{
  func.func @step({arguments}) -> ({types}) {{
{body}    return {results} : {types}
  }}
}}"""
    outputs = evaluate(module, inputs, "--backend", "cpu")
    for number, (source, name, saturate) in enumerate(casts):
        y = outputs[f"result{number}"].astype(np.float64)
        assert same(y, cast(source, name, saturate)), (source, name, saturate)


BYTES = [n for n, f in FORMATS.items() if f.dtype and np.dtype(f.dtype).itemsize == 1]


@pytest.mark.parametrize("byte", [name for name in BYTES if name != "f4E2M1FN"])
def test_compiled_casts_of_bytes_agree_with_the_reference(byte):
    """Casts from and to each format that kernels compute in, for all codes of the byte."""
    casts = list(itertools.product(COMPILED, [byte], (False, True)))
    casts += [(byte, name, False) for name in COMPILED]
    inputs, arguments = {}, []
    for number, name in enumerate([*COMPILED, byte]):
        with np.errstate(all="ignore"):
            x = values(name).astype(FORMATS[name].dtype)
        # Safetensors files have types for two of the formats; others are stored as bytes.
        is_code = name == byte and name not in CORE
        inputs[f"arg{number}"] = np.arange(256, dtype=np.uint8) if is_code else x
        arguments.append(f"%{name}: tensor<{x.size}x{name}>")
    lines, types = [], []
    for number, (source, name, flag) in enumerate(casts):
        pair = [f"tensor<{values(source).size}x{n}>" for n in (source, name)]
        saturate = "{saturate} " if flag else ""
        lines.append(f"%{number} = binade.cast %{source} {saturate}: "
                     f"({pair[0]}) -> {pair[1]}")  # fmt: skip
        types.append(pair[1])
    results = ", ".join(f"%{n}" for n in range(len(casts)))
    module = f"""module {{
  func.func @step({", ".join(arguments)}) -> ({", ".join(types)}) {{
    {"".join(line + chr(10) for line in lines)}
    return {results} : {", ".join(types)}
  }}
}}"""
    outputs = evaluate(module, inputs, "--backend", "cpu")
    for number, (source, name, saturate) in enumerate(casts):
        y = outputs[f"result{number}"]
        if name == byte:
            y = y.view(np.uint8).view(FORMATS[byte].dtype)
        y = y.astype(np.float64)
        assert same(y, cast(source, name, saturate)), (source, name, saturate)


def test_merged_casts_change_no_value(table):
    merged = {row: left for row, left in table.items() if len(left) < 2}
    assert len(merged) > 500
    for ((source, middle, target), flags), left in merged.items():
        before = chain(source, middle, target, *flags)
        after = values(source)
        for name, saturate in left:
            assert name == target
            after = convert(after, name, saturate)
        assert same(before, after), (source, middle, target, flags, left)


def test_casts_that_could_be_merged_and_are_not(table):
    """The rule checks whether the format in the middle holds every value of the first
    one, not whether a difference would survive the last cast.
    """
    missed = collections.defaultdict(set)
    for (formats, flags), left in table.items():
        if len(left) < 2 or not set(formats) <= set(CORE):
            continue
        source, _, target = formats
        before = chain(source, *formats[1:], *flags)
        if any(same(before, cast(source, target, flag)) for flag in (False, True)):
            missed[formats].add(flags)
    assert {formats: len(flags) for formats, flags in missed.items()} == MISSED
