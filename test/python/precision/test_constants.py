"""An op stays wide if the narrow format does not represent a constant that it reads: for
several formats, places where an ONNX graph defines a constant, ops, and values."""

import json
import re
import subprocess

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support.constant_graphs import f, tensor
from support.convert import convert, find_reasons, parse
from support.paths import BUILD

FORMATS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}
# The policy whose elementwise ops are narrow wherever it can.
POLICIES = {"f16": "autocast-onnx", "bf16": "bf16"}
VALUES = [
    1e-30, 1e-12, 1e-8, 5e-8, 1e-6, 1e-5, 1e-3, 0.5, 3.0, 100.0, 6e4, 65519.0, 1e5, 1e6,
    1e30, -1e-8, -1e6,
]  # fmt: skip


def is_held(value, dtype):
    """Whether the relative error of rounding is at most 2^-7, or that of the format's precision."""
    largest = float(ml_dtypes.finfo(dtype).max)
    rounded = float(np.clip(value, -largest, largest).astype(dtype))
    own = float(ml_dtypes.finfo(dtype).eps) / 2
    return abs(rounded - value) <= max(2.0**-7, own) * abs(value)


def constant(**attributes):
    return helper.make_node("Constant", [], ["c"], name="made", **attributes)


def node(op, inputs, output, **attributes):
    return helper.make_node(op, inputs, [output], name=f"{op}_{output}", **attributes)


# Nodes and initializers that define the constant `c`.
PLACES = {
    "initializer": lambda v: ([], [tensor("c", f(v))]),
    "list_of_one": lambda v: ([], [tensor("c", [f(v)])]),
    "vector": lambda v: ([], [tensor("c", np.full(3, v, "f4"))]),
    "value": lambda v: ([constant(value=tensor("", f(v)))], []),
    "value_float": lambda v: ([constant(value_float=v)], []),
    "value_floats": lambda v: ([constant(value_floats=[v, v, v])], []),
    "cast": lambda v: ([node("Cast", ["d"], "c", to=1)], [tensor("d", np.float64(v))]),
    "identity": lambda v: ([node("Identity", ["d"], "c")], [tensor("d", f(v))]),
    "reshape": lambda v: (
        [node("Reshape", ["d", "s"], "c")], [tensor("d", [f(v)]), tensor("s", [1, 1])],
    ),
    "constant_of_shape": lambda v: (
        [node("ConstantOfShape", ["s"], "c", value=tensor("", [f(v)]))], [tensor("s", [3])],
    ),
    "expand": lambda v: (
        [node("Expand", ["d", "s"], "c")], [tensor("d", f(v)), tensor("s", [2, 3])],
    ),
}  # fmt: skip
# Nodes that read `c` and `h`; the test checks the format of the last one.
READERS = {
    "add": [node("Add", ["h", "c"], "y")],
    "sub": [node("Sub", ["c", "h"], "y")],
    "mul": [node("Mul", ["h", "c"], "y")],
    "div": [node("Div", ["h", "c"], "y")],
    "where": [node("Greater", ["h", "zero"], "b"), node("Where", ["b", "h", "c"], "y")],
    "max": [node("Max", ["h", "c"], "y")],
}


