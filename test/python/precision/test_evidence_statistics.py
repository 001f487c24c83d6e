"""`binade.statistics` counts what numpy counts."""

import json

import numpy as np
import pytest
from support.paths import ROOT
from support.reference import (
    BF16,
    F16,
    evaluate,
    type_of,
)

pytest.importorskip("onnx")

F32 = np.float32
MEMBERS = ["amax", "smallest", "zeros", "nonfinite", "exponents"]
TYPES = dict(zip(MEMBERS, ["f32", "f32", "i64", "i64", "256xi64"]))


def module(x, members):
    results = ", ".join(f"tensor<{TYPES[member]}>" for member in members)
    names = ", ".join(f"%r#{i}" for i in range(len(members)))
    names = names if len(members) > 1 else "%r"
    count = f":{len(members)}" if len(members) > 1 else ""
    return f"""
func.func @f(%x: {type_of(x)}) -> ({results}) {{
  %r{count} = binade.statistics <{"|".join(members)}> %x
      : ({type_of(x)}) -> ({results})
  return {names} : {results}
}}"""


def recount(x):
    """The statistics by numpy; exponents are the exponent fields of f32."""
    x = np.asarray(x).astype(F32)
    magnitudes = np.abs(x)
    nonzero = magnitudes[magnitudes > 0]
    exponents = (magnitudes.view(np.int32) >> 23).ravel()
    return {
        "amax": F32(np.max(magnitudes, initial=0)),
        "smallest": F32(np.min(nonzero[~np.isnan(nonzero)], initial=np.inf)),
        "zeros": np.sum(x == 0),
        "nonfinite": np.sum(~np.isfinite(x)),
        "exponents": np.bincount(exponents, minlength=256),
    }


def samples():
    random = np.random.default_rng(7)
    wild = random.integers(0, 2**32, (3, 50001), dtype=np.uint32).view(F32)
    some = np.where(
        random.random((123, 45)) < 0.4, 0, random.standard_normal((123, 45))
    )
    yield "all bits", wild
    yield "finite", np.where(np.isfinite(wild), wild, -0.0).astype(F32)
    yield "sparse", some.astype(F32)
    yield "bf16", (some * 1e-39).astype(BF16)
    yield "f16", (random.standard_normal(16384 * 2) * 1e-6).astype(F16)
    yield "zeros", np.zeros((2, 3), F32)
    yield "one number", F32(-3e-42)
    yield "infinite", np.full(17, -np.inf, F32)
    yield "nothing", np.zeros((0, 5), F32)


@pytest.mark.parametrize("backend", ["reference", "cpu", "simulator"])
@pytest.mark.parametrize("x", [pytest.param(x, id=name) for name, x in samples()])
def test_statistics_match_numpy(x, backend):
    outputs = evaluate(module(x, MEMBERS), {"arg0": x}, "--backend", backend)
    expected = recount(x)
    for index, member in enumerate(MEMBERS):
        found = outputs[f"result{index}"]
        np.testing.assert_array_equal(found, expected[member], err_msg=member)


def load_gradients():
    text = (ROOT / "test/data/golden/misc.json").read_text()
    case = json.loads(text)["cases"]["stats"]
    return case, np.array([int(x, 16) for x in case["g"]["x"]], np.uint32).view(F32)


def sized(text, g):
    """Replaces the size 1000 in a module by the number of recorded gradients."""
    return text.replace("<1000x", f"<{g.size}x")


MOMENTS = """
func.func @f(%g: tensor<1000x1xf32>)
    -> (tensor<f32>, tensor<f32>, tensor<1xf32>, tensor<1xf32>) {
  %max = binade.reduce_max %g {axes = array<i64: 0, 1>} : (tensor<1000x1xf32>) -> tensor<f32>
  %n = binade.neg %g : (tensor<1000x1xf32>) -> tensor<1000x1xf32>
  %min = binade.reduce_max %n {axes = array<i64: 0, 1>} : (tensor<1000x1xf32>) -> tensor<f32>
  %m:2 = binade.batch_norm_statistics %g {axis = 1 : i64}
      : (tensor<1000x1xf32>) -> (tensor<1xf32>, tensor<1xf32>)
  return %max, %min, %m#0, %m#1 : tensor<f32>, tensor<f32>, tensor<1xf32>, tensor<1xf32>
}
"""


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_moments_of_recorded_gradients(backend):
    case, g = load_gradients()
    outputs = evaluate(sized(MOMENTS, g), {"arg0": g[:, None]}, "--backend", backend)
    largest, negated, mean, variance = (outputs[f"result{i}"] for i in range(4))
    assert (largest, -negated) == (F32(case["max"]), F32(case["min"]))
    np.testing.assert_allclose(mean, case["mean"], rtol=1e-6)
    np.testing.assert_allclose(np.sqrt(variance), case["std_pop"], rtol=1e-6)
    unbiased = np.sqrt(variance * g.size / (g.size - 1))
    np.testing.assert_allclose(unbiased, case["std_unbiased"], rtol=1e-6)


