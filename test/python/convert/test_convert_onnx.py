"""`binade convert` on small graphs: formats, names, types, external data."""

import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from support.convert import (
    BINADE,
    add_tensor,
    convert,
    draw,
    find_reasons,
    find_types,
    parse,
    run_both,
    strip,
)

LAYER = """
g (float[4, 8] x) => (float[4, 6] y) {
  [first] h = MatMul(x, w)
  [bias] b = Add(h, c)
  [act] y = Relu(b)
}"""


def make_layer():
    model = add_tensor(parse(LAYER), "w", draw(8, 6, scale=0.3))
    return add_tensor(model, "c", draw(6, seed=1))


def test_fp32_changes_no_node(tmp_path):
    model = make_layer()
    converted, _ = convert(model, tmp_path, "fp32")
    assert converted.SerializeToString() == model.SerializeToString()


def test_matmuls_round_to_f16(tmp_path):
    """Operands, sums and results of the matmul are rounded to f16."""
    converted, text = convert(make_layer(), tmp_path, "fp16-amp")
    x = draw(4, 8, seed=2)
    exact, narrow = run_both(tmp_path, {"x": x})
    w, c = draw(8, 6, scale=0.3).astype("f2"), draw(6, seed=1).astype("f2")
    x = x.astype("f2").astype("f8")
    expected = np.maximum(x @ w.astype("f8") + c, 0)
    terms = np.abs(x) @ np.abs(w.astype("f8")) + np.abs(c)
    assert (np.abs(narrow["y"] - expected) <= 10 * 2.0**-11 * terms).all()
    # Rounding changed the result.
    assert not np.array_equal(narrow["y"], exact["y"])
    types = find_types(converted)
    assert {types[name] for name in "whcb"} == {TensorProto.FLOAT16}
    assert types["x"] == types["y"] == TensorProto.FLOAT
    assert "3 of them narrow, 2 casts added, 2 tensors stored narrow" in text


def test_sums_in_f32_are_not_rounded(tmp_path):
    """Operands in f16, result in f32: ONNX's MatMul has one type for both."""
    policy = tmp_path / "sums.yaml"
    policy.write_text(
        "name: sums\nextends: fp16-amp\nrules:\n"
        "- { match: { op: matmul }, compute: f16, result: f32 }\n"
    )
    text = LAYER.replace("[bias] b = Add(h, c)", "[bias] b = Neg(h)")
    model = add_tensor(parse(text), "w", draw(8, 6, scale=0.3))
    convert(model, tmp_path, str(policy))
    x = draw(4, 8, seed=2)
    exact, narrow = run_both(tmp_path, {"x": x})
    w = draw(8, 6, scale=0.3).astype("f2").astype("f8")
    expected = np.maximum(-(x.astype("f2") @ w), 0)
    assert np.allclose(narrow["y"], expected, rtol=1e-5, atol=1e-6)
    assert not np.allclose(exact["y"], expected, rtol=1e-5, atol=1e-6)


def test_nodes_keep_names_and_state_reasons(tmp_path):
    model = make_layer()
    converted, _ = convert(model, tmp_path, "fp16-amp")
    names = [node.name for node in converted.graph.node if node.op_type != "Cast"]
    assert names == ["first", "bias", "act"]
    made = {name for node in converted.graph.node for name in node.output}
    assert {"h", "b", "y"} <= made
    reasons = find_reasons(converted)
    assert reasons["first"] == "f16, sums f32 <- class allow"
    assert reasons["act"] == "f16 <- class clear"
    policies = {entry.key: entry.value for entry in converted.metadata_props}
    assert policies["binade.converted"] == "fp16-amp"
    # A converted model can be converted again.
    again, _ = convert(converted, tmp_path, "fp32")
    assert strip(again) == strip(converted)


@pytest.mark.parametrize("policy", ["fp32", "fp16-amp"])
def test_external_data_is_written(tmp_path, policy):
    converted, text = convert(
        make_layer(), tmp_path, policy,
        save_as_external_data=True, location="weights.bin", size_threshold=0,
    )  # fmt: skip
    assert "weights in: " in text
    for tensor in converted.graph.initializer:
        place = {entry.key: entry.value for entry in tensor.external_data}
        assert place["location"] == "out.onnx.data"
        size = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
        assert int(place["length"]) == size * np.prod(tensor.dims)
    whole = onnx.load(tmp_path / "out.onnx")
    w = onnx.numpy_helper.to_array(whole.graph.initializer[0])
    expected = draw(8, 6, scale=0.3).astype("f2" if policy == "fp16-amp" else "f4")
    assert w.tobytes() == expected.tobytes()


