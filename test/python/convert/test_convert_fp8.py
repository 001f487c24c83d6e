"""FP8 matmuls are ONNX nodes that quantize and dequantize their operands."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto
from support.convert import add_tensor, convert, draw, find_types, parse, run_both
from support.reference import binade, evaluate

# Linear layers; the policy keeps the last one in bf16.
LAYERS = """
g (float[4, 8] x) => (float[4, 5] y, float[4, 6] h) {
  h = MatMul(x, u)
  y = MatMul(h, w)
}"""
E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2


def make(opset=20):
    model = parse(LAYERS)
    model.opset_import[0].version = opset
    return add_tensor(
        add_tensor(model, "u", draw(8, 6, scale=0.3)), "w", draw(6, 5, seed=1)
    )


def read_back(x, element=E4M3):
    """Quantizes and dequantizes `x` with current scaling: absmax maps to the largest value."""
    largest = np.abs(x).max()
    limit = np.float32(ml_dtypes.finfo(element).max)
    factor = limit / largest if largest else np.float32(1)
    return (x * factor).astype(element).astype("f4") * (np.float32(1) / factor)


@pytest.mark.parametrize("scale", [1.0, 1e-30, 0.0])
def test_matmuls_use_quantized_operands(tmp_path, scale):
    converted, _ = convert(make(), tmp_path, "fp8-current")
    x = draw(4, 8, scale=scale, seed=2)
    exact, narrow = run_both(tmp_path, {"x": x})
    expected = read_back(x).astype("f8") @ read_back(draw(8, 6, scale=0.3))
    assert np.allclose(narrow["h"], expected, rtol=2.0**-8, atol=0)
    # The result differs from that of f32 operands.
    if scale:
        assert not np.allclose(narrow["h"], exact["h"], rtol=2.0**-8, atol=0)
    types = find_types(converted)
    assert types["u"] == TensorProto.FLOAT8E4M3FN
    assert types["w"] == TensorProto.BFLOAT16
    assert types["x"] == types["h"] == types["y"] == TensorProto.FLOAT


@pytest.mark.parametrize(
    "policy, is_named", [("fp8-current", True), ("bf16-amp", False)]
)
def test_the_required_session_option_is_printed(tmp_path, policy, is_named):
    """onnxruntime's fusion of quantized matmuls supports only integers, so the output asks to
    disable it; the helper `convert` opens a session with that option."""
    _, text = convert(make(), tmp_path, policy)
    assert ("session.disable_quant_qdq to 1" in text) == is_named


def test_quantized_values_in_external_data(tmp_path):
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


def test_fp8_needs_operator_set_19(tmp_path):
    converted, text = convert(make(opset=18), tmp_path, "fp8-current")
    assert "not as decided: operator set 18, before 19, does not quantize to" in text
    assert not [n for n in converted.graph.node if n.op_type == "QuantizeLinear"]
    assert find_types(converted)["u"] == TensorProto.BFLOAT16


GRADIENTS = """
g (float[{n}, {i}] x, float[{i}, {m}] u, float[{m}, {o}] w)
    => (float loss, float[{n}, {m}] dh, float[{i}, {m}] du, float[{m}, {o}] dw) {{
  h = MatMul(x, u)
  y = MatMul(h, w)
  s = Mul(y, y)
  loss = ReduceSum <keepdims = 0> (s)
  dy = Add(y, y)
{products}
}}"""
TRANSPOSED = """
  ht = Transpose <perm = [1, 0]> (h)
  dw = MatMul(ht, dy)
  wt = Transpose <perm = [1, 0]> (w)
  dh = MatMul(dy, wt)
  xt = Transpose <perm = [1, 0]> (x)
  du = MatMul(xt, dh)"""
TRANSPOSING = """
  dw = Gemm <transA = 1> (h, dy)
  dh = Gemm <transB = 1> (dy, w)
  du = Gemm <transA = 1> (x, dh)"""


def write_gradients(n, i, m, o, products):
    return GRADIENTS.format(n=n, i=i, m=m, o=o, products=products)


def test_gradients_of_weights_are_fp8_matmuls(tmp_path):
    model = parse(write_gradients(4, 8, 6, 5, TRANSPOSED))
    converted, _ = convert(model, tmp_path, "fp8-current")
    types = find_types(converted)
    quantized = {
        node.input[0]: types[node.output[0]]
        for node in converted.graph.node
        if node.op_type == "QuantizeLinear"
    }
    codes = TensorProto.FLOAT8E4M3FN
    # The last layer, which computes logits, is not quantized.
    assert quantized.pop("dh") == TensorProto.FLOAT8E5M2
    assert quantized == {"x": codes, "u": codes, "xt": codes}
    feeds = {"x": draw(4, 8), "u": draw(8, 6, seed=1), "w": draw(6, 5, seed=2)}
    exact, narrow = run_both(tmp_path, feeds)
    expected = read_back(feeds["x"]).T @ read_back(narrow["dh"], E5M2)
    assert np.allclose(
        narrow["du"], expected, 2.0**-8, 2.0**-8 * np.abs(expected).max()
    )
    unrounded = feeds["x"].T @ narrow["dh"]
    assert np.abs(unrounded - expected).max() > 2.0**-6 * np.abs(expected).max()
    error = np.linalg.norm(narrow["du"] - exact["du"]) / np.linalg.norm(exact["du"])
    # The error of several roundings to three bits of fraction.
    assert 2.0**-8 < error < 2.0**-3


#: Rows are multiples of the group size.
WIDE = write_gradients(32, 64, 96, 48, TRANSPOSING)


@pytest.mark.parametrize("policy", [
    "coat", "mxfp8",
    *(pytest.param(name, marks=pytest.mark.nightly)
      for name in ("fp8-current", "fp8-block", "fp8-lm")),
])  # fmt: skip
def test_gradients_match_a_compiled_step(policy, tmp_path):
    """Includes `coat`, which quantizes activations saved for backward."""
    model = parse(WIDE)
    model.opset_import[0].version = 21
    convert(model, tmp_path, policy)
    weights = {"u": draw(64, 96, scale=0.3, seed=1), "w": draw(96, 48, seed=2)}
    batch = {"x": draw(32, 64)}
    exact, narrow = run_both(tmp_path, batch | weights)
    joint = parse(WIDE)
    del joint.graph.input[1:]
    for name, array in weights.items():
        add_tensor(joint, name, array)
    joint.metadata_props.add(key="binade.trainable", value='["u", "w"]')
    onnx.save(joint, tmp_path / "joint.onnx")
    done = binade(
        "compile", tmp_path / "joint.onnx", "--policy", policy, "--optimizer", "sgd",
        "--lr", "1", "--to=materialize", "-o", tmp_path / "step.mlir",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    module = (tmp_path / "step.mlir").read_text()
    step = evaluate(module, batch | weights, "--function", "step")
    for name, before in weights.items():
        gradient, found = before - step[name], narrow[f"d{name}"]
        size = np.linalg.norm(gradient)
        # Another order of summation sometimes rounds to another bf16 value.
        assert np.linalg.norm(found - gradient) < 2.0**-12 * size
        assert np.linalg.norm(exact[f"d{name}"] - gradient) > 2.0**-8 * size


SAVED = """
g (float[8, 16] x, float[8, 16] c) => (float loss, float[8, 16] dx) {
  a = Tanh(x)
  p = Mul(a, c)
  loss = ReduceSum <keepdims = 0> (p)
  aa = Mul(a, a)
  slope = Sub(one, aa)
  dx = Mul(c, slope)
}"""


def write_saved_policy(folder, op, form):
    policy = folder / "saved.yaml"
    policy.write_text(
        "name: saved\nextends: bf16-amp\nrules:\n"
        f"- {{ match: {{ op: {op} }}, saved: {form} }}\n"
    )
    return policy


@pytest.mark.parametrize("form, element", [
    ("bf16", ml_dtypes.bfloat16), ("e4m3-tensor", E4M3), ("coat-group", None),
    ("f8E4M3FN", None), ("dyn8", None),
])  # fmt: skip
def test_values_saved_for_backward(form, element, tmp_path):
    policy = write_saved_policy(tmp_path, "tanh", form)
    model = add_tensor(parse(SAVED), "one", np.ones((), "f4"))
    # Blocks need a newer operator set; ONNX has no code books and no non-saturating FP8.
    _, text = convert(model, tmp_path, policy)
    assert ("tensors saved for backward are not" in text) == (element is None)
    feeds = {"x": draw(8, 16), "c": draw(8, 16, seed=1)}
    exact, narrow = run_both(tmp_path, feeds)
    assert np.allclose(narrow["loss"], exact["loss"], 1e-6)
    a = np.tanh(feeds["x"])
    if element == E4M3:
        a = read_back(a)
    elif element:
        a = a.astype(element).astype("f4")
    expected = feeds["c"] * (1 - a * a)
    assert np.allclose(narrow["dx"], expected, 1e-6, 1e-6)
    if element:
        assert not np.allclose(narrow["dx"], exact["dx"], 1e-3, 1e-3)


@pytest.mark.parametrize("node", ["Identity(a)", "Reshape(a, shape)"])
@pytest.mark.parametrize("form, element", [
    ("bf16", ml_dtypes.bfloat16), ("e4m3-tensor", E4M3),
])  # fmt: skip
def test_values_that_ops_only_move_are_saved_in_their_own_format(
    node, form, element, tmp_path
):
    """With a separate format, the moved value would be rounded twice, or not at all."""
    graph = SAVED.replace("a = Tanh(x)", f"a = Tanh(x)\n i = {node}")
    graph = graph.replace("Mul(a, c)", "Mul(i, c)").replace("Mul(a, a)", "Mul(i, a)")
    model = add_tensor(parse(graph), "one", np.ones((), "f4"))
    add_tensor(model, "shape", np.array([8, 16]))
    converted, _ = convert(model, tmp_path, write_saved_policy(tmp_path, "tanh", form))
    feeds = {"x": draw(8, 16), "c": draw(8, 16, seed=1)}
    exact, narrow = run_both(tmp_path, feeds)
    assert np.allclose(narrow["loss"], exact["loss"], 1e-6)
    a = np.tanh(feeds["x"])
    a = read_back(a) if element == E4M3 else a.astype(element).astype("f4")
    expected = feeds["c"] * (1 - a * a)
    assert np.allclose(narrow["dx"], expected, 1e-6, 1e-6)
    square = next(node for node in converted.graph.node if node.output[0] == "aa")
    assert len(set(square.input)) == 1


def test_parts_saved_for_backward_are_listed(tmp_path):
    """The format applies to all outputs of a node, so a single one cannot be rounded."""
    graph = SAVED.replace("float[8, 16] x", "float[8, 32] x").replace(
        "a = Tanh(x)", "a, b = Split <axis = 1, num_outputs = 2> (x)"
    )
    model = add_tensor(parse(graph), "one", np.ones((), "f4"))
    policy = write_saved_policy(tmp_path, "slice", "bf16")
    _, text = convert(model, tmp_path, policy)
    assert "tensors saved for backward are not rounded to bf16 (1 node)" in text


STEP = """
g (float[8, 16] x, float[16, 4] w, float[16, 4] m)
    => (float loss, float[16, 4] new_w, float[16, 4] new_m) {
  y = MatMul(x, w)
  s = Mul(y, y)
  loss = ReduceSum <keepdims = 0> (s)
  dy = Add(y, y)
  xt = Transpose <perm = [1, 0]> (x)
  dw = MatMul(xt, dy)
  half = Mul(m, decay)
  new_m = Add(half, dw)
  new_w = Sub(w, new_m)
}"""


@pytest.mark.parametrize("policy, is_listed", [
    ("8bit-optimizer", True), ("coat", True), ("bf16-amp", False),
])  # fmt: skip
def test_states_of_an_optimizer_keep_their_types(policy, is_listed, tmp_path):
    model = add_tensor(parse(STEP), "decay", np.array(0.5, "f4"))
    converted, text = convert(model, tmp_path, policy)
    assert ("states of the optimizer" in text) == is_listed
    assert converted.graph.input == model.graph.input
    assert converted.graph.output == model.graph.output
    # A model that computes only gradients has no optimizer state.
    _, text = convert(parse(write_gradients(4, 8, 6, 5, TRANSPOSED)), tmp_path, policy)
    assert "states of the optimizer" not in text
