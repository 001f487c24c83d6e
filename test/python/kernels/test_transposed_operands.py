"""One kernel writes a quantized operand and its transposed copy, in whole and partial
tiles. numpy computes the expected values."""

import ml_dtypes
import numpy as np
import pytest
from support.reference import evaluate, tensor_type

F32, BF16 = np.float32, ml_dtypes.bfloat16
FORMATS = {"f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2}
# A tile has 128 rows and 64 columns, or 32 columns if vectors have four elements.
SHAPES = {
    "one tile": (128, 64), "several": (384, 192), "a word": (4, 4),
    "part of a tile": (52, 40), "some rows of a tile": (148, 64),
    "some columns of a tile": (128, 72), "vectors of four": (160, 100),
    "multiples of eight": (136, 48), "long rows": (8, 2048),
    "long columns": (1024, 8), "no words": (33, 70),
}  # fmt: skip
TARGET = (
    'binade.target = #binade.target<"cuda:sm_90", piece = 16777216, '
    "codes = [f8E4M3FN, f8E5M2], multiple = 16>"
)


def draw(shape, seed=0):
    generator = np.random.default_rng((shape[-1], seed))
    spread = np.exp(generator.standard_normal(shape))
    return (generator.standard_normal(shape) * spread).astype(BF16)


def encode(x, factor, name):
    """Returns the bits of quantized values. Large values saturate, NaN is 0x7f."""
    dtype = FORMATS[name]
    y = x.astype(F32) * F32(factor)
    largest = F32(ml_dtypes.finfo(dtype).max)
    codes = np.clip(y, -largest, largest).astype(dtype).view(np.uint8)
    return np.where(np.isnan(y), np.uint8(0x7F), codes)


def get_bits(codes):
    """Returns the bits of quantized values, with 0x7f for every NaN."""
    return np.where(np.isnan(codes.astype(F32)), np.uint8(0x7F), codes.view(np.uint8))


def run(x, before, body, results, target, backend, **inputs):
    """Returns the results of `body`, which reads %x in bf16."""
    arguments = "".join(
        f", %{name}: {tensor_type(value.shape, 'f32')}"
        for name, value in inputs.items()
    )
    types = ", ".join(f"{kind}" for _, kind in results)
    values = ", ".join(f"%{name}" for name, _ in results)
    attributes = f"attributes {{{TARGET}}} " if target else ""
    module = f"""
      module {attributes}{{
      func.func @f(%x: {tensor_type(before, "bf16")}{arguments}) -> ({types}) {{
        {body}
        return {values} : {types}
      }}
      }}"""
    names = ["arg0", *(f"arg{1 + index}" for index in range(len(inputs)))]
    given = dict(zip(names, [x.reshape(before), *inputs.values()]))
    found = evaluate(module, given, "--backend", backend)
    return [found[f"result{index}"] for index in range(len(results))]


BACKENDS = pytest.mark.parametrize(
    ("target", "backend"), [(True, "simulator"), (True, "cpu"), (False, "cpu")]
)


@BACKENDS
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("made", ["alone", "with amax", "from a larger rank"])
def test_quantized_operand_and_transposed_copy(name, made, target, backend):
    """Quantizes by a given factor: NaN, infinities, zeros and values that saturate."""
    rows, columns = SHAPES[name]
    element = "f8E5M2" if rows == 384 else "f8E4M3FN"
    before = (
        (2, rows // 2, columns) if made[0] == "f" and rows % 2 == 0 else (rows, columns)
    )
    x = draw((rows, columns))
    x[0, 1], x[rows - 1, 0], x[rows // 2, columns - 1] = np.nan, np.inf, -np.inf
    x[1, :] = 0
    x[2, columns // 2] = -0.0
    factor = F32(300.0)
    source, wide = tensor_type(before, "bf16"), tensor_type(before, "f32")
    codes, flat = tensor_type(before, element), tensor_type((rows, columns), element)
    transposed, one = tensor_type((columns, rows), element), "tensor<f32>"
    form = f"#binade.quantized<{element}, per_tensor, scale = f32, rule = inverse>"
    body = f"""
        %n = binade.neg %x : ({source}) -> {source}
        %w = binade.cast %n : ({source}) -> {wide}
        %c = binade.encode %w, %by {{format = {form}, saturate}} : ({wide}, {one}) -> {codes}
        %r = binade.reshape %c : ({codes}) -> {flat}
        %t = binade.transpose %r {{permutation = array<i64: 1, 0>}} : ({flat}) -> {transposed}"""
    results = [("c", codes), ("t", transposed), ("n", source)]
    if made == "with amax":
        axes = ", ".join(map(str, range(len(before))))
        body += f"""
        %a = binade.abs %w : ({wide}) -> {wide}
        %m = binade.reduce_max %a {{axes = array<i64: {axes}>}} : ({wide}) -> {one}"""
        results.append(("m", one))
        x = np.nan_to_num(x.astype(F32), nan=3.0, posinf=1e30, neginf=0).astype(BF16)
    found = run(x, before, body, results, target, backend, by=np.array(factor))
    expected = encode(-x.astype(F32), factor, element)
    np.testing.assert_array_equal(get_bits(found[0]).reshape(rows, columns), expected)
    np.testing.assert_array_equal(get_bits(found[1]), expected.T)
    same = found[2].reshape(rows, columns).view(np.uint16) == (-x).view(np.uint16)
    assert (same | np.isnan(x.astype(F32))).all()
    if made == "with amax":
        assert found[3] == np.abs(x.astype(F32)).max()


@BACKENDS
@pytest.mark.parametrize("value", [0.0, np.nan, np.inf])
def test_current_scaling(value, target, backend):
    """In Transformer Engine's current scaling, an amax of 0, NaN or infinity gives a scale
    of 1."""
    shape = (132, 72)
    x = draw(shape)
    if value == 0.0:
        x[:] = 0
    else:
        x[7, 8] = value
    source, codes = tensor_type(shape, "bf16"), tensor_type(shape, "f8E4M3FN")
    transposed = tensor_type(shape[::-1], "f8E4M3FN")
    form = "#binade.quantized<f8E4M3FN, per_tensor, scale = f32, rule = inverse>"
    body = f"""
        %c, %s = binade.quantize %x {{format = {form}, saturate}} : ({source}) -> ({codes}, tensor<f32>)
        %t = binade.transpose %c {{permutation = array<i64: 1, 0>}} : ({codes}) -> {transposed}"""
    results = [("c", codes), ("t", transposed), ("s", "tensor<f32>")]
    found = run(x, shape, body, results, target, backend)
    np.testing.assert_array_equal(get_bits(found[0]), encode(x, 1.0, "f8E4M3FN"))
    np.testing.assert_array_equal(get_bits(found[1]), encode(x, 1.0, "f8E4M3FN").T)
    assert found[2] == 1


@BACKENDS
def test_matrices_of_a_batch(target, backend):
    """Transposes each matrix of a batch."""
    x = draw((3, 20, 36)).astype(F32).astype(FORMATS["f8E5M2"])
    before, after = tensor_type(x.shape, "f8E5M2"), tensor_type((3, 36, 20), "f8E5M2")
    attributes = f"attributes {{{TARGET}}} " if target else ""
    module = f"""
      module {attributes}{{
      func.func @f(%x: {before}) -> {after} {{
        %y = binade.transpose %x {{permutation = array<i64: 0, 2, 1>}} : ({before}) -> {after}
        return %y : {after}
      }}
      }}"""
    found = evaluate(module, {"arg0": x}, "--backend", backend)["result0"]
    np.testing.assert_array_equal(
        found.view(np.uint8), x.view(np.uint8).transpose(0, 2, 1)
    )


def test_transposed_copies_that_exceed_shared_memory():
    """Of seven quantizations of a tensor, some are transposed by a kernel of their own."""
    shape, factors = (128, 64), np.arange(1, 8).astype(F32)
    x = draw(shape)
    source, wide = tensor_type(shape, "bf16"), tensor_type(shape, "f32")
    codes = tensor_type(shape, "f8E4M3FN")
    transposed = tensor_type(shape[::-1], "f8E4M3FN")
    form = "#binade.quantized<f8E4M3FN, per_tensor, scale = f32, rule = inverse>"
    body = f"%w = binade.cast %x : ({source}) -> {wide}"
    for index in range(len(factors)):
        body += f"""
        %c{index} = binade.encode %w, %by{index} {{format = {form}, saturate}} : ({wide}, tensor<f32>) -> {codes}
        %t{index} = binade.transpose %c{index} {{permutation = array<i64: 1, 0>}}
          : ({codes}) -> {transposed}"""
    results = [(f"t{index}", transposed) for index in range(len(factors))]
    inputs = {f"by{index}": np.array(value) for index, value in enumerate(factors)}
    found = run(x, shape, body, results, True, "simulator", **inputs)
    for value, factor in zip(found, factors):
        np.testing.assert_array_equal(get_bits(value), encode(x, factor, "f8E4M3FN").T)
