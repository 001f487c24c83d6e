"""In the simulator, kernels of the gpu dialect compute the values of the reference and
have no race."""

import numpy as np
import pytest
from support.random_functions import check
from support.reference import BF16, ELEMENTS, evaluate, run, tensor_type, type_of

F32 = np.float32
SHAPES = [(1, 1), (3, 7), (16, 64), (33, 129), (300, 20), (2, 9000)]


def draw(shape):
    return np.random.default_rng(shape[-1]).standard_normal(shape).astype(F32)


@pytest.mark.parametrize("seed", range(60))
def test_random_functions(seed):
    check(seed, "simulator", of_rows=seed % 2 == 0)


@pytest.mark.nightly
@pytest.mark.parametrize("block", range(10))
def test_many_random_functions(block):
    for seed in range(100 * (block + 1), 100 * (block + 2)):
        check(seed, "simulator", of_rows=seed % 2 == 0)


@pytest.mark.parametrize("op", ["softmax", "gelu", "exp", "layer_norm"])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, shape)))
def test_values_are_within_their_bounds(op, shape):
    wide, row = tensor_type(shape, "f32"), tensor_type(shape[-1:], "f32")
    rows = tensor_type(shape[:1], "f32")
    inputs = {"arg0": draw(shape)}
    module = f"""func.func @f(%x: {wide}) -> {wide} {{
        %y = binade.{op} %x : ({wide}) -> {wide}
        return %y : {wide}
      }}"""
    if op == "layer_norm":
        inputs |= {"arg1": draw(shape[-1:]), "arg2": draw(shape[-1:])}
        module = f"""func.func @f(%x: {wide}, %w: {row}, %b: {row}) -> {wide} {{
            %y, %m, %r = binade.layer_norm %x, %w, %b {{epsilon = 1.0e-5}}
              : ({wide}, {row}, {row}) -> ({wide}, {rows}, {rows})
            return %y : {wide}
          }}"""
    process, _ = run(module, inputs, "--backend", "simulator", "--check")
    assert process.returncode == 0, process.stdout + process.stderr


@pytest.mark.parametrize("grouping", ["per_row", "per_block<1, 32>", "per_group<16>"])
@pytest.mark.parametrize("element", ["f8E4M3FN", "f8E5M2"])
def test_quantized_values_equal_those_of_the_reference(element, grouping):
    shape = (37, 96)
    scales = {"per_row": (37,), "per_block<1, 32>": (37, 3), "per_group<16>": (222,)}[
        grouping
    ]
    form = f"format = #binade.quantized<{element}, {grouping}, scale = f32>"
    wide, codes = tensor_type(shape, "f32"), tensor_type(shape, element)
    scale = tensor_type(scales, "f32")
    module = f"""func.func @f(%x: {wide}) -> ({codes}, {scale}) {{
        %g = binade.neg %x : ({wide}) -> {wide}
        %q:2 = binade.quantize %g {{{form}, saturate}} : ({wide}) -> ({codes}, {scale})
        return %q#0, %q#1 : {codes}, {scale}
      }}"""
    x = draw(shape)
    x[3, :40] = 0
    x[5, 7], x[6, 8] = np.nan, np.inf
    expected = evaluate(module, {"arg0": x}, "--backend", "reference")
    got = evaluate(module, {"arg0": x}, "--backend", "simulator")
    for name, value in expected.items():
        same = got[name].view(np.uint8) == value.view(np.uint8)
        isnan = np.isnan(value.astype(F32)) & np.isnan(got[name].astype(F32))
        width = value.dtype.itemsize
        assert (same.reshape(-1, width).all(1) | isnan.ravel()).all(), name


def add_rows(gradient, indices, rows):
    """Returns the table of `rows` rows to which gather_grad adds those of `gradient`, as the
    simulator computes it."""
    table_type = tensor_type((rows, gradient.shape[-1]), gradient.dtype)
    dy, i = type_of(gradient), type_of(indices)
    module = f"""func.func @f(%dy: {dy}, %i: {i}) -> {table_type} {{
        %y = binade.gather_grad %dy, %i : ({dy}, {i}) -> {table_type}
        return %y : {table_type}
      }}"""
    inputs = {"arg0": gradient, "arg1": indices}
    return evaluate(module, inputs, "--backend", "simulator")["result0"]