def make(place, reader, value):
    """A model with a matmul, which makes the next op narrow by the operand rule, and the
    op that reads the constant."""
    nodes, tensors = PLACES[place](value)
    weights = [tensor("w", np.eye(4, 3, dtype="f4")), tensor("zero", f(0))]
    graph = helper.make_graph(
        [node("MatMul", ["x", "w"], "h"), *nodes, *READERS[reader]], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
        [*weights, *tensors],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    model.ir_version = 10
    model.metadata_props.add(key="binade.trainable", value='["w"]')
    onnx.checker.check_model(model, full_check=True)
    return model


@pytest.mark.parametrize("format", POLICIES)
@pytest.mark.parametrize("reader", READERS)
def test_ops_that_read_constants(tmp_path, format, reader):
    """The node is narrow if and only if the format represents the constant."""
    places = list(PLACES)
    for index, value in enumerate(VALUES):
        model = make(places[index % len(places)], reader, value)
        converted, text = convert(model, tmp_path, POLICIES[format])
        name = READERS[reader][-1].name
        reason = find_reasons(converted)[name]
        held = is_held(value, FORMATS[format])
        assert (f"node '{name}': constant" in text) != held, (value, text)
        if reader != "max":  # The policy computes Max in f32 in any case.
            assert reason.startswith(format) == held, (value, reason)
        else:
            assert held or "constant" in reason


@pytest.mark.parametrize("place", PLACES)
def test_places_of_constants(tmp_path, place):
    for value in (1e-8, 1e6, 0.5):
        converted, text = convert(make(place, "add", value), tmp_path, "fp16-amp")
        assert find_reasons(converted)["Add_y"].startswith("f32") == (value != 0.5)
        assert ("which becomes" in text) == (value != 0.5)


@pytest.mark.parametrize("format", FORMATS)
def test_explain_names_constants_that_a_format_lacks(tmp_path, format):
    (tmp_path / "p.yaml").write_text(f"name: p\nextends: bf16\nnarrow: {format}\n")
    for value in VALUES:
        onnx.save(make("initializer", "add", value), tmp_path / "m.onnx")
        done = subprocess.run(
            [BUILD / "bin" / "binade", "explain", "m.onnx", "--policy", "p.yaml", "--loss",
             "mse(y, t)", "--format", "json"],
            check=False, capture_output=True, text=True, cwd=tmp_path, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        op = next(op for op in json.loads(done.stdout)["ops"] if "Add_y" in op["name"])
        assert ("constant 'c' is" in json.dumps(op)) != is_held(value, FORMATS[format])


# The node `sum` adds c to a matmul, in a graph inside the node or in the function that
# computes y.
INSIDE = {
    "If": """
  y = If (flag) <
    then_branch = yes () => (float[2, 3] o) {{ {0} m = MatMul(h, r) [sum] o = Add(m, c) }},
    else_branch = no () => (float[2, 3] p) {{ p = MatMul(h, r) }}
  >""",
    "Loop": """
  y = Loop (count, flag, h) <body = step (int64 i, bool on, float[2, 3] s)
    => (bool on_out, float[2, 3] o) {{
      on_out = Identity(on) {0} m = MatMul(s, r) [sum] o = Add(m, c)
    }}>""",
    "Scan": """
  y = Scan <num_scan_inputs = 1, body = row (float[3] s) => (float[3] o) {{
      {0} m = MatMul(s, r) [sum] o = Add(m, c)
    }}> (h)""",
    "function": "y = own.f(h, r{1})",
}
CALLED = """
<domain: "own", opset_import: ["" : 20]>
f (h, r{1}) => (o) {{ {0} m = MatMul(h, r) [sum] o = Add(m, c) }}"""


def make_inside(kind, is_inner, value):
    """The constant is a node of the inner graph, or belongs to the graph around it."""
    made = f"c = Constant <value_float = {value!r}> ()" if is_inner else ""
    given = "" if is_inner else ", c"
    head = '<ir_version: 10, opset_import: ["" : 20, "own" : 1]>\ng (float[2, 4] x)'
    body = INSIDE[kind].format(made, given)
    text = f"{head} => (float[2, 3] y) {{ h = MatMul(x, w) {body} }}"
    if kind == "function":
        text += CALLED.format(made, given)
    model = onnx.parser.parse_model(text)
    tensors = {"w": np.eye(4, 3, dtype="f4"), "r": np.eye(3, dtype="f4"),
               "flag": np.array(True), "count": np.array(2), "c": f(value)}  # fmt: skip
    for name, array in tensors.items():
        if name != "c" or not is_inner:
            model.graph.initializer.append(tensor(name, array))
    return model


def find_inner_reasons(graph):
    """Reasons of nodes by name, including the nodes of inner graphs."""
    found = {}
    for node in graph.node:
        for entry in node.metadata_props:
            if entry.key == "binade.precision":
                found[node.name] = entry.value
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                found |= find_inner_reasons(attribute.g)
    return found


@pytest.mark.parametrize("base", ["autocast-onnx", "fp8-current"])
@pytest.mark.parametrize("kind", INSIDE)
def test_constants_of_inner_graphs(tmp_path, kind, base):
    """Covers graphs inside nodes and functions, also if a policy quantizes matmuls to FP8."""
    policy = tmp_path / "p.yaml"
    policy.write_text(f"name: p\nextends: {base}\nnarrow: f16\n")
    for is_inner in (False, True):
        for value in (1e-8, 1e6, 0.5):
            model = make_inside(kind, is_inner, value)
            converted, text = convert(model, tmp_path, str(policy))
            found = find_inner_reasons(converted.graph)
            reason = next(found[name] for name in found if name.endswith("sum"))
            assert reason.startswith("f16") == (value == 0.5), reason
            assert ("kept in f32" in text and "which becomes" in text) == (value != 0.5)


def test_a_users_rule_overrides_the_constant(tmp_path):
    policy = tmp_path / "mine.yaml"
    policy.write_text(
        "name: mine\nextends: fp16-amp\nrules:\n- { match: { op: add }, class: allow }\n"
    )
    converted, text = convert(make("initializer", "add", 1e-8), tmp_path, str(policy))
    assert find_reasons(converted)["Add_y"].startswith("f16")
    line = "not as decided: node 'Add_y': constant 'c' is 1e-08, which becomes 0 in f16"
    assert line in text


def train(folder, policy):
    done = subprocess.run(
        [BUILD / "bin" / "binade", "train", "m.onnx", "--data", "d.safetensors", "--policy",
         policy, "--order", "sequential", "--lr", "0.01", "--steps", "5", "--out", "run." + policy],
        check=False, capture_output=True, text=True, cwd=folder, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = (folder / f"run.{policy}" / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line)["loss"] for line in lines if '"loss"' in line]


def test_losses_of_training_match_f32(tmp_path):
    from binade import safetensors

    model = parse("""
g (float[8, 4] x) => (float loss) {
  h = MatMul(x, w)
  r = Relu(h)
  a = Add(r, c)
  l = Log(a)
  loss = ReduceMean <keepdims = 0> (l)
}""")
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((4, 3)).astype("f4")
    model.graph.initializer.extend([tensor("w", weight), tensor("c", f(1e-8))])
    model.metadata_props.add(key="binade.trainable", value='["w"]')
    onnx.save(model, tmp_path / "m.onnx")
    batch = -np.abs(rng.standard_normal((64, 4))).astype("f4")
    safetensors.save(tmp_path / "d.safetensors", {"x": batch})
    # A static scale, because a dynamic one may skip steps.
    (tmp_path / "p.yaml").write_text(
        "name: p\nextends: fp16-amp\nloss_scale: { static: 8 }\n"
    )
    exact, narrow = train(tmp_path, "fp32"), train(tmp_path, "p.yaml")
    assert len(exact) >= 5
    assert np.allclose(exact, narrow, rtol=1e-2)
    message = re.compile("constant 'c' is 1e-08, which becomes 0 in f16")
    done = subprocess.run(
        [BUILD / "bin" / "binade", "explain", "m.onnx", "--policy", "fp16-amp"],
        check=False, capture_output=True, text=True, cwd=tmp_path, timeout=60,
    )  # fmt: skip
    assert message.search(done.stdout)
