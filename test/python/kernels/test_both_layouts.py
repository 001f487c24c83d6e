"""Kernels that quantize in groups along columns and along rows, compared with numpy."""

import ml_dtypes
import numpy as np
import pytest
from support.reference import evaluate, run, tensor_type

E4M3, F32 = ml_dtypes.float8_e4m3fn, np.float32
# Name: (rows, columns, size of groups in a column, size of groups in a row).
SIZES = {
    "128": (256, 384, 128, 128), "32": (64, 96, 32, 32), "16": (48, 112, 16, 16),
    "long": (16, 512, 8, 256), "parts of a vector": (24, 40, 12, 20),
    "one column": (64, 1, 32, 1), "one group": (32, 48, 32, 48),
    "partial group of rows": (50, 64, 32, 32), "partial group of columns": (64, 50, 32, 32),
    "one row": (1, 128, 1, 64), "three vectors": (16, 96, 16, 12),
    "more than a warp": (8, 576, 4, 192),
}  # fmt: skip


def quantize(x, size):
    """Quantizes groups of `size` elements of a row. Returns values and scales."""
    rows, columns = x.shape
    groups = -(-columns // size)
    padded = np.pad(x, ((0, 0), (0, groups * size - columns)))
    padded = padded.reshape(rows, groups, size)
    amax = np.abs(padded).max(2)
    scales = np.where(amax > 0, amax, F32(1)) / F32(448)
    codes = (padded / scales[..., None]).astype(E4M3)
    return codes.reshape(rows, groups * size)[:, :columns], scales


def draw(shape):
    generator = np.random.default_rng(shape[-1])
    spread = np.exp(generator.standard_normal(shape))
    return (generator.standard_normal(shape) * spread).astype(F32)


def form(down, across):
    return f"format = #binade.quantized<f8E4M3FN, per_block<{down}, {across}>, scale = f32>"


@pytest.mark.parametrize("backend", ["reference", "cpu", "simulator"])
@pytest.mark.parametrize("source", ["memory", "fused op", "view of a fused op"])
@pytest.mark.parametrize("name", SIZES)
def test_both_layouts(name, source, backend):
    rows, columns, down, across = SIZES[name]
    shape = before = (rows, columns)
    if source == "view of a fused op":
        before = (2, rows // 2, columns) if rows % (2 * down) == 0 else (1, *shape)
    a = draw(before)
    wide, given = tensor_type(shape, "f32"), tensor_type(before, "f32")
    codes = tensor_type(shape, "f8E4M3FN")
    low = tensor_type((-(-rows // down), columns), "f32")
    side = tensor_type((rows, -(-columns // across)), "f32")
    results = [codes, low, codes, side, given]
    body = f"%x = binade.mul %a, %a : ({given}, {given}) -> {given}"
    value = "%x"
    if source == "memory":
        body, value = "", "%a"
    if before != shape:
        body += f"\n%v = binade.reshape %x : ({given}) -> {wide}"
        value = "%v"
    module = f"""
      func.func @f(%a: {given}) -> ({", ".join(results)}) {{
        {body}
        %p:2 = binade.quantize {value} {{{form(down, 1)}, saturate}} : ({wide}) -> ({codes}, {low})
        %q:2 = binade.quantize {value} {{{form(1, across)}, saturate}} : ({wide}) -> ({codes}, {side})
        %y = binade.neg %a : ({given}) -> {given}
        return %p#0, %p#1, %q#0, %q#1, %y : {", ".join(results)}
      }}"""
    process, got = run(module, {"arg0": a}, "--backend", backend)
    assert process.returncode == 0, process.stderr
    x = (a if source == "memory" else a * a).reshape(shape)
    transposed, low_scales = quantize(np.ascontiguousarray(x.T), down)
    plain, side_scales = quantize(x, across)
    expected = [transposed.T, low_scales.T, plain, side_scales, -a]
    for index, value in enumerate(expected):
        np.testing.assert_array_equal(got[f"result{index}"], value, str(index))


@pytest.mark.parametrize("backend", ["reference", "cpu", "simulator"])
def test_expensive_values_are_stored_between_passes_over_the_rows(backend):
    """Both layouts quantize the same results of an expensive op."""
    shape, wide = (64, 96), tensor_type((64, 96), "f32")
    codes = tensor_type(shape, "f8E4M3FN")
    low, side = tensor_type((2, 96), "f32"), tensor_type((64, 3), "f32")
    results = [codes, low, codes, side]
    module = f"""
      func.func @f(%a: {wide}) -> ({", ".join(results)}) {{
        %x = binade.tanh %a : ({wide}) -> {wide}
        %p:2 = binade.quantize %x {{{form(32, 1)}, saturate}} : ({wide}) -> ({codes}, {low})
        %q:2 = binade.quantize %x {{{form(1, 32)}, saturate}} : ({wide}) -> ({codes}, {side})
        return %p#0, %p#1, %q#0, %q#1 : {", ".join(results)}
      }}"""
    a = draw(shape)
    got = evaluate(module, {"arg0": a}, "--backend", backend)
    decoded = got["result0"].astype(F32) * np.repeat(got["result1"], 32, 0)
    np.testing.assert_allclose(decoded, np.tanh(a), rtol=1 / 14, atol=2e-3)
    again = got["result2"].astype(F32) * np.repeat(got["result3"], 32, 1)
    np.testing.assert_allclose(again, np.tanh(a), rtol=1 / 14, atol=2e-3)


@pytest.mark.parametrize("backend", ["reference", "cpu", "simulator"])
@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0])
def test_non_finite_values_stay_in_their_column(value, backend):
    shape, wide = (64, 32), tensor_type((64, 32), "f32")
    codes, low = tensor_type(shape, "f8E4M3FN"), tensor_type((2, 32), "f32")
    module = f"""
      func.func @f(%a: {wide}) -> ({codes}, {low}, {wide}) {{
        %p:2 = binade.quantize %a {{{form(32, 1)}, saturate}} : ({wide}) -> ({codes}, {low})
        %y = binade.dequantize %p#0, %p#1 {{{form(32, 1)}}} : ({codes}, {low}) -> {wide}
        return %p#0, %p#1, %y : {codes}, {low}, {wide}
      }}"""
    a = draw(shape)
    a[:32, 5] = 0
    a[7, 5] = value
    got = evaluate(module, {"arg0": a}, "--backend", backend)
    y = got["result2"]
    assert np.isfinite(np.delete(y, 5, 1)).all() and np.isfinite(y[32:, 5]).all()
    if np.isnan(value):
        assert np.isnan(y[7, 5])
    elif value == 0:
        assert (y[:32, 5] == 0).all()
    else:
        assert not abs(y[7, 5]) < 1e30