def test_io_types_set_inputs_and_outputs(tmp_path):
    converted, _ = convert(
        make_layer(), tmp_path, "fp16-amp", "--io-types", "x=f16", "--io-types", "y=f16"
    )
    types = find_types(converted)
    assert types["x"] == types["y"] == TensorProto.FLOAT16
    assert [node.op_type for node in converted.graph.node] == ["MatMul", "Add", "Relu"]
    # The same if all other values are f32.
    converted, _ = convert(make_layer(), tmp_path, "fp32", "--io-types", "*=bf16")
    types = find_types(converted)
    assert types["x"] == types["y"] == TensorProto.BFLOAT16
    assert types["h"] == TensorProto.FLOAT


EXTERNAL = {"save_as_external_data": True, "location": "m.bin", "size_threshold": 0}


@pytest.mark.parametrize("save", [{}, EXTERNAL], ids=["inside", "external"])
def test_masks_stay_finite(tmp_path, save):
    """-1e9 overflows in f16. A mask before a softmax becomes the format's lowest value, because
    a row of negative infinities would give NaN."""
    text = """
    g (float[2, 2] x, float[2, 2] z) => (float[2, 2] y, float[2, 2] s) {
      p = MatMul(x, z)
      y = Add(p, mask)
      s = Softmax(y)
    }"""
    mask = np.array([[0, -1e9], [-1e9, 0]], "f4")
    model = add_tensor(parse(text), "mask", mask)
    # Readers in f32 or bf16 get -1e9; only readers in f16 get another value.
    convert(model, tmp_path, "bf16", **save)
    for tensor in onnx.load(tmp_path / "out.onnx").graph.initializer:
        assert np.isfinite(onnx.numpy_helper.to_array(tensor).astype("f4")).all()
    policy = tmp_path / "all.yaml"
    policy.write_text("name: all\nextends: bf16\nnarrow: f16\n")
    convert(model, tmp_path, str(policy), **save)
    x = np.eye(2, dtype="f4")
    _, narrow = run_both(tmp_path, {"x": x, "z": x})
    assert (narrow["y"] == np.array([[1, -65504], [-65504, 1]])).all()
    assert (narrow["s"] == np.eye(2)).all()


CARRIED = """
<ir_version: 10, opset_import: ["" : 20, "own" : 1]>
g (float[4, 4] x, bool c) => (float[4, 4] y, float[4, 4] z) {
  h = MatMul(x, x)
  [strange] s = own.Strange <strength = 3> (h)
  t = MatMul(s, x)
  y = Relu(t)
  [branch] z = If (c) <then_branch = then () => (float[4, 4] a) {a = Neg(h)},
                       else_branch = otherwise () => (float[4, 4] b) {b = Abs(t)}>
}"""


def test_unknown_ops_stay_in_f32(tmp_path):
    """Unknown ops read and return f32. Results of branches have the format of all branches."""
    model = onnx.parser.parse_model(CARRIED)
    for name in ("s", "t"):
        value = onnx.helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 4])
        model.graph.value_info.append(value)
    source, target = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(model, source)
    command = [BINADE, "convert", source, "--policy", "fp16-amp", "-o", target]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "left in f32: node 'strange': no such op is known" in done.stdout
    assert "left in f32: node 'branch'" not in done.stdout
    converted = onnx.load(target)
    kept = {node.name: node for node in converted.graph.node if node.name}
    made = {name: node for node in converted.graph.node for name in node.output}
    assert made[kept["strange"].input[0]].op_type == "Cast"
    branches = {a.name: a.g for a in kept["branch"].attribute}
    # Nodes of the branches read the narrow matmul; a cast after the If makes the output f32.
    for name, op in (("then_branch", "Neg"), ("else_branch", "Abs")):
        (node,), (output,) = branches[name].node, branches[name].output
        assert node.op_type == op and node.output[0] == output.name
        assert output.type.tensor_type.elem_type == TensorProto.FLOAT16
    last = made["z"]
    assert last.op_type == "Cast" and last.input[0] == kept["branch"].output[0]
    products = [node for node in converted.graph.node if node.op_type == "MatMul"]
    assert [node.output[0] for node in products] == ["h", "t"]
    done = subprocess.run([BINADE, "compile", source, "-o", tmp_path / "m.bnd"])
    assert done.returncode == 3


