"""`binade convert` on initializers that are transposed, sliced or reshaped before use: they are
stored in the format of their readers, and values do not change otherwise."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper
from support.convert import (
    add_tensor,
    convert,
    draw,
    evaluate,
    find_reasons,
    find_types,
    parse,
)

F32, F16 = TensorProto.FLOAT, TensorProto.FLOAT16
# A linear layer as PyTorch exports it, and one with two data-movement ops.
LAYER = """
g (float[4, 8] x) => (float[4, 6] y) {
  [turn] t = Transpose <perm = [1, 0]> (w)
  [product] y = MatMul(x, t)
}"""
PIECES = """
g (float[4, 8] x) => (float[4, 6] y) {
  shape = Constant <value = int64[2] {6, 8}> ()
  [fold] r = Reshape(w, shape)
  [turn] t = Transpose <perm = [1, 0]> (r)
  [product] y = MatMul(x, t)
}"""


def store(text, *shape):
    return add_tensor(parse(text), "w", draw(*shape, seed=1))


def check_layer(folder, weight):
    """The file contains the rounded weight, and the matmul uses it."""
    (stored,) = (
        numpy_helper.to_array(tensor)
        for tensor in onnx.load(folder / "out.onnx").graph.initializer
        if tensor.name == "w"
    )
    np.testing.assert_array_equal(stored, weight.astype("f2"))
    x = draw(4, 8, seed=2)
    found = evaluate(folder / "out.onnx", {"x": x})["y"]
    exact = x.astype("f2").astype("f8") @ stored.reshape(6, 8).T.astype("f8")
    terms = np.abs(x) @ np.abs(weight.reshape(6, 8).T)
    assert (np.abs(found - exact) <= 10 * 2.0**-11 * terms).all()


@pytest.mark.parametrize("text, shape", [(LAYER, (6, 8)), (PIECES, (12, 4))])
def test_a_moved_weight_is_stored_narrow(text, shape, tmp_path):
    converted, report = convert(store(text, *shape), tmp_path, "fp16-amp")
    types = find_types(converted)
    assert types["w"] == types["t"] == F16
    casts = [node.input[0] for node in converted.graph.node if node.op_type == "Cast"]
    assert casts == ["x", "y_f16"], "one before the matmul, and one after it"
    assert "1 tensors stored narrow" in report
    check_layer(tmp_path, draw(*shape, seed=1))


def test_tensors_with_two_readers_of_one_format_are_stored_narrow(tmp_path):
    text = LAYER.replace("float[4, 6] y)", "float[4, 6] y, float[4, 6] z)")
    text = text.replace("}", "  [second] z = MatMul(x, t)\n}")
    converted, _ = convert(store(text, 6, 8), tmp_path, "fp16-amp")
    assert find_types(converted)["w"] == F16


# Cases that must keep f32: a line that is added to `LAYER`, and the outputs.
KEPT = {
    "another reader": ("z = Softmax(t)", "float[4, 6] y, float[8, 6] z"),
    "an output": ("", "float[4, 6] y, float[8, 6] t"),
    "a reader of the weight": ("z = Softmax(w)", "float[4, 6] y, float[6, 8] z"),
    "inside": (
        "c = Constant <value = bool {1}> ()\n z = If (c) <"
        "then_branch = a () => (float[8, 6] p) { p = Neg(t) },"
        "else_branch = b () => (float[8, 6] q) { q = Abs(t) }>",
        "float[4, 6] y, float[8, 6] z",
    ),
}


@pytest.mark.parametrize("case", KEPT)
def test_tensors_with_other_readers_keep_their_format(case, tmp_path):
    line, outputs = KEPT[case]
    text = LAYER.replace("float[4, 6] y", outputs).replace("}", f"{line}\n}}")
    # Small tensors are stored in each format that is read; this one is too large.
    text = text.replace("4, 8] x", "4, 4000] x").replace("[8, 6]", "[4000, 6]")
    text = text.replace("float[6, 8]", "float[6, 4000]")
    model = store(text, 6, 4000)
    converted, _ = convert(model, tmp_path, "fp16-amp")
    onnx.checker.check_model(tmp_path / "out.onnx", full_check=True)
    types = find_types(converted)
    assert types["w"] == F32
    if case != "a reader of the weight":
        assert types["t"] == F32
    x = draw(4, 4000, seed=2)
    found, given = (
        evaluate(tmp_path / name, {"x": x}) for name in ("out.onnx", "in.onnx")
    )
    for name in given:
        if name != "y":
            np.testing.assert_array_equal(found[name], given[name])
    np.testing.assert_allclose(found["y"], given["y"], atol=1.0, rtol=1e-2)


def test_a_weight_that_is_an_input_keeps_its_type(tmp_path):
    model = store(LAYER, 6, 8)
    value = onnx.helper.make_tensor_value_info("w", F32, [6, 8])
    model.graph.input.append(value)
    converted, _ = convert(model, tmp_path, "fp16-amp")
    assert find_types(converted)["w"] == F32
    assert converted.graph.initializer[0].data_type == F32


def test_data_movement_states_the_reason_of_its_format(tmp_path):
    text = LAYER.replace("Transpose <perm = [1, 0]> (w)", "Slice(w, s, e, a)")
    text = text.replace("{\n  [turn]", """{
      s = Constant <value = int64[1] {0}> ()
      e = Constant <value = int64[1] {8}> ()
      a = Constant <value = int64[1] {0}> ()
  [turn]""", 1)  # fmt: skip
    converted, _ = convert(store(text, 9, 6), tmp_path, "fp16-amp")
    reasons = find_reasons(converted)
    assert reasons["turn"] == "f16 <- the readers of this moved tensor"
    assert find_types(converted)["w"] == F16
    model = store(
        text.replace("MatMul(x, t)", "Softmax(t)").replace("4, 6", "8, 6"), 9, 6
    )
    reasons = find_reasons(convert(model, tmp_path, "fp16-amp")[0])
    assert reasons["turn"].startswith("f32 <- class ")


# The policies keep the last layer in bf16.
LAYERS = """
g (float[4, 32] x) => (float[4, 48] h, float[4, 5] y) {
  [turn] t = Transpose <perm = [1, 0]> (w)
  [product] h = MatMul(x, t)
  y = MatMul(h, u)
}"""


def find_ops(model, *ops):
    return sorted(node.op_type for node in model.graph.node if node.op_type in ops)


def store_two(text, weight):
    return add_tensor(add_tensor(parse(text), "w", weight), "u", draw(48, 5, seed=3))


@pytest.mark.parametrize("policy", ["fp8-lm", "fp8-current", "coat"])
def test_a_moved_weight_is_stored_quantized(policy, tmp_path):
    """The quantized values and h equal those of a weight that is not moved."""
    weight, x = draw(48, 32, seed=1), draw(4, 32, seed=2)
    plain = LAYERS.replace("[turn] t = Transpose <perm = [1, 0]> (w)\n", "")
    plain = plain.replace("(x, t)", "(x, w)")
    stored, found, made = [], [], []
    for text, value in (LAYERS, weight), (plain, weight.T.copy()):
        converted, _ = convert(store_two(text, value), tmp_path, policy)
        onnx.checker.check_model(tmp_path / "out.onnx", full_check=True)
        assert find_types(converted)["w"] == TensorProto.FLOAT8E4M3FN
        made.append(find_ops(converted, "QuantizeLinear", "DequantizeLinear"))
        (tensor,) = (t for t in converted.graph.initializer if t.name == "w")
        codes = np.frombuffer(tensor.raw_data, np.uint8).reshape(value.shape)
        stored.append(codes if text == LAYERS else codes.T)
        found.append(evaluate(tmp_path / "out.onnx", {"x": x})["h"])
    assert made[0] == made[1] and made[0].count("QuantizeLinear") == 1
    np.testing.assert_array_equal(*stored)
    np.testing.assert_array_equal(*found)


def test_a_sliced_weight_is_quantized_after_the_slice(tmp_path):
    """The slice has another absmax than the whole weight, and so another scale."""
    text = LAYERS.replace("Transpose <perm = [1, 0]> (w)", "Slice(w, s, e)")
    text = text.replace("{\n  [turn]", """{
      s = Constant <value = int64[2] {0, 0}> ()
      e = Constant <value = int64[2] {32, 48}> ()
  [turn]""", 1)  # fmt: skip
    weight = draw(32, 64, seed=1)
    weight[:, 48:] *= 100
    converted, _ = convert(store_two(text, weight), tmp_path, "fp8-current")
    assert find_types(converted)["w"] == F32
    assert len(find_ops(converted, "QuantizeLinear")) == 2
    x = draw(4, 32, seed=2)
    h = evaluate(tmp_path / "out.onnx", {"x": x})["h"]
    terms = np.abs(x) @ np.abs(weight[:, :48])
    assert (np.abs(h - x @ weight[:, :48]) <= 2.0**-3 * terms).all()
