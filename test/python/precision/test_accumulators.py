"""`binade.scaled_matmul` with `accumulation`, compared bit for bit with exact arithmetic."""

import os

import ml_dtypes
import numpy as np
import pytest
from support import accumulation as model
from support.accumulation import E4M3, E5M2, F32
from support.reference import evaluate, tensor_type

BACKENDS = pytest.mark.parametrize("backend", ["reference", "cpu"])
HOPPER = (14, 32, 0)


def attribute(bits, step, promote):
    return (
        "accumulation = #binade.accumulation<"
        f"bits = {bits}, step = {step}, promote = {promote}>"
    )


def run(arrays, kind, attributes, backend, out="f32"):
    """Multiplies rows of the first and of the third array."""
    types = [tensor_type(array.shape, array.dtype) for array in arrays]
    left, right = arrays[0].shape, arrays[2].shape
    result = tensor_type((*left[:-1], right[-2]), out)
    arguments = ", ".join(f"%a{i}: {kind}" for i, kind in enumerate(types))
    operands = ", ".join(f"%a{i}" for i in range(len(arrays)))
    module = f"""
      func.func @f({arguments}) -> {result} {{
        %y = binade.scaled_matmul {operands} {{{", ".join([attribute(*kind), *attributes])}}}
          : ({", ".join(types)}) -> {result}
        return %y : {result}
      }}"""
    inputs = {f"arg{i}": array for i, array in enumerate(arrays)}
    return evaluate(module, inputs, "--backend", backend)["result0"]


def check(x, y, kind, backend, scales=(1.0, 1.0)):
    scales = [F32(scale) for scale in scales]
    arrays = [x, np.array(scales[0]), y, np.array(scales[1])]
    got = run(arrays, kind, [], backend)
    wanted = model.multiply(x, lambda *_: scales[0], y, lambda *_: scales[1], *kind)
    np.testing.assert_array_equal(got.view(np.uint32)[~np.isnan(wanted)],
                                  wanted.view(np.uint32)[~np.isnan(wanted)])  # fmt: skip
    assert np.isnan(got[np.isnan(wanted)]).all()
    return got, wanted


def draw(shape, dtype, seed, kind="normal"):
    random = np.random.default_rng(seed)
    x = random.standard_normal(shape)
    if kind == "wide":  # Every exponent, subnormal elements and zeros.
        low, high = (-11, 8) if dtype == E4M3 else (-18, 15)
        x = np.sign(x) * np.exp2(random.uniform(low, high, shape))
        x[random.random(shape) < 0.1] = 0
    return x.astype(dtype)


@BACKENDS
@pytest.mark.parametrize("kind", ["normal", "wide"])
@pytest.mark.parametrize("types", [(E4M3, E4M3), (E5M2, E4M3), (E5M2, E5M2)],
                         ids=["e4m3", "e5m2-e4m3", "e5m2"])  # fmt: skip
@pytest.mark.parametrize("terms", [1, 31, 33, 300])
def test_results_are_those_of_exact_arithmetic(terms, types, kind, backend):
    x = draw((7, terms), types[0], terms, kind)
    y = draw((19, terms), types[1], terms + 1, kind)
    check(x, y, HOPPER, backend)
    check(x, y, (14, 32, 64), backend, (0.37, 3.1e-3))


@BACKENDS
@pytest.mark.parametrize("bits", [8, 13, 24])
@pytest.mark.parametrize("step, promote", [(1, 0), (4, 12), (16, 16), (30, 90)])
def test_every_key_changes_the_sum_as_defined(bits, step, promote, backend):
    x, y = draw((3, 700), E4M3, 5, "wide"), draw((5, 700), E5M2, 6, "wide")
    check(x, y, (bits, step, promote), backend)


@BACKENDS
def test_products_that_cancel(backend):
    """The exact sum is that of small products, which alignment with large ones truncates."""
    x, y = draw((4, 256), E4M3, 7), draw((6, 256), E4M3, 8)
    x[:, ::4], x[:, 1::4] = 448, -448
    y[:, ::4], y[:, 1::4] = 416, 416
    got, _ = check(x, y, HOPPER, backend)
    exact = x.astype(float) @ y.astype(float).T
    assert (np.abs(got - exact) > 0.05 * np.abs(exact)).any()


@BACKENDS
def test_products_are_aligned_by_the_exponents_of_their_factors(backend):
    """1.875 x 1.875 has exponent 0 although it is at least 2, and a subnormal element has the
    exponent of the smallest normal one."""
    x, y = np.zeros((1, 32), E4M3), np.zeros((1, 32), E4M3)
    x[0, :3], y[0, :3] = [1.875, 2.0**-6, 2.0**-6], [1.875, 2.0**-7, 2.0**-7]
    # The unit is 2^-13. With exponent 1 it would be 2^-12, and both small products were lost.
    assert check(x, y, (14, 32, 0), backend)[0] == 3.515625 + 2.0**-12
    x[0, :3], y[0, :3] = [2.0**-9, 2.0**-3, 0], [448, 2.0**-3, 0]
    # The exponents are -6 and 8, and the unit is 2^-5. With that of 0.875, 2^-6 would count.
    assert check(x, y, (8, 32, 0), backend)[0] == 0.875


