"""Import rejects invalid graphs and options with a message that says why."""

import re

import pytest
from support.invalid_imports import check_rejected, messages, parse
from support.paths import BUILD

onnx = pytest.importorskip("onnx")

TRANSLATE = BUILD / "bin" / "binade-translate"

pytestmark = pytest.mark.skipif(not TRANSLATE.exists(), reason="the tool is not built")

RELU = "g (float[2,3] x) => (float[2,3] y) { y = Relu(x) }"
# Graph, flags, message. "opset N" before a graph replaces opset 20.
GRAPHS = {
    "missing_dimension": (
        "g (float[batch,3] x, float[time] z) => (float[batch,3] y) { y = Relu(x) }",
        [],
        "m.onnx: error: has symbolic dimensions without a value: 'batch' (of input "
        "'x'), 'time' (of input 'z')\nm.onnx: note: give each a number: "
        "--dim batch=NUMBER",
    ),
    "unknown_dimension": (
        "g (float[batch,3] x) => (float[batch,3] y) { y = Relu(x) }",
        ["--dim", "btch=4"],
        "m.onnx: error: --dim 'btch': no input has such a dimension; the model's are: "
        "'batch'",
    ),
    "dimension_of_zero": (
        "g (float[batch,3] x) => (float[batch,3] y) { y = Relu(x) }",
        ["--dim", "batch=0"],
        "m.onnx: error: --dim 'batch' has to be positive, got 0",
    ),
    "dimension_without_a_name": (
        "g (float[?,3] x) => (float[2,3] y) { y = Relu(x) }",
        [],
        "m.onnx:input 'x': error: axis 0 has neither a length nor a name; export the "
        "model with one",
    ),
    "dimension_without_a_number": (
        RELU,
        ["--dim", "batch"],
        "--dim name=value, got 'batch'",
    ),
    "unsupported_type": (
        "g (string[2] x) => (string[2] y) { y = Identity(x) }",
        [],
        "m.onnx:input 'x': error: element type string is not supported; supported are "
        "floats of 4 to 64 bits, integers of 2 to 64 bits and bool",
    ),
    "unknown_ops": (
        """g (float[2] x) => (float[2] y) {
          [one] a = NoSuchOp(x)  [two] b = ImageDecoder(a)  [three] c = NoSuchOp(b)
          y = other.domain.Thing(c)  d = NoSuchOp(y)
        }""",
        [],
        "m.onnx: error: has ops that cannot be imported: NoSuchOp (2), ImageDecoder (1), "
        "other.domain.Thing (1)\n"
        "m.onnx: note: NoSuchOp of opset 20, 2 nodes: 'one', 'three'\n"
        "m.onnx: note: ImageDecoder of opset 20, 1 node: 'two'\n"
        "m.onnx: note: other.domain.Thing of opset 20, 1 node: 'Thing_3'\n",
    ),
    "op_of_a_newer_opset": (
        "opset 19 g (float[2] x) => (float[2] y) { y = Gelu(x) }",
        [],
        "m.onnx: error: has ops that cannot be imported: Gelu (1)",
    ),
    "function_of_another_opset": (
        """g (float[2] x) => (float[2] y) { [call] y = local.f(x) }
           <opset_import: ["" : 19], domain: "local"> f (x) => (y) { y = Relu(x) }""",
        [],
        "m.onnx:node 'call': error: calls function 'f' of opset 19 in a graph of opset 20",
    ),
    "function_that_calls_itself": (
        """g (float[2] x) => (float[2] y) { [call] y = local.f(x) }
           <opset_import: ["" : 20], domain: "local">
           f (x) => (y) { [again] y = local.f(x) }""",
        [],
        "error: calls functions more than 32 deep",
    ),
    "function_of_fewer_inputs": (
        """g (float[2] x) => (float[2] y) { [call] y = local.f(x, x) }
           <opset_import: ["" : 20], domain: "local"> f (x) => (y) { y = Relu(x) }""",
        [],
        "error: has 2 inputs and 1 outputs, but function 'f' has 1 and 1",
    ),
    "codes_of_many_bits": (
        "g (float[2] x, float s, int32 z) => (y) { [node] y = QuantizeLinear(x, s, z) }",
        [],
        "m.onnx:node 'node' (QuantizeLinear): error: expected quantized values that are "
        "floats of 4 or 8 bits, or integers of 2 to 16 bits, got 'i32'",
    ),
    "scales_of_other_blocks": (
        """opset 21 g (int8[2,6] x, float[2,2] s) => (y)
           { [node] y = DequantizeLinear <block_size = 2> (x, s) }""",
        [],
        "(DequantizeLinear): error: cannot scale 'tensor<2x6xi8>' by 'tensor<2x2xf32>' "
        "along axis 1 in blocks of 2",
    ),
    "grid_of_other_axes": (
        "g (float[1,1,3,3] x, float[1,2,2,3] p) => (y) { [node] y = GridSample(x, p) }",
        [],
        "(GridSample): error: cannot sample 'tensor<1x1x3x3xf32>' at "
        "'tensor<1x2x2x3xf32>'",
    ),
    "lengths_of_other_sequences": (
        """g (float[4,3,2] x, float[1,5,2] w, float[1,5,5] r, int32[2] n) => (y)
           { [node] y = RNN <hidden_size = 5> (x, w, r, , n) }""",
        [],
        "(RNN): error: expected a length of int32 for each of 3 sequences, got "
        "'tensor<2xi32>'",
    ),
    "old_op": (
        "opset 12 g (float[2] x) => (y) { [node] y = Hardmax(x) }",
        [],
        "m.onnx: error: has ops that cannot be imported: Hardmax (1)",
    ),
    "axes_of_no_opset": (
        "g (float[2] x) => (y) { [node] y = Unsqueeze(x) }",
        [],
        "m.onnx:node 'node' (Unsqueeze): error: expected 2 inputs, got 1",
    ),
    "new_opset": (
        "opset 99 " + RELU,
        [],
        "m.onnx: error: the model uses ONNX opset 99",
    ),
    "cycle": (
        """g (float[2] x) => (float[2] y) {
          [first] a = Add(x, c)  [second] b = Relu(a)  [third] c = Neg(b)  y = Relu(c)
        }""",
        [],
        "depends on its own result, through 3 nodes",
    ),
    "undefined_name": (
        "g (float[2] x) => (float[2] y) { [n] y = Add(x, z) }",
        [],
        "m.onnx:node 'n' (Add): error: reads 'z', which nothing defines",
    ),
    "undefined_output": (
        "g (float[2] x) => (float[2] y, float[2] z) { y = Relu(x) }",
        [],
        "m.onnx:output 'z': error: is defined by no node",
    ),
    "second_definition": (
        "g (float[2] x) => (float[2] y) { y = Relu(x)  [again] y = Neg(x) }",
        [],
        "m.onnx:node 'again' (Neg): error: defines 'y' a second time",
    ),
    "declared_otherwise": (
        "g (float[2,3] x) => (float[3,2] y) { y = Relu(x) }",
        [],
        "m.onnx:output 'y': error: is computed as 'tensor<2x3xf32>', but declared as "
        "FLOAT [3, 2]",
    ),
    "loss_and_loss_output": (
        RELU,
        ["--loss", "mse(y, t)", "--loss-output", "y"],
        "m.onnx: error: --loss and --loss-output exclude each other",
    ),
    "loss_of_no_output": (
        RELU,
        ["--loss", "mse(z, t)"],
        "m.onnx: error: --loss: the model has no output 'z'; its outputs are 'y'",
    ),
    "loss_syntax": (
        RELU,
        ["--loss", "hinge(y, t)"],
        "m.onnx: error: expected loss 'cross_entropy(OUTPUT, INPUT)' or 'mse(OUTPUT, "
        "INPUT)', got 'hinge(y, t)'",
    ),
    "loss_option": (
        RELU,
        ["--loss", "mse(y, t, axis=1)"],
        "m.onnx: error: loss 'mse(y, t, axis=1)' has the option 'axis=1'; "
        "cross_entropy takes axis=N and ignore_index=N",
    ),
    "loss_axis": (
        RELU,
        ["--loss", "cross_entropy(y, t, axis=2)"],
        "m.onnx: error: cross_entropy needs an output with a class axis, but 'y' is "
        "'tensor<2x3xf32>' and the axis is 2",
    ),
    "loss_target": (
        RELU,
        ["--loss", "cross_entropy(y, x)"],
        "m.onnx: error: --loss: 'x' has to be a new name or an input of type "
        "'tensor<2xi64>', but it is a value of type 'tensor<2x3xf32>'",
    ),
    "loss_output_of_many_elements": (
        RELU,
        ["--loss-output", "y"],
        "m.onnx: error: --loss-output 'y' has to have one floating-point element, but "
        "it is f32 [2, 3]",
    ),
    "loss_output_of_no_name": (
        RELU,
        ["--loss-output", "z"],
        "m.onnx: error: --loss-output: the model has no output 'z'; its outputs are 'y'",
    ),
    "glob": (
        RELU,
        ["--freeze", "[a"],
        "m.onnx: error: --freeze '[a': invalid glob pattern, unmatched '['",
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_graph(name, tmp_path):
    check_rejected(*GRAPHS[name], tmp_path)


def test_cycle_names_its_nodes(tmp_path):
    onnx.save(parse(GRAPHS["cycle"][0]), tmp_path / "m.onnx")
    text = messages(tmp_path / "m.onnx")
    assert re.match(r"m.onnx:node '\w+' \(\w+\): error: depends on", text)
    for member in ("'first' (Add)", "'second' (Relu)", "'third' (Neg)"):
        assert f"node {member}" in text


def test_names_from_a_file_are_safe_to_print(tmp_path):
    model = parse("g (float[2] x) => (float[2] y) { [n] y = Add(x, z) }")
    model.graph.node[0].name = "\x1b[31mred\n" + "a" * 10_000
    onnx.save(model, tmp_path / "m.onnx")
    text = messages(tmp_path / "m.onnx")
    assert "\x1b" not in text
    assert len(text.splitlines()) == 1
    assert len(text) < 1_000
