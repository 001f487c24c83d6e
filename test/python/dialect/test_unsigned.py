"""Unsigned integers, integers of 2 and 4 bits, and bit casts: the reference and compiled
kernels compute the same values as numpy."""

import operator

import ml_dtypes
import numpy as np
import pytest
from support.reference import evaluate, fail_op, op_module, run, tensor_type, type_of

BACKENDS = ["reference", "cpu", "simulator"]
DTYPES = [np.uint8, np.uint16, np.uint32, np.uint64]
SMALL = {
    "i2": ml_dtypes.int2,
    "i4": ml_dtypes.int4,
    "ui2": ml_dtypes.uint2,
    "ui4": ml_dtypes.uint4,
}
COMPARISONS = {
    "equal": operator.eq,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
}


def draw(dtype, count=70, seed=0):
    """Values of all magnitudes, with the limits of the type, some with the top bit set."""
    most = np.iinfo(dtype).max
    random = np.random.default_rng(seed)
    numbers = random.integers(0, most, count, dtype, endpoint=True)
    numbers >>= random.integers(0, np.iinfo(dtype).bits, count).astype(dtype)
    numbers[:6] = 0, 1, most, most - 1, most // 2, most // 2 + 1
    return random.permutation(numbers)


def run_op(op, operands, result, backend, attributes=""):
    module = op_module(op, operands, [result], attributes)
    inputs = {f"arg{i}": array for i, array in enumerate(operands)}
    return evaluate(module, inputs, "--backend", backend)["result0"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_arithmetic_is_unsigned_and_wraps(dtype, backend):
    x, y = draw(dtype), draw(dtype, seed=1)
    quotient = np.where(y == 0, dtype(0), x // np.maximum(y, 1))
    expected = {
        "add": x + y,
        "sub": x - y,
        "mul": x * y,
        "div": quotient,
        "max": np.maximum(x, y),
        "min": np.minimum(x, y),
        "and": x & y,
        "or": x | y,
        "xor": x ^ y,
    }
    for op, wanted in expected.items():
        found = run_op(op, [x, y], (x.shape, dtype), backend)
        np.testing.assert_array_equal(found, wanted, err_msg=op)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_comparison_is_unsigned(dtype, backend):
    x, y = draw(dtype), draw(dtype, seed=1)
    for name, function in COMPARISONS.items():
        attribute = f"comparison = #binade.comparison<{name}>"
        found = run_op("compare", [x, y], (x.shape, bool), backend, attribute)
        np.testing.assert_array_equal(found, function(x, y), err_msg=name)


def test_comparison_orders_false_before_true():
    x, y = np.array([0, 0, 1, 1], bool), np.array([0, 1, 0, 1], bool)
    for backend in BACKENDS:
        for name, function in COMPARISONS.items():
            attribute = f"comparison = #binade.comparison<{name}>"
            found = run_op("compare", [x, y], (x.shape, bool), backend, attribute)
            np.testing.assert_array_equal(found, function(x, y), err_msg=name)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_casts_between_all_types(dtype, backend):
    x = draw(dtype)
    for wanted in [np.float64, np.float32, np.float16, ml_dtypes.bfloat16, np.int8,
                   np.int16, np.int32, np.int64, *DTYPES, np.bool_]:  # fmt: skip
        with np.errstate(over="ignore"):
            expected = x.astype(wanted)
        if (
            wanted == ml_dtypes.bfloat16
        ):  # numpy converts through f32, which rounds twice.
            exact = x.astype(np.float64)
            near = np.abs(expected.astype(np.float64) - exact) <= exact / 256
            assert near.all()
            found = run_op("cast", [x], (x.shape, wanted), backend)
            near = np.abs(found.astype(np.float64) - exact) <= exact / 256
            assert near.all()
            continue
        found = run_op("cast", [x], (x.shape, wanted), backend)
        np.testing.assert_array_equal(found, expected, err_msg=str(wanted))
        if wanted in (np.int8, np.int16, np.int32, np.int64):
            back = run_op("cast", [expected], (x.shape, dtype), backend)
            np.testing.assert_array_equal(back, expected.astype(dtype))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_floats_are_truncated(dtype, backend):
    most = float(np.iinfo(dtype).max)
    x = np.array([0.0, 0.9, 1.5, 100.25, most / 2 + 1, most / 4 * 3, 255.0])
    for source in (np.float64, np.float32):
        found = run_op("cast", [x.astype(source)], (x.shape, dtype), backend)
        np.testing.assert_array_equal(found, x.astype(source).astype(dtype))


@pytest.mark.parametrize("backend", BACKENDS)
def test_64_bit_integers_are_rounded_once(backend):
    x = np.array([2**64 - 1, 2**63 + 2**10 + 1, 2**53 + 1, 2**40 + 1], np.uint64)
    for dtype in (np.float64, np.float32):
        found = run_op("cast", [x], (x.shape, dtype), backend)
        expected = [dtype(int(number)) for number in x]
        np.testing.assert_array_equal(found, np.array(expected, dtype))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_elements_are_moved(dtype, backend):
    x, y = draw(dtype, 12).reshape(3, 4), draw(dtype, 12, seed=1).reshape(3, 4)
    rows = np.array([2, 0, -1], np.int64)
    table = f"dense<{y.tolist()}> : {type_of(y)}"
    module = f"""
      func.func @f(%x: {type_of(x)}, %rows: tensor<3xi64>) -> {tensor_type((9, 4), dtype)} {{
        %c = binade.constant {table}
        %p = binade.pad %x {{offsets = array<i64: 1, 0>, strides = array<i64: 1, 1>}}
           : ({type_of(x)}) -> {tensor_type((5, 4), dtype)}
        %s = binade.slice %p {{offsets = array<i64: 0, 0>, strides = array<i64: 2, 1>}}
           : ({tensor_type((5, 4), dtype)}) -> {type_of(x)}
        %g = binade.gather %c, %rows : ({type_of(x)}, tensor<3xi64>) -> {type_of(x)}
        %y = binade.concat %x, %g, %s {{axis = 0 : i64}}
           : ({type_of(x)}, {type_of(x)}, {type_of(x)}) -> {tensor_type((9, 4), dtype)}
        return %y : {tensor_type((9, 4), dtype)}
      }}"""
    found = evaluate(module, {"arg0": x, "arg1": rows}, "--backend", backend)
    padded = np.pad(x, ((1, 1), (0, 0)))
    expected = np.concatenate([x, y[rows], padded[::2]])
    np.testing.assert_array_equal(found["result0"], expected)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("element, value", [
    ("ui64", 2**64 - 1), ("ui64", 2**63), ("i64", 2**63 - 1), ("ui32", 2**32 - 1), ("i4", -3),
])  # fmt: skip
def test_constants_can_be_results(element, value, backend):
    module = f"""
      func.func @f() -> (tensor<3x{element}>, tensor<2x{element}>) {{
        %x = binade.constant dense<{value}> : tensor<3x{element}>
        %y = binade.constant dense<[{value}, 1]> : tensor<2x{element}>
        return %x, %y : tensor<3x{element}>, tensor<2x{element}>
      }}"""
    found = evaluate(module, {}, "--backend", backend)
    assert found["result0"].tolist() == [value] * 3
    assert found["result1"].tolist() == [value, 1]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", SMALL)
def test_casts_of_2_and_4_bit_integers(name, backend):
    small = SMALL[name]
    byte = np.uint8 if name.startswith("u") else np.int8
    bits = int(name[-1])
    codes = np.arange(-130, 130).astype(np.int8)
    shape = codes.shape
    module = f"""
      func.func @f(%x: {type_of(codes)}) -> ({tensor_type(shape, name)},
                                            {tensor_type(shape, np.float32)}) {{
        %s = binade.cast %x : ({type_of(codes)}) -> {tensor_type(shape, name)}
        %c = binade.constant dense<1> : {tensor_type(shape, name)}
        %t = binade.concat %s, %c {{axis = 0 : i64}}
           : ({tensor_type(shape, name)}, {tensor_type(shape, name)})
          -> {tensor_type((2 * len(codes),), name)}
        %h = binade.slice %t {{offsets = array<i64: 0>, strides = array<i64: 1>}}
           : ({tensor_type((2 * len(codes),), name)}) -> {tensor_type(shape, name)}
        %f = binade.cast %h : ({tensor_type(shape, name)}) -> {tensor_type(shape, np.float32)}
        return %s, %f : {tensor_type(shape, name)}, {tensor_type(shape, np.float32)}
      }}"""
    found = evaluate(module, {"arg0": codes}, "--backend", backend)
    # A cast keeps the low bits of the byte: it computes modulo 2^bits.
    kept = codes.view(np.uint8) & np.uint8(2**bits - 1)
    expected = (
        kept if byte == np.uint8 else (kept << (8 - bits)).view(np.int8) >> (8 - bits)
    )
    assert np.array_equal(expected.astype(small).astype(byte), expected)
    np.testing.assert_array_equal(found["result0"], expected.astype(byte))
    np.testing.assert_array_equal(found["result1"], expected.astype(np.float32))


def test_arithmetic_of_4_bit_integers_is_rejected():
    x = np.zeros(2, np.int8)
    module = """
      func.func @f(%x: tensor<2xui4>) -> tensor<2xui4> {
        %y = binade.add %x, %x : (tensor<2xui4>, tensor<2xui4>) -> tensor<2xui4>
        return %y : tensor<2xui4>
      }"""
    process, _ = run(module, {"arg0": x})
    assert process.returncode == 3
    assert "or f4E2M1FN) or integer values" in process.stderr


@pytest.mark.parametrize("backend", BACKENDS)
def test_bitcast_keeps_the_bits(backend):
    pairs = [(np.float32, np.int32), (np.float64, np.int64), (np.float32, np.uint32),
             (np.float64, np.uint64), (np.int8, np.uint8), (np.uint16, np.int16)]  # fmt: skip
    for one, other in pairs:
        random = np.random.default_rng(3)
        x = random.integers(0, 256, 64 * np.dtype(one).itemsize, np.uint8).view(one)
        if one in (np.float32, np.float64):
            x = x[~np.isnan(x)]
            x[:5] = 0.0, -0.0, np.inf, -np.inf, np.finfo(one).smallest_subnormal
        found = run_op("bitcast", [x], (x.shape, other), backend)
        np.testing.assert_array_equal(found, x.view(other))
        back = run_op("bitcast", [x.view(other)], (x.shape, one), backend)
        np.testing.assert_array_equal(back.view(other), x.view(other))


def test_bitcast_to_another_width_is_rejected():
    message = fail_op("bitcast", [np.zeros(2, np.float32)], [((2,), np.int64)])
    assert "needs elements of equally many bits, got 'f32' and 'i64'" in message
