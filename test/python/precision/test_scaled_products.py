"""`binade.scaled_matmul`, whose operands have a scale each or per block, compared with f64 in
numpy."""

import ml_dtypes
import numpy as np
import pytest
from support.reference import evaluate, tensor_type

F32 = np.float32
E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
BACKENDS = pytest.mark.parametrize("backend", ["reference", "cpu"])


def blocks_of(size, block):
    return -(-size // block)


class Side:
    """An operand: codes [rows, summands], a scale per block of `own` rows, `block` summands."""

    def __init__(self, rows, summands, own, block, dtype, seed, power=False):
        random = np.random.default_rng(seed)
        self.codes = random.standard_normal((rows, summands)).astype(dtype)
        shape = blocks_of(rows, own), blocks_of(summands, block)
        self.scales = np.exp2(random.uniform(-12, 12, shape)).astype(F32)
        if power:
            self.scales = np.exp2(np.round(np.log2(self.scales))).astype(F32)
        self.own, self.block = own, block

    def decoded(self):
        rows, summands = self.codes.shape
        scales = np.repeat(np.repeat(self.scales, self.own, 0), self.block, 1)
        return self.codes.astype(float) * scales[:rows, :summands]

    def memory(self, padding=0):
        """The scales in the layout of cuBLASLt, with padding in the layout of blocks."""
        if self.own == 1:
            return np.ascontiguousarray(self.scales.T)
        # The padding is never read, so NaN in it must not reach the result.
        return np.pad(self.scales, ((0, 0), (0, padding)), constant_values=np.nan)


def multiply(left, right, block, out="f32", backend="reference", padding=0):
    arrays = [left.codes, left.memory(padding), right.codes, right.memory(padding)]
    return run(arrays, f"{{block = array<i64: {block}>}}", out, backend)


def run(arrays, attributes, out, backend):
    """Multiplies codes by scales; the third array has a row for each column of the result."""
    types = [tensor_type(array.shape, array.dtype) for array in arrays]
    result = tensor_type((len(arrays[0]), len(arrays[2])), out)
    arguments = ", ".join(f"%a{i}: {kind}" for i, kind in enumerate(types))
    operands = ", ".join(f"%a{i}" for i in range(len(arrays)))
    module = f"""
      func.func @f({arguments}) -> {result} {{
        %y = binade.scaled_matmul {operands} {attributes}
          : ({", ".join(types)}) -> {result}
        return %y : {result}
      }}"""
    inputs = {f"arg{i}": array for i, array in enumerate(arrays)}
    return evaluate(module, inputs, "--backend", backend)["result0"]


CASES = {
    "rows by blocks": (24, 160, 384, (1, 128, 128)),
    "blocks by rows": (144, 32, 256, (128, 1, 128)),
    "rows by rows": (48, 64, 256, (1, 1, 128)),
    "partial blocks": (37, 150, 300, (1, 128, 128)),
    "less than a block": (8, 16, 48, (1, 128, 128)),
    "small blocks": (20, 40, 100, (1, 32, 32)),
}


@BACKENDS
@pytest.mark.parametrize("types", [(E4M3, E4M3), (E5M2, E4M3)], ids=["e4m3", "e5m2"])
@pytest.mark.parametrize("name", CASES)
def test_sums_of_blocks_are_multiplied_by_both_scales(name, types, backend):
    m, n, k, (rows, columns, summands) = CASES[name]
    left = Side(m, k, rows, summands, types[0], 1)
    right = Side(n, k, columns, summands, types[1], 2)
    block = f"{rows}, {columns}, {summands}"
    got = multiply(left, right, block, backend=backend, padding=2)
    x, w = left.decoded(), right.decoded()
    size = np.abs(x) @ np.abs(w).T
    # Errors of f32: the additions in a block, two multiplications, the addition of blocks.
    assert (np.abs(got - x @ w.T) <= (k + 2) * 2.0**-24 * size).all()


@BACKENDS
def test_the_result_is_rounded_once(backend):
    """With scales that are powers of two and few nonzero elements, sums in f32 are exact."""
    left = Side(16, 256, 1, 128, E4M3, 3, power=True)
    right = Side(16, 256, 128, 128, E4M3, 4, power=True)
    left.codes[:, 3:128] = left.codes[:, 131:] = 0
    for side in (left, right):
        side.scales[:] = side.scales[:1, :1]
    got = multiply(left, right, "1, 128, 128", "bf16", backend)
    exact = left.decoded() @ right.decoded().T
    np.testing.assert_array_equal(got, exact.astype(F32).astype(ml_dtypes.bfloat16))


@BACKENDS
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_non_finite_values_stay_in_their_row(value, backend):
    left = Side(8, 256, 1, 128, E4M3, 5)
    right = Side(16, 256, 128, 128, E4M3, 6)
    left.scales[3, 1] = value
    got = multiply(left, right, "1, 128, 128", backend=backend)
    assert not np.isfinite(got[3]).any()
    assert np.isfinite(np.delete(got, 3, 0)).all()


@BACKENDS
@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16], ids=["bf16", "f16"])
def test_a_bias_is_added_before_the_result_is_rounded(dtype, backend):
    """Integers and scales that are powers of two: the sums are exact in f32. A bias that is
    added after they are rounded would change the result."""
    random = np.random.default_rng(7)
    codes = [random.integers(-8, 9, size).astype(E4M3) for size in ((24, 64), (48, 64))]
    scales = [np.array(2.0**power, F32) for power in (-3, 2)]
    # Half of the distance of two results, and a little more or less.
    bias = (random.integers(-8, 9, 48) + random.choice([-1, 1], 48) / 64).astype(dtype)
    arrays = [codes[0], scales[0], codes[1], scales[1], bias]
    sums = codes[0].astype(float) @ codes[1].astype(float).T / 2
    exact = sums + bias.astype(float)
    expected = exact.astype(F32).astype(dtype)
    twice = (sums.astype(F32).astype(dtype).astype(float) + bias.astype(float)).astype(
        F32
    )
    assert dtype != ml_dtypes.bfloat16 or (twice.astype(dtype) != expected).any()
    got = run(
        arrays, "", {ml_dtypes.bfloat16: "bf16", np.float16: "f16"}[dtype], backend
    )
    np.testing.assert_array_equal(got, expected)
