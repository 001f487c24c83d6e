"""Kernels that compute with the maxima of groups. numpy computes the expected values."""

import ml_dtypes
import numpy as np
import pytest
from support.reference import evaluate, tensor_type

E4M3, F32 = ml_dtypes.float8_e4m3fn, np.float32
backends = pytest.mark.parametrize("backend", ["reference", "cpu", "simulator"])


def draw(shape):
    return np.random.default_rng(shape[-1]).standard_normal(shape).astype(F32)


@backends
@pytest.mark.parametrize("size, columns", [(8, 16), (16, 48), (32, 160)])
def test_scales_of_blocks_in_rows(size, columns, backend):
    """A kernel reads scales that it computes, and returns neither these nor quantized values."""
    shape, groups = (3, columns), (3, columns // size)
    x = draw(shape)
    parts = x.reshape(*groups, size)
    scale = np.abs(parts).max(2, keepdims=True) / F32(448)
    rounded = (parts / scale).astype(E4M3).astype(F32) * scale
    form = f"format = #binade.quantized<f8E4M3FN, per_block<1, {size}>, scale = f32>"
    wide, codes = tensor_type(shape, "f32"), tensor_type(shape, "f8E4M3FN")
    scales = tensor_type(groups, "f32")
    readers = {
        "group_max": (scales, f"size = {size}", rounded.max(2)),
        "neg": (wide, "", -rounded.reshape(shape)),
    }
    for op, (result, attributes, expected) in readers.items():
        module = f"""
          func.func @f(%x: {wide}) -> {result} {{
            %q:2 = binade.quantize %x {{{form}, saturate}} : ({wide}) -> ({codes}, {scales})
            %y = binade.dequantize %q#0, %q#1 {{{form}}} : ({codes}, {scales}) -> {wide}
            %z = binade.{op} %y {{{attributes}}} : ({wide}) -> {result}
            return %z : {result}
          }}"""
        got = evaluate(module, {"arg0": x}, "--backend", backend)
        np.testing.assert_array_equal(got["result0"], expected, op)


@backends
@pytest.mark.parametrize("size", [4, 8])
def test_as_many_groups_in_rows_as_in_columns(size, backend):
    """The first operand of the maximum does not show whether it has an element per group in a
    row or per group in a column."""
    batches, rows, columns = shape = (2, 2 * size, 3 * size)
    x, limits = draw(shape), draw(shape[:2])
    wide, limit = tensor_type(shape, "f32"), tensor_type(shape[:2], "f32")
    across = tensor_type((batches, rows, 3), "f32")
    down = tensor_type((batches, 2, columns), "f32")
    module = f"""
      func.func @f(%x: {wide}, %limits: {limit}) -> ({across}, {down}) {{
        %n = binade.neg %x : ({wide}) -> {wide}
        %spread = binade.broadcast %limits {{axes = array<i64: 0, 1>}} : ({limit}) -> {across}
        %down = binade.group_max %n {{size = {size}, axis = -2}} : ({wide}) -> {down}
        %across = binade.group_max %n {{size = {size}}} : ({wide}) -> {across}
        %limited = binade.max %spread, %across : ({across}, {across}) -> {across}
        return %limited, %down : {across}, {down}
      }}"""
    got = evaluate(module, {"arg0": x, "arg1": limits}, "--backend", backend)
    across = (-x).reshape(batches, rows, 3, size).max(3)
    down = (-x).reshape(batches, 2, size, columns).max(2)
    expected = np.maximum(limits[:, :, None], across)
    np.testing.assert_array_equal(got["result0"], expected)
    np.testing.assert_array_equal(got["result1"], down)
