"""Damaged or malicious ONNX models, and other files. The numbers in names are those of the
cases in docs/Security.md."""

import onnx
import pytest
from onnx import TensorProto, helper
from support import processes
from support.hostile import parse, refuse, run, write
from support.hostile_models import ACCEPTED, CASES, change


@pytest.mark.parametrize("case", CASES)
def test_rejected(case, tmp_path):
    model, code, words = CASES[case]
    path = write(model, tmp_path / "m.onnx")
    text = refuse(code, words, "binade", "import", path)
    assert str(path) in text


@pytest.mark.parametrize("case", ACCEPTED)
def test_accepted(case, tmp_path):
    done = run("binade", "import", write(ACCEPTED[case], tmp_path / "m.onnx"))
    assert done.returncode == 0, done.stderr.decode()


def list_required():
    """Yields required attributes of supported ops, from ONNX's schemas."""
    for schema in onnx.defs.get_all_schemas():
        if schema.domain or schema.deprecated or schema.name in NOT_READ:
            continue
        for name, attribute in schema.attributes.items():
            if attribute.required:
                yield schema, name


NOT_READ = {"MaxRoiPool", "SequenceMap", "TfIdfVectorizer"}


@pytest.mark.parametrize("schema, name", [
    pytest.param(schema, name, id=f"{schema.name}-{name}")
    for schema, name in list_required()
])  # fmt: skip
def test_18_required_attributes(schema, name, tmp_path):
    """Each missing attribute is named, even if the node has other errors."""
    others = [
        helper.make_attribute(other.name, helper.make_graph([], "g", [], []))
        for other in schema.attributes.values()
        if other.required and other.name != name
    ]
    names = ["x"] * schema.min_input
    node = helper.make_node(schema.name, names, ["y"], name="n")
    node.attribute.extend(others)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 2, 2])
    graph = helper.make_graph([node], "g", [x], [onnx.ValueInfoProto(name="y")])
    sets = [helper.make_opsetid("", max(schema.since_version, 20))]
    path = write(helper.make_model(graph, opset_imports=sets), tmp_path / "m.onnx")
    words = f"node 'n' ({schema.name}): error: attribute '{name}' is missing"
    refuse(3, words, "binade", "import", path)


@pytest.mark.parametrize("policy", ["fp16-amp", "fp8-current"])
@pytest.mark.parametrize("inputs, outputs", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_17_converting_nodes_with_few_inputs_and_outputs(
    inputs, outputs, policy, tmp_path
):
    """Every ONNX op that allows the number of inputs; convert copies nodes that cannot be
    imported."""
    graph = "g (float[4,4] x) => (float[4,4] y) { y = MatMul(x, x) }"
    ops = {
        s.name
        for s in onnx.defs.get_all_schemas()
        if not s.domain
        and s.min_input <= inputs <= s.max_input
        and not any(attribute.required for attribute in s.attributes.values())
    }
    model = parse(graph)
    for op in sorted(ops):
        node = helper.make_node(op, ["x"] * inputs, [f"{op}.y"][:outputs])
        if op == "Constant":
            value = helper.make_tensor("v", TensorProto.FLOAT, [1], [1.0])
            node.attribute.append(helper.make_attribute("value", value))
        model.graph.node.append(node)
    path, out = write(model, tmp_path / "m.onnx"), tmp_path / "o.onnx"
    done = run("binade", "convert", path, "--policy", policy, "-o", out)
    assert done.returncode == 0, done.stderr.decode()
    assert len(onnx.load(out).graph.node) > len(ops)


# Parts of a model in which the test adds an unknown field, and the name of their message.
UNKNOWN = {
    "model": (lambda m: m, "ModelProto"),
    "graph": (lambda m: m.graph, "GraphProto"),
    "node": (lambda m: m.graph.node[0], "NodeProto"),
    "attribute": (lambda m: m.graph.node[0].attribute[0], "AttributeProto"),
    "tensor": (lambda m: m.graph.initializer[0], "TensorProto"),
    "input": (lambda m: m.graph.input[0], "ValueInfoProto"),
    "type": (lambda m: m.graph.input[0].type, "TypeProto"),
    "body": (lambda m: m.graph.node[1].attribute[0].g.node[0], "NodeProto"),
}


@pytest.mark.parametrize("part", UNKNOWN)
@pytest.mark.parametrize("command", ["import", "convert", "compile"])
def test_7_unknown_fields_cause_one_warning(command, part, tmp_path):
    graph = """g (float[2,2] x) => (float[2,2] y) <float[2,2] w = {1, 2, 3, 4}, bool c = {1}> {
      a = Elu <alpha = 1.0> (x)
      b = If (c) < then_branch = t () => (float[2,2] d) { d = Relu(a) },
                   else_branch = e () => (float[2,2] f) { f = Neg(a) }>
      y = MatMul(b, w) }"""
    find, name = UNKNOWN[part]
    model = change(graph, lambda m: find(m).MergeFromString(b"\xfa\x3e\x03abc"))
    more = {
        "import": [],
        "convert": ["--policy", "fp32"],
        "compile": ["--train", "w", "--loss", "mse(y, target)", "--policy", "fp32"],
    }[command]
    out = {"import": "o.mlir", "convert": "o.onnx", "compile": "o.bnd"}[command]
    path = write(model, tmp_path / "m.onnx")
    done = run("binade", command, path, *more, "-o", tmp_path / out)
    text = done.stderr.decode()
    assert done.returncode == 0, text
    assert text.count("does not know") == 1, text
    assert f"the first is field 1007 of {name}; they are not read" in text


def test_12_unsorted_nodes_cause_a_warning(tmp_path):
    graph = "g (float[2] x) => (float[2] y) {{ {} }}"
    late = graph.format("[a] p = Neg(q) [b] q = Relu(x) [c] y = Exp(p)")
    done = run("binade", "import", write(late, tmp_path / "m.onnx"))
    assert done.returncode == 0, done.stderr
    text = done.stderr.decode()
    assert text.count("warning: ") == 1
    assert "node 'b' (Relu): warning: comes in the file after a node that" in text
    names = ("binade.relu", "binade.neg", "binade.exp")
    places = [done.stdout.decode().index(name) for name in names]
    assert places == sorted(places)
    right = graph.format("[b] q = Relu(x) [a] p = Neg(q) [c] y = Exp(p)")
    done = run("binade", "import", write(right, tmp_path / "m.onnx"))
    assert done.returncode == 0 and b"warning" not in done.stderr


def chain(count):
    """A model with a chain of `count` nodes."""
    nodes = [helper.make_node("Neg", [f"v{i}"], [f"v{i + 1}"]) for i in range(count)]
    ends = [helper.make_tensor_value_info(f"v{i}", 1, [4]) for i in (0, count)]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def measure(count, folder):
    """CPU seconds and bytes of memory for importing a model with `count` nodes."""
    model, out = write(chain(count), folder / "m.onnx"), folder / "m.mlir"
    used = processes.measure("binade", "import", model, "-o", out)
    assert out.read_text().count("binade.neg") == count
    return used


@pytest.mark.parametrize(
    "count", [40_000, pytest.param(1_000_000, marks=pytest.mark.nightly)]
)
def test_29_time_and_memory_are_linear_in_the_number_of_nodes(count, tmp_path):
    """Four times the nodes take about four times as long; quadratic time would be sixteen
    times as long."""
    few, _ = measure(count // 4, tmp_path)
    many, memory = measure(count, tmp_path)
    assert many < 8 * few
    assert memory < 300e6 + 3000 * count
