"""GPU kernels that reduce columns of what they load and compute, such as a bias's gradient."""

import ml_dtypes
import numpy as np
import pytest
from support.counted_kernels import draw, run_rows
from support.reference import evaluate, tensor_type

F32, BF16 = np.float32, ml_dtypes.bfloat16


# Blocks that all have the same number of rows, and a last one with fewer; vectors of eight
# and of four elements; less than a warp of them.
@pytest.mark.parametrize(
    ("rows", "columns", "element"),
    [(512, 768, "bf16"), (70, 768, "bf16"), (5, 1280, "f32"), (512, 24, "bf16")],
)
def test_sums_of_columns_take_no_other_read(rows, columns, element, tmp_path):
    dtype = {"bf16": BF16, "f32": F32}[element]
    x, y = (draw((rows, columns), seed).astype(dtype) for seed in (3, 4))
    tensor, wide = (tensor_type(x.shape, e) for e in (element, "f32"))
    sums = f"tensor<{columns}xf32>"
    body = f"""
      %y0 = binade.mul %x0, %x1 : ({tensor}, {tensor}) -> {tensor}
      %y1 = binade.add %x0, %x1 : ({tensor}, {tensor}) -> {tensor}
      %wide = binade.cast %y0 : ({tensor}) -> {wide}
      %y2 = binade.reduce_sum %wide {{axes = array<i64: 0>}} : ({wide}) -> {sums}"""
    if element == "f32":
        body = body.replace(f"%wide = binade.cast %y0 : ({tensor}) -> {wide}", "")
        body = body.replace("%wide", "%y0")
    (product, total, found), loads = run_rows(
        tmp_path / "kernel.mlir",
        body,
        [(x, element), (y, element)],
        [
            (x.shape, element, dtype),
            (x.shape, element, dtype),
            ((columns,), "f32", F32),
        ],
        schedule="column_reduction",
    )
    want = (x.astype(F32) * y.astype(F32)).astype(dtype)
    np.testing.assert_array_equal(product, want)
    np.testing.assert_array_equal(total, (x.astype(F32) + y.astype(F32)).astype(dtype))
    # A thread adds at most a few dozen rows in f32.
    bound = 64 * 2.0**-24 * np.abs(want.astype(np.float64)).sum(axis=0)
    assert (np.abs(found - want.astype(np.float64).sum(axis=0)) <= bound).all()
    # Threads without a row repeat the first one of their block.
    assert np.median(loads) == 1 or rows < 64


@pytest.mark.parametrize("backend", ["reference", "cpu", "simulator"])
@pytest.mark.parametrize("shape", [(4, 30, 64), (2, 600, 768)])
def test_a_reduction_reads_through_a_reshape(shape, backend):
    """All axes but the last, of a matrix that is a view of the tensor."""
    count = shape[0] * shape[1]
    x = draw(shape)
    tensor, matrix = tensor_type(shape, "f32"), tensor_type((count, shape[2]), "f32")
    module = f"""func.func @f(%x: {tensor}) -> ({tensor}, tensor<{shape[2]}xf32>) {{
        %y = binade.neg %x : ({tensor}) -> {tensor}
        %m = binade.reshape %y : ({tensor}) -> {matrix}
        %s = binade.reduce_sum %m {{axes = array<i64: 0>}}
            : ({matrix}) -> tensor<{shape[2]}xf32>
        return %y, %s : {tensor}, tensor<{shape[2]}xf32>
      }}"""
    found = evaluate(module, {"arg0": x}, "--backend", backend)
    np.testing.assert_array_equal(found["result0"], -x)
    want = -x.astype(np.float64).reshape(count, -1).sum(axis=0)
    bound = 64 * 2.0**-24 * np.abs(x).reshape(count, -1).sum(axis=0)
    assert (np.abs(found["result1"] - want) <= bound).all()
