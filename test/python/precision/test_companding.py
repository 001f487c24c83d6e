"""Companded formats, compared bit by bit with the published formulas in numpy, and, outside
of the range of f16 scales, with the definition of `#binade.companded`."""

import numpy as np
import pytest
from support.companding import (
    Companded,
    dequantize_as_published,
    quantize,
    quantize_as_published,
)
from support.reference import run

F32, F16 = np.float32, np.float16
FUNCTIONS = ["softsign", "sqrt", "sqrt_softsign"]
BACKENDS = ["reference", "cpu", "simulator", "onnx", "onnx-optimized"]


def draw_groups(function, count):
    """Groups whose largest magnitudes (or roots) are in [2^-24, 65504], narrow and wide."""
    random = np.random.default_rng(11)
    spread = random.choice([0.1, 1, 3, 8], (count, 1))
    x = np.exp2(spread * random.standard_normal((count, 32)))
    x *= random.choice([-1, 1], x.shape)
    x[random.random(x.shape) < 0.05] = 0
    x[:, 0] = 0.5
    x /= np.abs(x).max(1, keepdims=True)
    x *= np.exp2(random.uniform(-23.9, 15.9, (count, 1)))
    x[0], x[1, 1:], x[2] = 0.25, 0, np.linspace(-65504, 65504, 32)
    x = x.ravel()
    return (x if function == "softsign" else x * x).astype(F32)


def same_bits(actual, expected):
    return np.array_equal(actual.view(np.uint8), expected.view(np.uint8))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_bits_are_those_of_the_published_formulas(function, backend):
    x = draw_groups(function, 10_000)
    codes, scale = quantize_as_published(x, function)
    found = quantize(Companded(function), x, backend)
    np.testing.assert_array_equal(found["codes"], codes)
    assert same_bits(found["scale"], scale)
    assert same_bits(found["y"], dequantize_as_published(codes, scale, function))
    # All codes occur: both ends, 0, and every one between.
    word, most = (np.int8, 127) if function == "softsign" else (np.uint8, 255)
    assert set(codes.view(word)) == set(range(-127 if most == 127 else 0, most + 1))


def special_groups(function):
    """Groups by what is special about them; elements, not roots."""
    random = np.random.default_rng(7)
    ramp = np.linspace(-1, 1, 32) * random.permutation(32)
    ramp /= np.abs(ramp).max()

    def scaled(amax):
        return ramp * amax

    def with_one(value):
        group = scaled(2.0)
        group[5] = value
        return group

    groups = {
        "zero": np.zeros(32), "negative zero": np.full(32, -0.0),
        "below the smallest f16": scaled(1e-9), "half of it": scaled(2.0**-25),
        "subnormal": scaled(1e-40), "the smallest f32": with_one(0) * 0 + 1e-45,
        "the smallest f16": scaled(2.0**-24), "a subnormal f16": scaled(3e-6),
        "the largest f16": scaled(65504), "rounded to it": scaled(65519),
        "beyond f16": scaled(65521), "far beyond f16": scaled(1e19),
        "one large": with_one(1e9), "NaN": with_one(np.nan), "infinity": with_one(np.inf),
        "both": with_one(np.inf) + with_one(np.nan),
    }  # fmt: skip
    if function == "softsign":
        groups |= {"the largest f32": scaled(3.4e38), "-infinity": with_one(-np.inf)}
        return {name: group.astype(F32) for name, group in groups.items()}
    with np.errstate(over="ignore"):
        groups = {name: (g * g).astype(F32) for name, g in groups.items()}
    negative = groups["the largest f16"].copy()
    negative[9] = -1
    return groups | {"negative": negative, "the largest f32": np.full(32, 3.4e38, F32)}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_special_groups(function, backend):
    groups, form = special_groups(function), Companded(function)
    tail = np.array([0.1, 0.3, 0.2], F32)
    x = np.concatenate([*groups.values(), tail])
    found = quantize(form, x, backend)
    scale, _, _ = form.choose(x)
    codes, _ = form.encode(x, None)
    np.testing.assert_array_equal(found["scale"], scale)
    np.testing.assert_array_equal(found["codes"].view(np.uint8), codes)
    np.testing.assert_array_equal(found["y"], form.decode([codes, scale], len(x)))
    y = dict(zip(groups, found["y"].reshape(-1)[: 32 * len(groups)].reshape(-1, 32)))
    for name in ("NaN", "infinity", "both"):
        assert np.isnan(y[name]).all(), name
    for name in ("zero", "negative zero"):
        assert (y[name] == 0).all(), name
    assert np.isfinite(
        np.concatenate([y["far beyond f16"], y["the largest f32"]])
    ).all()
    most = F32(65504) if function == "softsign" else F32(65504) ** 2
    assert np.abs(y["far beyond f16"]).max() == np.abs(y["one large"]).max() == most
    # Magnitudes below the smallest scale keep a part of their precision.
    tiny = groups["below the smallest f16"]
    root = np.sqrt if function != "softsign" else np.asarray
    error = np.abs(root(y["below the smallest f16"]) - root(tiny))
    assert error.max() <= 2.0**-24 / 200 < np.abs(root(tiny)).max()


