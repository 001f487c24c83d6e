"""Statistics that a step computes equal those of numpy, on every backend."""

import subprocess

import ml_dtypes
import numpy as np
import pytest
from support.paths import BUILD
from support.reference import BF16, F16, evaluate, type_of

F32, F64 = np.float32, np.float64
FORMATS = {
    "f16": F16, "bf16": BF16, "f32": F32,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2,
}  # fmt: skip
SHARES = [f"{s}({f})" for s in ["underflow", "overflow", "saturated"] for f in FORMATS]
NUMBERS = [
    "norm",
    "min",
    "max",
    "absmax",
    "absmean",
    "mean",
    "std",
    "zeros",
    "nonfinite",
]
EXACT = ["min", "max", "absmax", "zeros", "nonfinite", *SHARES]


def watch(module, *requests):
    """Returns the module with the statistics of `requests`."""
    text = subprocess.run(
        [BUILD / "bin" / "binade-opt", "-", f"--binade-insert-requested-statistics=requests={';'.join(requests)}"],
        input=module, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    return text


def write_step(x):
    """Returns a step that negates the state x in one kernel."""
    kind = type_of(x)
    attributes = '{binade.role = #binade.role<state>, binade.name = "m"}'
    return f"""
func.func @step(%x: {kind} {attributes}) -> ({kind} {attributes}) {{
  %y = binade.neg %x : ({kind}) -> {kind} loc("node")
  return %y : {kind}
}}"""


def round_to(x, dtype):
    with np.errstate(over="ignore", invalid="ignore"):
        return x.astype(dtype).astype(F64)


def compute_expected(x):
    """Computes all statistics with numpy in f64."""
    x = np.asarray(x).astype(F64)
    with np.errstate(all="ignore"):
        counts = {
            "norm": np.sqrt(np.sum(x * x)),
            "min": np.min(x), "max": np.max(x), "absmax": np.max(np.abs(x)),
            "absmean": np.mean(np.abs(x)), "mean": np.mean(x),
            "std": np.std(x, ddof=1) if x.size > 1 else np.nan,
            "zeros": np.mean(x == 0), "nonfinite": np.mean(~np.isfinite(x)),
        }  # fmt: skip
        for name, dtype in FORMATS.items():
            y = round_to(x.astype(F32), dtype)
            largest = float(ml_dtypes.finfo(dtype).max)
            vanished = np.sum((y == 0) & (x != 0))
            counts[f"underflow({name})"] = vanished / np.sum(x != 0)
            beyond = ~np.isnan(x) & ~np.isfinite(y)
            counts[f"overflow({name})"] = np.mean(beyond)
            counts[f"saturated({name})"] = np.mean(np.abs(x) >= largest)
    return counts


def samples():
    random = np.random.default_rng(3)
    wide = random.standard_normal((123, 457)) * np.exp2(
        random.integers(-30, 20, (123, 457))
    )
    some = np.where(random.random((64, 33)) < 0.3, 0, random.standard_normal((64, 33)))
    yield "wide", wide.astype(F32)
    yield "sparse f16", some.astype(F16)
    yield "far from 0", (some + 1e3).astype(F32)
    yield "small bf16", (some * 1e-38).astype(BF16)
    yield "infinite", np.where(some > 2, np.inf, some).astype(F32)
    yield "nan", np.where(some > 2, np.nan, some).astype(F32)
    edges = [
        448,
        464,
        480,
        57344,
        61440,
        65504,
        65519.9,
        65520,
        3.39e38,
        2**-25,
        2**-10,
    ]
    edges += [2**-17, 1e-45, 9.2e-41, 4.5e-41]
    yield (
        "edges",
        np.array(edges + [np.nextafter(F32(e), F32(np.inf)) for e in edges], F32),
    )
    yield "one element", np.array(-3e-5, F32)
    yield "zeros", np.zeros((2, 3), F32)


@pytest.mark.parametrize("kind", ["state/m", "output/node"])
@pytest.mark.parametrize("backend", ["reference", "cpu", "simulator"])
@pytest.mark.parametrize("x", [pytest.param(x, id=name) for name, x in samples()])
def test_statistics_equal_those_of_numpy(x, backend, kind):
    names = NUMBERS + SHARES
    module = watch(write_step(x), f"{kind}:{','.join(names)}")
    outputs = evaluate(module, {"m": x}, "--function", "step", "--backend", backend)
    expected = compute_expected(-x if kind == "output/node" else x)
    for name in names:
        found = outputs[f"{kind}/{name}"]
        if name in EXACT:
            np.testing.assert_array_equal(found, F64(expected[name]), err_msg=name)
        else:
            np.testing.assert_allclose(found, expected[name], rtol=1e-9, err_msg=name)


@pytest.mark.nightly
def test_counts_that_f32_cannot_represent():
    """2^24 + 2 elements: one NaN, and 2^24 + 1 zeros."""
    x = np.zeros(2**24 + 2, F16)
    x[12345] = np.nan
    module = watch(write_step(x), "state/m:zeros,nonfinite")
    found = evaluate(module, {"m": x}, "--function", "step", "--backend", "cpu")
    assert found["state/m/zeros"] == (x.size - 1) / x.size
    assert found["state/m/nonfinite"] == 1 / x.size


def spread_exponents():
    """Yields bits of f32 with all exponents, a few, or one, in less and more than a block
    of elements."""
    random = np.random.default_rng(5)
    for size in (1, 16, 63, 1024, 1025, 16384, 40007):
        yield f"all of {size}", random.integers(0, 2**32, size, np.uint32)
    normal = random.standard_normal((3, 12000)).astype(F32).view(np.uint32)
    yield "few", normal
    yield "few, 0", np.where(random.random(normal.shape) < 0.4, 0, normal)
    for name, bits in {
        "0": 0, "subnormal": 0x80000001, "smallest": 0x00800000, "largest": 0xFF7FFFFF,
        "infinite": 0x7F800000, "nan": 0xFFC00000,
    }.items():  # fmt: skip
        yield name, np.full((3, 700), bits, np.uint32)
        yield (
            f"{name} in few",
            np.where(random.random(normal.shape) < 0.01, bits, normal),
        )


@pytest.mark.parametrize(
    "bits", [pytest.param(x, id=name) for name, x in spread_exponents()]
)
def test_exponents_equal_those_of_numpy(bits):
    x = bits.astype(np.uint32).view(F32)
    module = watch(write_step(x), "state/m:exponents")
    outputs = evaluate(module, {"m": x}, "--function", "step", "--backend", "cpu")
    biased = (x.view(np.uint32) >> 23 & 0xFF).ravel()
    np.testing.assert_array_equal(
        outputs["state/m/exponents"], np.bincount(biased, minlength=256)
    )


def patterns(size):
    """Yields all kinds of bits: normal and subnormal values, zeros, infinities and NaN of
    both signs."""
    random = np.random.default_rng(size)
    special = [0, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00000, 0x7F800001,
               0xFF800001, 0x7FFFFFFF, 0xFFFFFFFF, 0x7F7FFFFF, 0xFF7FFFFF, 1, 0x80000001]  # fmt: skip
    yield np.full(size, special[0], np.uint32)
    for bits in special:
        x = random.standard_normal(size).astype(F32).view(np.uint32)
        x[random.integers(size)] = bits
        yield x
        yield np.full(size, bits, np.uint32)
    yield random.integers(0, 2**32, size, np.uint32)


@pytest.mark.parametrize("size", [40007])
def test_extrema_equal_those_of_numpy(size):
    """NaN propagates, and +0 is larger than -0."""
    x = np.stack([bits.view(F32) for bits in patterns(size)])
    names = ["min", "max", "absmax"]
    rows = "".join(
        f"  %y{i} = binade.neg %x{i} : (tensor<{size}xf32>) -> tensor<{size}xf32>\n"
        for i in range(len(x))
    )
    role = "binade.role = #binade.role<state>"
    arguments = ", ".join(
        f'%x{i}: tensor<{size}xf32> {{{role}, binade.name = "x{i}"}}'
        for i in range(len(x))
    )
    results = ", ".join(
        f'tensor<{size}xf32> {{{role}, binade.name = "x{i}"}}' for i in range(len(x))
    )
    returned = ", ".join(f"%y{i}" for i in range(len(x)))
    types = ", ".join(f"tensor<{size}xf32>" for _ in x)
    module = watch(
        f"func.func @step({arguments}) -> ({results}) {{\n{rows}"
        f"  return {returned} : {types}\n}}",
        f"state:{','.join(names)}",
    )
    inputs = {f"x{i}": row for i, row in enumerate(x)}
    outputs = evaluate(module, inputs, "--function", "step", "--backend", "cpu")
    for i, row in enumerate(x):
        expected = {
            "min": np.min(row),
            "max": np.max(row),
            "absmax": np.max(np.abs(row)),
        }
        for name in names:
            found = outputs[f"state/x{i}/{name}"]
            np.testing.assert_array_equal(found, expected[name], err_msg=f"{name} {i}")
            if expected[name] == 0:
                sign = {"min": np.signbit(row).any(), "max": np.signbit(row).all()}
                assert np.signbit(found) == sign.get(name, False), (name, i)
