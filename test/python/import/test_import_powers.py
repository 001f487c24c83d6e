"""Casts to and from powers of two (`float8e8m0`), the format of block scales, in all three
rounding modes."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from support.onnx_nodes import BinadeBackend, Refused

# Powers of two, values between two of them, one of them halfway, and their neighbors.
NEAR = np.float32([1.0, 1.25, 1.5, 1.75, 2.0])
NEAR = np.concatenate(
    [NEAR, np.nextafter(NEAR, np.float32(0)), np.nextafter(NEAR, np.float32(9))]
)
VALUES = np.concatenate([NEAR * np.float32(2.0**k) for k in (-125, -20, 0, 3, 125)])


def cast(x, mode, saturate, backend="reference", kind="float"):
    model = onnx.parser.parse_model(
        f'<ir_version: 12, opset_import: ["" : 24]> '
        f"g ({kind}[{len(x)}] x) => (float[{len(x)}] y) {{"
        f'p = Cast <to = 24, round_mode = "{mode}", saturate = {saturate}> (x) '
        f"y = Cast <to = 1> (p) }}"
    )
    return BinadeBackend.prepare(model, backend).run([x])[0]


def round_to_power(x, mode):
    low = np.exp2(np.floor(np.log2(x.astype(np.float64))))
    is_higher = {"down": False, "up": x > low, "nearest": x >= 1.5 * low}[mode]
    return np.where(is_higher, 2 * low, low)


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("mode", ["up", "down", "nearest"])
@pytest.mark.parametrize("saturate", [0, 1])
def test_values_are_rounded_to_powers_of_two(mode, saturate, backend):
    found = cast(VALUES, mode, saturate, backend)
    np.testing.assert_array_equal(found, round_to_power(VALUES, mode))


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_the_smallest_and_the_largest_power(backend):
    """Follows the specification's table of common cases."""
    x = np.float32([0.0, 1e-45, 2.0**-127, 2.0**127, 3e38, np.inf, np.nan])
    low, high, nan = 2.0**-127, 2.0**127, np.nan
    expected = [low, low, low, high, high, high, nan]
    np.testing.assert_array_equal(cast(x, "up", 1, backend), expected)
    expected = [nan, nan, low, high, nan, nan, nan]
    np.testing.assert_array_equal(cast(x, "nearest", 0, backend), expected)


def test_integers_and_halves():
    found = cast(np.float16([0.75, 48.0]), "up", 1, kind="float16")
    np.testing.assert_array_equal(found, [1.0, 64.0])
    np.testing.assert_array_equal(
        cast(np.int64([1, 100]), "down", 1, kind="int64"), [1, 64]
    )


def test_an_unknown_rounding_direction():
    with pytest.raises(Refused, match="does not know round_mode 'sideways'"):
        cast(NEAR, "sideways", 1)


def test_scales_that_are_powers_of_two():
    """Quantizes and dequantizes blocks. numpy and ml_dtypes compute the expected values."""
    x = np.random.default_rng(0).standard_normal((3, 8)).astype("f4") * 40
    scales = np.float32([[0.25, 8.0], [1.0, 2.0**-20], [4.0, 0.5]])
    form = "axis = 1, block_size = 4"
    model = onnx.parser.parse_model(
        f"""<ir_version: 12, opset_import: ["" : 25]>
        g (float[3, 8] x, float[3, 2] s) => (float[3, 8] y) {{
          p = Cast <to = 24> (s)
          q = QuantizeLinear <{form}, precision = 1, output_dtype = 17> (x, p)
          y = DequantizeLinear <{form}, output_dtype = 1> (q, p) }}"""
    )
    factors = scales.repeat(4, axis=1)
    codes = np.clip(x / factors, -448, 448).astype(ml_dtypes.float8_e4m3fn)
    found = BinadeBackend.prepare(model, "reference").run([x, scales])[0]
    np.testing.assert_array_equal(found, codes.astype("f4") * factors)


@pytest.mark.parametrize(
    "node, message",
    [
        ("QuantizeLinear(x, p)", "expected as precision floats of 16 bits or more"),
        (
            "DequantizeLinear(c, p)",
            "expected as output_dtype floats of 16 bits or more",
        ),
        ("DequantizeLinear(p, s)", "expected quantized values that are floats of 4"),
    ],
)
def test_powers_of_two_as_precision_or_quantized_values_are_rejected(node, message):
    model = onnx.parser.parse_model(
        f"""<ir_version: 12, opset_import: ["" : 25]>
        g (float[3] x, int8[3] c) => (y) <float s = {{2.0}}> {{
          p = Cast <to = 24> (s)  y = {node} }}"""
    )
    with pytest.raises(Refused, match=message):
        BinadeBackend.prepare(model, "reference").run([NEAR[:3], np.int8([1, 2, 3])])
