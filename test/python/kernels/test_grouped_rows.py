"""One kernel reduces rows and groups of their elements. numpy computes the expected
values."""

import ml_dtypes
import numpy as np
import pytest
from support.reference import evaluate, tensor_type

E4M3, F32 = ml_dtypes.float8_e4m3fn, np.float32
SIZES = {
    "a vector": (16, 256), "several": (128, 384), "parts of one": (24, 240),
    "few": (4, 20), "the row": (64, 64), "across rows": (32, 48), "long": (16, 16384),
}  # fmt: skip


def quantize(x, size):
    flat = x.ravel()
    rest = np.zeros(-flat.size % size, F32)
    groups = np.concatenate([flat, rest]).reshape(-1, size)
    scales = np.abs(groups).max(1) / F32(448)
    codes = (groups / scales[:, None]).astype(E4M3)
    return codes.ravel()[: flat.size].reshape(x.shape), scales


def dequantize(codes, scales, size):
    spread = np.repeat(scales, size)[: codes.size].reshape(codes.shape)
    return codes.astype(F32) * spread


@pytest.mark.parametrize("backend", ["reference", "cpu", "simulator"])
@pytest.mark.parametrize("name", SIZES)
def test_rows_and_their_groups(name, backend):
    size, columns = SIZES[name]
    shape = (5, columns)
    generator = np.random.default_rng(columns)
    a, b = (
        (generator.standard_normal(shape) * np.exp(generator.standard_normal(shape))
         ).astype(F32) for _ in range(2)
    )  # fmt: skip
    form = f"format = #binade.quantized<f8E4M3FN, per_group<{size}>, scale = f32>"
    wide, row = tensor_type(shape, "f32"), tensor_type(shape[:1], "f32")
    codes = tensor_type(shape, "f8E4M3FN")
    scales = tensor_type((-(-a.size // size),), "f32")
    results = [wide, codes, scales, codes, scales, row, row, wide]
    module = f"""
      func.func @f(%a: {wide}, %b: {wide}) -> ({", ".join(results)}) {{
        %x = binade.add %a, %b : ({wide}, {wide}) -> {wide}
        %p:2 = binade.quantize %x {{{form}, saturate}} : ({wide}) -> ({codes}, {scales})
        %most = binade.reduce_max %x {{axes = array<i64: 1>}} : ({wide}) -> {row}
        %spread = binade.broadcast %most {{axes = array<i64: 0>}} : ({row}) -> {wide}
        %y = binade.sub %x, %spread : ({wide}, {wide}) -> {wide}
        %q:2 = binade.quantize %y {{{form}, saturate}} : ({wide}) -> ({codes}, {scales})
        %z = binade.dequantize %q#0, %q#1 {{{form}}} : ({codes}, {scales}) -> {wide}
        %least = binade.reduce_max %z {{axes = array<i64: 1>}} : ({wide}) -> {row}
        %again = binade.broadcast %least {{axes = array<i64: 0>}} : ({row}) -> {wide}
        %w = binade.sub %z, %again : ({wide}, {wide}) -> {wide}
        return %x, %p#0, %p#1, %q#0, %q#1, %most, %least, %w : {", ".join(results)}
      }}"""
    got = evaluate(module, {"arg0": a, "arg1": b}, "--backend", backend)
    x = a + b
    y = x - x.max(1, keepdims=True)
    (p, p_scales), (q, q_scales) = quantize(x, size), quantize(y, size)
    expected = [x, p, p_scales, q, q_scales, x.max(1)]
    z = dequantize(q, q_scales, size)
    expected += [z.max(1), z - z.max(1, keepdims=True)]
    for index, value in enumerate(expected):
        np.testing.assert_array_equal(got[f"result{index}"], value, str(index))


@pytest.mark.parametrize("backend", ["reference", "cpu", "simulator"])
@pytest.mark.parametrize("name", SIZES)
def test_groups_after_a_bias(name, backend):
    size, columns = SIZES[name]
    shape = (3, 4, columns)
    generator = np.random.default_rng(size)
    a, bias = (generator.standard_normal(s).astype(F32) for s in (shape, (columns,)))
    form = f"format = #binade.quantized<f8E4M3FN, per_group<{size}>, scale = f32>"
    wide, row = tensor_type(shape, "f32"), tensor_type((columns,), "f32")
    codes = tensor_type(shape, "f8E4M3FN")
    scales = tensor_type((-(-a.size // size),), "f32")
    module = f"""
      func.func @f(%a: {wide}, %b: {row}) -> ({codes}, {scales}) {{
        %spread = binade.broadcast %b {{axes = array<i64: 2>}} : ({row}) -> {wide}
        %x = binade.add %a, %spread : ({wide}, {wide}) -> {wide}
        %p:2 = binade.quantize %x {{{form}, saturate}} : ({wide}) -> ({codes}, {scales})
        return %p#0, %p#1 : {codes}, {scales}
      }}"""
    got = evaluate(module, {"arg0": a, "arg1": bias}, "--backend", backend)
    for index, value in enumerate(quantize(a + bias, size)):
        np.testing.assert_array_equal(got[f"result{index}"], value, str(index))


@pytest.mark.parametrize("backend", ["reference", "cpu", "simulator"])
def test_non_finite_values_stay_in_their_group(backend):
    x = np.ones((2, 64), F32)
    x[0, 3], x[1, 40], x[1, 16:32] = np.nan, np.inf, 0
    form = "format = #binade.quantized<f8E4M3FN, per_block<1, 16>, scale = f32>"
    module = f"""
      func.func @f(%a: tensor<2x64xf32>) -> (tensor<2x64xf32>, tensor<2xf32>) {{
        %x = binade.neg %a : (tensor<2x64xf32>) -> tensor<2x64xf32>
        %s = binade.reduce_max %x {{axes = array<i64: 1>}}
            : (tensor<2x64xf32>) -> tensor<2xf32>
        %q:2 = binade.quantize %x {{{form}, saturate}}
            : (tensor<2x64xf32>) -> (tensor<2x64xf8E4M3FN>, tensor<2x4xf32>)
        %y = binade.dequantize %q#0, %q#1 {{{form}}}
            : (tensor<2x64xf8E4M3FN>, tensor<2x4xf32>) -> tensor<2x64xf32>
        return %y, %s : tensor<2x64xf32>, tensor<2xf32>
      }}"""
    got = evaluate(module, {"arg0": x}, "--backend", backend)
    y = got["result0"]
    isnan = np.zeros((2, 64), bool)
    isnan[0, :16] = isnan[1, 32:48] = True
    assert not np.isfinite(y[isnan]).any() and np.isnan(y[0, :16]).all()
    np.testing.assert_array_equal(y[~isnan], -x[~isnan])
    np.testing.assert_array_equal(got["result1"], [np.nan, 0])


@pytest.mark.parametrize("backend", ["reference", "cpu", "simulator"])
def test_sums_over_other_axes(backend):
    x = np.random.default_rng(5).integers(-9, 9, (4, 8, 32)).astype(F32)
    module = """
      func.func @f(%a: tensor<4x8x32xf32>) -> (tensor<4x8xf32>, tensor<4xf32>) {
        %x = binade.neg %a : (tensor<4x8x32xf32>) -> tensor<4x8x32xf32>
        %s = binade.reduce_sum %x {axes = array<i64: 2>}
            : (tensor<4x8x32xf32>) -> tensor<4x8xf32>
        %t = binade.reduce_sum %x {axes = array<i64: 1, 2>}
            : (tensor<4x8x32xf32>) -> tensor<4xf32>
        return %s, %t : tensor<4x8xf32>, tensor<4xf32>
      }"""
    got = evaluate(module, {"arg0": x}, "--backend", backend)
    np.testing.assert_array_equal(got["result0"], -x.sum(2))
    np.testing.assert_array_equal(got["result1"], -x.sum((1, 2)))


@pytest.mark.parametrize("backend", ["reference", "cpu", "simulator"])
def test_row_results_that_share_memory(backend):
    """The difference may reuse the memory of its operand, which is returned as well."""
    a, b = np.random.default_rng(3).integers(-9, 9, (2, 16, 16)).astype(F32)
    module = """
      func.func @f(%a: tensor<16x16xf32>, %b: tensor<16x16xf32>)
          -> (tensor<16xf32>, tensor<16xf32>) {
        %p = binade.reduce_max %a {axes = array<i64: 1>}
            : (tensor<16x16xf32>) -> tensor<16xf32>
        %n = binade.neg %b : (tensor<16x16xf32>) -> tensor<16x16xf32>
        %q = binade.reduce_max %n {axes = array<i64: 1>}
            : (tensor<16x16xf32>) -> tensor<16xf32>
        %d = binade.sub %p, %q : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
        return %d, %q : tensor<16xf32>, tensor<16xf32>
      }"""
    got = evaluate(module, {"arg0": a, "arg1": b}, "--backend", backend)
    np.testing.assert_array_equal(got["result0"], a.max(1) + b.min(1))
    np.testing.assert_array_equal(got["result1"], -b.min(1))


@pytest.mark.parametrize("backend", ["reference", "cpu", "simulator"])
def test_row_results_are_broadcast_over_groups(backend):
    x = np.random.default_rng(4).integers(-9, 9, (5, 48)).astype(F32)
    module = """
      func.func @f(%x: tensor<5x48xf32>) -> (tensor<5x3xf32>, tensor<5x3xf32>) {
        %y = binade.neg %x : (tensor<5x48xf32>) -> tensor<5x48xf32>
        %r = binade.reduce_max %y {axes = array<i64: 1>}
            : (tensor<5x48xf32>) -> tensor<5xf32>
        %g = binade.group_max %y {size = 16} : (tensor<5x48xf32>) -> tensor<5x3xf32>
        %s = binade.broadcast %r {axes = array<i64: 0>}
            : (tensor<5xf32>) -> tensor<5x3xf32>
        %t = binade.add %s, %s : (tensor<5x3xf32>, tensor<5x3xf32>) -> tensor<5x3xf32>
        return %g, %t : tensor<5x3xf32>, tensor<5x3xf32>
      }"""
    got = evaluate(module, {"arg0": x}, "--backend", backend)
    np.testing.assert_array_equal(got["result0"], -x.reshape(5, 3, 16).min(2))
    expected = np.repeat(-2 * x.min(1)[:, None], 3, 1)
    np.testing.assert_array_equal(got["result1"], expected)


@pytest.mark.parametrize("backend", ["reference", "cpu", "simulator"])
def test_row_results_are_broadcast_along_columns(backend):
    """In a square matrix, the maximum of row j may be subtracted from column j."""
    x = np.random.default_rng(6).integers(-9, 9, (4, 4)).astype(F32)
    module = """
      func.func @f(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4xf32>) {
        %m = binade.reduce_max %x {axes = array<i64: 1>}
            : (tensor<4x4xf32>) -> tensor<4xf32>
        %b = binade.broadcast %m {axes = array<i64: 1>}
            : (tensor<4xf32>) -> tensor<4x4xf32>
        %y = binade.sub %x, %b : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
        return %y, %m : tensor<4x4xf32>, tensor<4xf32>
      }"""
    got = evaluate(module, {"arg0": x}, "--backend", backend)
    np.testing.assert_array_equal(got["result0"], x - x.max(1)[None])
    np.testing.assert_array_equal(got["result1"], x.max(1))


@pytest.mark.parametrize("backend", ["reference", "cpu", "simulator"])
def test_one_row_that_is_one_group(backend):
    x = np.random.default_rng(8).integers(-9, 9, (1, 64)).astype(F32)
    form = "format = #binade.quantized<f8E4M3FN, per_block<1, 64>, scale = f32>"
    module = f"""
      func.func @f(%x: tensor<1x64xf32>) -> (tensor<1x1xf32>, tensor<1xf32>) {{
        %y = binade.neg %x : (tensor<1x64xf32>) -> tensor<1x64xf32>
        %q:2 = binade.quantize %y {{{form}, saturate}}
            : (tensor<1x64xf32>) -> (tensor<1x64xf8E4M3FN>, tensor<1x1xf32>)
        %z = binade.dequantize %q#0, %q#1 {{{form}}}
            : (tensor<1x64xf8E4M3FN>, tensor<1x1xf32>) -> tensor<1x64xf32>
        %m = binade.reduce_max %z {{axes = array<i64: 1>}}
            : (tensor<1x64xf32>) -> tensor<1xf32>
        return %q#1, %m : tensor<1x1xf32>, tensor<1xf32>
      }}"""
    got = evaluate(module, {"arg0": x}, "--backend", backend)
    codes, scales = quantize(-x, 64)
    np.testing.assert_array_equal(got["result0"].ravel(), scales)
    np.testing.assert_array_equal(got["result1"], dequantize(codes, scales, 64).max(1))