@pytest.mark.parametrize("different", [1, 3, 40, 2000])
@pytest.mark.parametrize("count", [31, 700])
def test_gradient_rows_are_accumulated_in_order(count, different):
    rows, width = 2000, 70
    random = np.random.default_rng(count + different)
    indices = random.integers(0, different, count)
    gradient = draw((count, width))
    expected = np.zeros((rows, width), F32)
    for index, row in zip(indices, gradient):
        expected[index] += row
    found = add_rows(gradient, indices, rows)
    np.testing.assert_array_equal(found, expected)


# Widths of vectors of eight elements, of four and of one; of several blocks of columns, and
# of less than a warp.
@pytest.mark.parametrize(
    ("rows", "width", "element"),
    [(2000, 768, "f32"), (130, 2056, "bf16"), (5, 1, "f32"), (300, 33, "f16")],
)
@pytest.mark.parametrize("integer", [np.int32, np.int64])
def test_gradient_rows_of_any_width(rows, width, element, integer):
    random = np.random.default_rng(width)
    indices = random.integers(-rows, rows, (3, 700)).astype(integer)
    indices[1, 20:40] = 2  # Neighbours of one row.
    gradient = draw((*indices.shape, width)).astype(ELEMENTS[element])
    sums = np.zeros((rows, width), F32)
    for index, row in zip(indices.reshape(-1), gradient.reshape(-1, width)):
        sums[index] += row.astype(F32)
    found = add_rows(gradient, indices, rows)
    np.testing.assert_array_equal(found, sums.astype(ELEMENTS[element]))


EMPTY = {
    "neg": ((0, 64), (0, 64), ""),
    "softmax": ((5, 0), (5, 0), ""),
    "transpose": ((0, 5), (5, 0), "permutation = array<i64: 1, 0>"),
    "reduce_sum": ((0, 64), (64,), "axes = array<i64: 0>"),
    "reduce_max": ((64, 0), (64,), "axes = array<i64: 1>"),
    "reduce_sum, rows": ((0, 64), (0,), "axes = array<i64: 1>"),
    "reduce_sum, all": ((0, 64), (), "axes = array<i64: 0, 1>"),
    "reduce_sum, middle": ((3, 0, 8), (3, 8), "axes = array<i64: 1>"),
}


@pytest.mark.parametrize("backend", ["cpu", "simulator"])
@pytest.mark.parametrize("case", EMPTY)
def test_tensors_without_elements(case, backend):
    before, after, attributes = EMPTY[case]
    op = case.split(",")[0]
    x, y = tensor_type(before, "f32"), tensor_type(after, "f32")
    module = f"""func.func @f(%x: {x}) -> {y} {{
        %y = binade.{op} %x {{{attributes}}} : ({x}) -> {y}
        return %y : {y}
      }}"""
    found = evaluate(module, {"arg0": np.zeros(before, F32)}, "--backend", backend)
    # The sum of no elements is 0, their maximum is -inf.
    expected = np.full(after, -np.inf if op == "reduce_max" else 0, F32)
    np.testing.assert_array_equal(found["result0"], expected)


@pytest.mark.parametrize("backend", ["cpu", "simulator"])
@pytest.mark.parametrize("narrow", [BF16, np.float16], ids=["bf16", "f16"])
def test_integers_are_converted_to_narrow_floats(narrow, backend):
    x = np.arange(-70, 70)
    i, t, y = (tensor_type(x.shape, dtype) for dtype in (np.int64, np.bool_, narrow))
    module = f"""func.func @f(%x: {i}, %t: {t}) -> ({y}, {y}) {{
        %a = binade.cast %x : ({i}) -> {y}
        %b = binade.cast %t : ({t}) -> {y}
        return %a, %b : {y}, {y}
      }}"""
    found = evaluate(module, {"arg0": x, "arg1": x > 3}, "--backend", backend)
    np.testing.assert_array_equal(found["result0"], x.astype(narrow))
    np.testing.assert_array_equal(found["result1"], (x > 3).astype(narrow))