@BACKENDS
def test_the_accumulator_takes_part_in_the_alignment(backend):
    """After 448^2, each instruction of small products is lost as a whole."""
    x, y = np.ones((1, 64), E4M3), np.ones((1, 64), E4M3)
    x[0, 0] = y[0, 0] = 448
    x[0, 1:32] = 0
    assert check(x, y, (14, 32, 0), backend)[0] == 448**2
    assert check(x, y, (14, 32, 32), backend)[0] == 448**2 + 32


@BACKENDS
def test_values_that_are_not_finite(backend):
    x, y = draw((8, 96), E5M2, 9), draw((18, 96), E5M2, 10)
    x[0, 5], x[1, 90], x[2, 3], x[2, 70] = np.nan, np.inf, np.inf, np.inf
    y[4, 5], y[17, 40], y[6, 90] = 0, -np.inf, 0
    x[7], y[9] = 0, 0
    got, wanted = check(x, y, (14, 32, 64), backend)
    assert np.isnan(wanted).any() and np.isposinf(wanted).any()
    assert np.isneginf(wanted).any() and np.isfinite(got[3:, :4]).all()
    assert got[7, 0] == 0


@BACKENDS
@pytest.mark.parametrize(
    "rows, columns, summands", [(1, 128, 128), (1, 1, 48), (8, 5, 32)]
)
def test_blocks_have_sums_of_their_own(rows, columns, summands, backend):
    random = np.random.default_rng(11)
    x, y = draw((9, 300), E4M3, 12), draw((21, 300), E4M3, 13)
    blocks = -(-300 // summands)

    def scales(count):
        return np.exp2(random.uniform(-9, 9, (count, blocks))).astype(F32)

    left, right = scales(-(-9 // rows)), scales(-(-21 // columns))
    arrays = [x, left.T.copy() if rows == 1 else left, y,
              right.T.copy() if columns == 1 else right]  # fmt: skip
    for kind in (HOPPER, (14, 32, 64)):
        got = run(
            arrays,
            kind,
            [f"block = array<i64: {rows}, {columns}, {summands}>"],
            backend,
        )
        wanted = model.multiply(
            x, lambda i, b: left[i // rows, b], y, lambda j, b: right[j // columns, b],
            *kind, summands,
        )  # fmt: skip
        np.testing.assert_array_equal(got.view(np.uint32), wanted.view(np.uint32))


@BACKENDS
@pytest.mark.parametrize("out", ["f32", "bf16", "f16"])
def test_biases_and_batches(out, backend):
    dtype = {"f32": F32, "bf16": ml_dtypes.bfloat16, "f16": np.float16}[out]
    x, y = draw((2, 5, 70), E4M3, 14), draw((2, 18, 70), E5M2, 15)
    bias = np.random.default_rng(16).standard_normal(18).astype(dtype)
    scales = [np.array(0.3, F32), np.array(1.7, F32)]
    got = run([x, scales[0], y, scales[1], bias], HOPPER, [], backend, out)
    for left, right, result in zip(x, y, got):
        totals = model.multiply(
            left, lambda *_: scales[0], right, lambda *_: scales[1], *HOPPER
        )
        wanted = (totals + bias.astype(F32)).astype(dtype)
        np.testing.assert_array_equal(result, wanted)


@pytest.fixture(params=["one core", "all cores"])
def cores(request):
    """The number of threads is that of the cores on which the process may run."""
    before = os.sched_getaffinity(0)
    if request.param == "one core":
        os.sched_setaffinity(0, {min(before)})
    yield
    os.sched_setaffinity(0, before)


@pytest.mark.parametrize("isa", ["x86-64-v3", "x86-64-v4"])
def test_any_number_of_threads_and_lanes(cores, isa, monkeypatch):
    """More than one task in each direction, and more than one piece of the summed axis."""
    x, y = draw((130, 1100), E4M3, 17), draw((140, 1100), E4M3, 18)
    scale = np.array(1.0, F32)
    wanted = run([x, scale, y, scale], (14, 32, 128), [], "reference")
    monkeypatch.setenv("BINADE_ISA", isa)
    got = run([x, scale, y, scale], (14, 32, 128), [], "cpu")
    np.testing.assert_array_equal(got.view(np.uint32), wanted.view(np.uint32))


def test_the_published_error_of_long_sums():
    """DeepSeek-V3 (arXiv 2412.19437), section 3.3.2, reports relative errors of nearly 2 % with
    4096 summed elements, and adds the accumulator to an f32 after each 128."""
    scale = np.array(1.0, F32)

    def error(x, y, promote):
        exact = x.astype(float) @ y.astype(float).T
        got = run([x, scale, y, scale], (14, 32, promote), [], "cpu")
        return np.median(np.abs(got - exact) / np.abs(exact))

    # Terms of both signs, and positive ones, which lose most: all are truncated downward.
    x, y = draw((64, 4096), E4M3, 19), draw((64, 4096), E4M3, 20)
    assert 5e-4 < error(x, y, 0) < 2e-3 and error(x, y, 128) < error(x, y, 0) / 5
    x, y = np.abs(x.astype(F32)).astype(E4M3), np.abs(y.astype(F32)).astype(E4M3)
    assert 0.03 < error(x, y, 0) < 0.1 and error(x, y, 128) < 1e-3