ROUNDED = """
func.func @f(%g: tensor<1000xf32>, %scale: tensor<f32>)
    -> (tensor<f32>, tensor<i64>, tensor<i64>, tensor<256xi64>, tensor<i64>, tensor<256xi64>,
        tensor<i64>, tensor<f64>, tensor<i1>) {
  %all = binade.broadcast %scale {axes = array<i64>} : (tensor<f32>) -> tensor<1000xf32>
  %y = binade.mul %g, %all : (tensor<1000xf32>, tensor<1000xf32>) -> tensor<1000xf32>
  %h = binade.cast %y : (tensor<1000xf32>) -> tensor<1000xf16>
  %b = binade.cast %y : (tensor<1000xf32>) -> tensor<1000xbf16>
  %given:3 = binade.statistics <amax|zeros|exponents> %y
      : (tensor<1000xf32>) -> (tensor<f32>, tensor<i64>, tensor<256xi64>)
  %half:3 = binade.statistics <zeros|nonfinite|exponents> %h
      : (tensor<1000xf16>) -> (tensor<i64>, tensor<i64>, tensor<256xi64>)
  %brain = binade.statistics <zeros> %b : (tensor<1000xbf16>) -> tensor<i64>
  %s:2 = binade.gradient_statistics %y : (tensor<1000xf32>) -> (tensor<f64>, tensor<i1>)
  return %given#0, %given#1, %half#0, %half#2, %half#1, %given#2, %brain, %s#0, %s#1
      : tensor<f32>, tensor<i64>, tensor<i64>, tensor<256xi64>, tensor<i64>, tensor<256xi64>,
        tensor<i64>, tensor<f64>, tensor<i1>
}
"""


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("scale", [1, 65536])
def test_recorded_gradients_in_narrow_formats(scale, backend):
    """Multiplies the gradients by a loss scale and rounds them to f16 and bf16."""
    case, g = load_gradients()
    wanted = case["by_scale"][str(scale)]
    outputs = evaluate(
        sized(ROUNDED, g), {"arg0": g, "arg1": F32(scale)}, "--backend", backend
    )
    amax, zeros, half, in_half, infinite, given, brain, squares, is_bad = (
        outputs[f"result{i}"] for i in range(9)
    )
    assert amax == F32(case["absmax"]) * scale
    np.testing.assert_allclose(np.sqrt(squares), case["l2"] * scale, rtol=1e-12)
    assert not is_bad
    assert g.size - zeros == wanted["nonzero_in"]
    assert half - zeros == wanted["flushed_to_zero_f16"]
    assert infinite == wanted["overflow_f16"]
    assert brain - zeros == wanted["flushed_to_zero_bf16"]
    # Normal values of f16 begin at 2^-14, subnormal ones at 2^-24.
    assert in_half[: 127 - 14].sum() - half == wanted["subnormal_f16"]
    assert given[: 127 - 24].sum() - zeros == wanted["below_min_sub"]


@pytest.mark.parametrize(
    "members", [["exponents"], ["zeros", "nonfinite"], ["smallest"]]
)
def test_subsets_of_the_statistics(members):
    x = np.float32([[0, 1, -2.5], [np.inf, 1e-30, 0]])
    outputs = evaluate(module(x, members), {"arg0": x}, "--backend", "cpu")
    for index, member in enumerate(members):
        np.testing.assert_array_equal(outputs[f"result{index}"], recount(x)[member])


@pytest.fixture
def x():
    x = np.random.default_rng(1).standard_normal((10, 4)).astype(F32)
    x[3] = 0
    return (x * np.logspace(-10, 0, 10)[:, None]).astype(F32)
