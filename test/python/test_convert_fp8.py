"""Products of FP8 codes, as nodes of ONNX that quantize and read back."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from convert import add_tensor, convert, draw, find_types, parse, run_both
from onnx import TensorProto

# Linear layers; the policy keeps the last one in bf16.
LAYERS = """
g (float[4, 8] x) => (float[4, 5] y, float[4, 6] h) {
  h = MatMul(x, u)
  y = MatMul(h, w)
}"""
E4M3, LARGEST = ml_dtypes.float8_e4m3fn, np.float32(448)


def make(opset=20):
    model = parse(LAYERS)
    model.opset_import[0].version = opset
    return add_tensor(
        add_tensor(model, "u", draw(8, 6, scale=0.3)), "w", draw(6, 5, seed=1)
    )


def read_back(x):
    """Current scaling: the largest magnitude becomes the largest number."""
    largest = np.abs(x).max()
    factor = LARGEST / largest if largest else np.float32(1)
    return (x * factor).astype(E4M3).astype("f4") * (np.float32(1) / factor)


@pytest.mark.parametrize("scale", [1.0, 1e-30, 0.0])
def test_products_are_those_of_codes(tmp_path, scale):
    converted, _ = convert(make(), tmp_path, "fp8-current")
    x = draw(4, 8, scale=scale, seed=2)
    exact, narrow = run_both(tmp_path, {"x": x})
    expected = read_back(x).astype("f8") @ read_back(draw(8, 6, scale=0.3))
    assert np.allclose(narrow["h"], expected, rtol=2.0**-8, atol=0)
    # It is the codes that make the difference.
    if scale:
        assert not np.allclose(narrow["h"], exact["h"], rtol=2.0**-8, atol=0)
    types = find_types(converted)
    assert types["u"] == TensorProto.FLOAT8E4M3FN
    assert types["w"] == TensorProto.BFLOAT16
    assert types["x"] == types["h"] == types["y"] == TensorProto.FLOAT


def test_codes_beside_the_file(tmp_path):
    convert(
        make(), tmp_path, "fp8-current",
        save_as_external_data=True, location="weights.bin", size_threshold=0,
    )  # fmt: skip
    tensors = {
        tensor.name: onnx.numpy_helper.to_array(tensor)
        for tensor in onnx.load(tmp_path / "out.onnx").graph.initializer
    }
    value = tensors["u"].astype("f4") * tensors["u_scale"]
    assert np.array_equal(value, read_back(draw(8, 6, scale=0.3)))


def test_older_operator_sets_have_no_codes(tmp_path):
    converted, text = convert(make(opset=18), tmp_path, "fp8-current")
    assert "not as decided: operator set 18, before 19, does not quantize to" in text
    assert not [n for n in converted.graph.node if n.op_type == "QuantizeLinear"]
    assert find_types(converted)["u"] == TensorProto.BFLOAT16


GRADIENTS = """
g (float[4, 8] x, float[8, 6] u, float[6, 5] w)
    => (float loss, float[8, 6] du, float[6, 5] dw) {
  h = MatMul(x, u)
  y = MatMul(h, w)
  s = Mul(y, y)
  loss = ReduceSum <keepdims = 0> (s)
  dy = Add(y, y)
  ht = Transpose <perm = [1, 0]> (h)
  dw = MatMul(ht, dy)
  wt = Transpose <perm = [1, 0]> (w)
  dh = MatMul(dy, wt)
  xt = Transpose <perm = [1, 0]> (x)
  du = MatMul(xt, dh)
}"""


def test_inputs_with_a_gradient_are_weights(tmp_path):
    converted, _ = convert(parse(GRADIENTS), tmp_path, "fp8-current")
    types = find_types(converted)
    quantized = {
        node.input[0]: types[node.output[0]]
        for node in converted.graph.node
        if node.op_type == "QuantizeLinear"
    }
    assert quantized["x"] == quantized["u"] == TensorProto.FLOAT8E4M3FN
    feeds = {"x": draw(4, 8), "u": draw(8, 6, seed=1), "w": draw(6, 5, seed=2)}
    exact, narrow = run_both(tmp_path, feeds)
    error = np.linalg.norm(narrow["du"] - exact["du"]) / np.linalg.norm(exact["du"])
    # Three bits of fraction, some times in a row.
    assert 2.0**-8 < error < 2.0**-3