def test_nodes_are_sorted_topologically(tmp_path):
    model = make_layer()
    nodes = list(model.graph.node)[::-1]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    converted, _ = convert(model, tmp_path, "fp16-amp")
    assert [n.name for n in converted.graph.node if n.op_type != "Cast"] == [
        "first", "bias", "act",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "node",
    ["y = DFT <axis = 1> (x)", "y = MatMulInteger (a, b)"],
)
def test_undecided_ops_are_unchanged(tmp_path, node):
    """No policy changes ops whose accumulation is fixed: DFT in f32, integer matmuls."""
    model = onnx.parser.parse_model(f"""<ir_version: 9, opset_import: ["" : 19]>
    g (float[1, 8, 1] x, uint8[4, 3] a, uint8[3, 2] b) => (y) {{ {node} }}""")
    model = onnx.shape_inference.infer_shapes(model)
    converted, _ = convert(model, tmp_path, "fp32")
    assert converted.SerializeToString() == model.SerializeToString()


def test_operator_sets_without_a_cast_are_not_narrowed(tmp_path):
    """Cast supports bf16 since operator set 13. Without the default domain there is no
    Cast at all."""
    graph = "g (float[4] x) => (float[4] y) { y = %s (x) }"
    set_9 = '<ir_version: 4, opset_import: ["" : 9]>\n'
    model = onnx.parser.parse_model(set_9 + graph % "Shrink <lambd = 1.0>")
    converted, text = convert(model, tmp_path, "bf16")
    assert "Cast of this operator set has no bf16: f32 instead (1 node)" in text
    assert [node.op_type for node in converted.graph.node] == ["Shrink"]
    ports = ["--io-types", "x=bf16"]
    (tmp_path / "refused").mkdir()
    _, text = convert(model, tmp_path / "refused", "bf16", *ports, code=3)
    assert "Cast of the model's operator set has no 'bf16'" in text
    other = '<ir_version: 4, opset_import: ["ai.onnx.ml" : 1]>\n'
    model = onnx.parser.parse_model(other + graph % "ai.onnx.ml.Binarizer")
    converted, text = convert(model, tmp_path, "fp16-amp")
    assert [node.op_type for node in converted.graph.node] == ["Binarizer"]


def test_states_without_an_initial_value(tmp_path):
    """ONNX infers the query's type for such a state."""
    model = onnx.parser.parse_model("""<ir_version: 13, opset_import: ["" : 27]>
    g (float[1, 4, 8] q, float[1, 4, 8] k, float[1, 4, 8] v)
        => (float[1, 4, 8] y, float[1, 2, 4, 4] state) {
      y, state = LinearAttention <q_num_heads = 2, kv_num_heads = 2,
                                  update_rule = "linear"> (q, k, v)
    }""")
    converted, _ = convert(model, tmp_path, "bf16")
    types = find_types(converted)
    assert types["y"] == types["state"] == TensorProto.FLOAT
    made = [node for node in converted.graph.node if node.op_type == "LinearAttention"]
    assert {types[name] for name in made[0].output} == {TensorProto.BFLOAT16}


@pytest.mark.parametrize(
    "options, code, message",
    [
        (["--io-types", "q*=f16"], 3, "--io-types 'q*' matches none"),
        (["--io-types", "x=f8"], 2, "--io-types expects GLOB=f32, f16 or bf16"),
        (["--loss-scale", "3"], 2, "--loss-scale expects a power of two, got 3"),
        (["--dim", "batch=2"], 3, "--dim 'batch': no input has such a dimension"),
    ],
)
def test_invalid_options_are_errors(tmp_path, options, code, message):
    _, text = convert(make_layer(), tmp_path, "fp16-amp", *options, code=code)
    assert message in text


def test_invalid_files_are_refused(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_text("no model")
    for output in ("out.onnx", "m.onnx"):
        command = [BINADE, "convert", path, "--policy", "fp32", "-o", tmp_path / output]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 3 and "expected an ONNX model" in done.stderr
        onnx.save(make_layer(), path)
        if output == "out.onnx":
            path.write_text("no model")
