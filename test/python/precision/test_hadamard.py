"""The Hadamard transform, compared bit for bit with numpy."""

import sys

import ml_dtypes
import numpy as np
import pytest
from support.hadamard import FIXED, SIZES, sylvester, transform
from support.paths import ROOT
from support.quantization import backends
from support.reference import evaluate, tensor_type

sys.path.append(str(ROOT / "test/data"))
import make_nvfp4 as published  # noqa: E402

F32, BF16 = np.float32, ml_dtypes.bfloat16
TYPES = {F32: "f32", BF16: "bf16"}


def apply(x, size, backend, signs=None, axis=-1, result=F32):
    types = [tensor_type(x.shape, TYPES[x.dtype.type])]
    types += [tensor_type((size,), "f32")] if signs is not None else []
    out = tensor_type(x.shape, TYPES[result])
    names = [f"%x{i}" for i in range(len(types))]
    arguments = ", ".join(f"{n}: {t}" for n, t in zip(names, types))
    module = f"""
      func.func @f({arguments}) -> {out} {{
        %y = binade.hadamard %x0 {"signs(%x1)" if signs is not None else ""}
          {{size = {size} : i64, axis = {axis} : i64}} : ({", ".join(types)}) -> {out}
        return %y : {out}
      }}"""
    inputs = {"arg0": x} | ({} if signs is None else {"arg1": signs})
    return evaluate(module, inputs, "--backend", backend)["result0"]


def same(found, expected):
    """NaN may have any sign."""
    bits = np.uint32 if expected.dtype == F32 else np.uint16
    both = np.isnan(found.astype(F32)) & np.isnan(expected.astype(F32))
    np.testing.assert_array_equal(
        np.where(both, 0, found.view(bits)), np.where(both, 0, expected.view(bits))
    )


SHAPES = [(3, 256), (128, 5), (2, 128, 128), (1, 128), (128, 1), (256, 33)]


@backends
@pytest.mark.parametrize("size", SIZES)
def test_bits(size, backend):
    """Values of all magnitudes, of which some groups have zeros, infinities or NaN."""
    random = np.random.default_rng(size)
    for shape in SHAPES:
        axis = -1 if shape[-1] % size == 0 else -2
        x = random.standard_normal(shape).astype(F32)
        x *= np.exp2(random.integers(-40, 40, shape)).astype(F32)
        x.flat[random.integers(x.size, size=3)] = 0, np.inf, np.nan
        signs = random.choice([-1, 1], size).astype(F32)
        for given in (None, signs):
            found = apply(x, size, backend, given, axis)
            same(found, transform(x, size, given, axis))


@backends
def test_columns_of_a_square_matrix(backend):
    x = np.random.default_rng(1).standard_normal((64, 64)).astype(F32)
    rows, columns = (apply(x, 16, backend, FIXED, axis) for axis in (-1, -2))
    same(rows, transform(x, 16, FIXED))
    same(columns, transform(x.T, 16, FIXED).T.copy())


@backends
def test_narrow_operands_and_results(backend):
    """The transform is in f32, and its result is rounded once."""
    x = np.random.default_rng(2).standard_normal((8, 64)).astype(BF16)
    for result in (F32, BF16):
        expected = transform(x, 64, FIXED.repeat(4)).astype(result)
        same(apply(x, 64, backend, FIXED.repeat(4), result=result), expected)


@pytest.mark.parametrize("size", SIZES)
def test_the_matrix_is_orthonormal(size):
    """The matrix of Sylvester's construction in f64; twice the transform is the identity."""
    x = np.random.default_rng(3).standard_normal((16, size)).astype(F32)
    y = apply(x, size, "cpu")
    np.testing.assert_allclose(y, x @ sylvester(size), rtol=0, atol=3e-6)
    np.testing.assert_allclose(apply(y, size, "cpu"), x, rtol=0, atol=3e-6)


FORM = "f4E2M1FN, per_block<{}>, scale = f8E4M3FN, tensor_scale = f32, rule = rounded_inverse"


def multiply(x, w, isQuantized, backend):
    """The product of operands that are transformed along the summed axis, and then, if
    `isQuantized`, quantized to NVFP4 along it."""
    types = [tensor_type(value.shape, "f32") for value in (x, w)]
    lines, read = [], []
    for name, value, t, axis, block in (
        ("x", x, types[0], -1, "1, 16"), ("w", w, types[1], -2, "16, 1")):  # fmt: skip
        lines.append(f"%h{name} = binade.hadamard %{name} signs(%s) {{axis = {axis} : i64, "
                     f"size = 16 : i64}} : ({t}, tensor<16xf32>) -> {t}")  # fmt: skip
        read.append(f"%d{name}" if isQuantized else f"%h{name}")
        if not isQuantized:
            continue
        scales = [n // 16 if i == axis % 2 else n for i, n in enumerate(value.shape)]
        parts = ", ".join([tensor_type(value.shape, "i8"), tensor_type(scales, "f8E4M3FN"),
                           "tensor<f32>"])  # fmt: skip
        form = f"format = #binade.quantized<{FORM.format(block)}>"
        lines += [
            f"%q{name}:3 = binade.quantize %h{name} {{{form}, saturate}} : ({t}) -> ({parts})",
            f"%d{name} = binade.dequantize %q{name}#0, %q{name}#1, %q{name}#2 {{{form}}} : "
            f"({parts}) -> {t}",
        ]
    out = tensor_type((x.shape[0], w.shape[1]), "f32")
    module = "\n".join([
        f"func.func @f(%x: {types[0]}, %w: {types[1]}, %s: tensor<16xf32>) -> {out} {{", *lines,
        f"%y = binade.matmul {', '.join(read)} : ({', '.join(types)}) -> {out}",
        f"return %y : {out}", "}"])  # fmt: skip
    inputs = {"arg0": x, "arg1": w, "arg2": FIXED}
    return evaluate(module, inputs, "--backend", backend)["result0"]


@backends
def test_the_product_of_transformed_operands(backend):
    """(x H) (H w) = x w, without an inverse. Scales and codes are those of x H and H w."""
    random = np.random.default_rng(4)
    x = random.standard_normal((32, 64)).astype(F32)
    w = random.standard_normal((64, 48)).astype(F32)
    x[:, 5::16] *= 30
    exact, size = x.astype(float) @ w, np.abs(x).astype(float) @ np.abs(w)
    assert (np.abs(multiply(x, w, False, backend) - exact) <= 1e-6 * size).all()

    def read(value):
        turned = transform(value, 16, FIXED)
        return published.dequantize(*published.quantize(turned)).astype(float)

    expected = read(x) @ read(w.T.copy()).T
    found = multiply(x, w, True, backend)
    assert (np.abs(found - expected) <= 1e-6 * size).all()
    assert np.abs(expected - exact).max() > 1e-3 * size.max()