@pytest.mark.parametrize("function", FUNCTIONS)
def test_errors_of_elements(function):
    """An element, or its root, is off by at most half the distance between two values at its
    magnitude, and by the rounding error of the scale."""
    x = draw_groups(function, 2000)
    found = quantize(Companded(function), x, "reference")
    exact, y = x.astype(np.float64), found["y"].astype(np.float64)
    if function != "softsign":
        exact, y = np.sqrt(exact), np.sqrt(y)
    u = np.abs(exact.reshape(-1, 32))
    amax = u.max(1, keepdims=True)
    # dx/dy of x = y / (2 - y) is (1 + x)^2 / 2; the slope of the next value is larger.
    step = 1 / (127 if function == "softsign" else 255)
    slope = (
        1 if function == "sqrt" else (1 + np.minimum(u / amax + 2 * step, 1)) ** 2 / 2
    )
    rounding = np.maximum(
        2.0**-11, 2.0**-25 / amax
    )  # Of the scale, if it is subnormal.
    bound = amax * (1 + rounding) * step / 2 * slope + u * rounding + amax * 2.0**-22
    assert (np.abs(y - exact).reshape(-1, 32) <= bound).all()


def reject(attribute):
    kinds = "(tensor<64xi8>, tensor<2xf16>)"
    process, _ = run(
        f"""func.func @f(%x: tensor<64xf32>) -> tensor<64xi8> {{
  %c, %s = binade.quantize %x {{format = {attribute}}} : (tensor<64xf32>) -> {kinds}
  return %c : tensor<64xi8>
}}""", {"arg0": np.zeros(64, F32)},
    )  # fmt: skip
    assert process.returncode != 0
    return process.stderr


@pytest.mark.parametrize("rest, message", [
    ("scale = bf16", "elements companded by 'sqrt' have scales in f32 or f16, not 'bf16'"),
    ("scale = f16, stochastic", "elements companded by 'sqrt' are rounded to nearest, and "
     "cannot be 'stochastic'"),
    ("scale = f32, expand", "companded elements do not support 'expand'"),
    ("scale = f32, rule = inverse", "scales of a code book and of companded elements follow "
     "'amax', not 'inverse'"),
])  # fmt: skip
def test_formats_that_do_not_exist(rest, message):
    form = f"#binade.quantized<#binade.companded<sqrt>, per_group<32>, {rest}>"
    assert message in reject(form)


def test_scales_in_f16_follow_amax():
    message = reject("#binade.quantized<f8E4M3FN, per_group<32>, scale = f16, expand>")
    assert "scales in f16 need rule 'amax' without 'expand', got 'expand'" in message
