"""A narrow format that does not hold a constant keeps what reads it wide: over formats,
places where a constant stands, ops that read it, and values."""

import json
import re
import subprocess

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.convert import convert, evaluate, find_reasons, open_session, parse, run
from support.paths import BUILD

FORMATS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}
# The policy whose elementwise ops are narrow wherever it can.
POLICIES = {"f16": "autocast-onnx", "bf16": "bf16"}
VALUES = [
    1e-30, 1e-12, 1e-8, 5e-8, 1e-6, 1e-5, 1e-3, 0.5, 3.0, 100.0, 6e4, 65519.0, 1e5, 1e6,
    1e30, -1e-8, -1e6,
]  # fmt: skip


def is_held(value, dtype):
    """Whether the format has a number within 1 % or its own rounding."""
    largest = float(ml_dtypes.finfo(dtype).max)
    rounded = float(np.clip(value, -largest, largest).astype(dtype))
    own = float(ml_dtypes.finfo(dtype).eps) / 2
    return abs(rounded - value) <= max(2.0**-7, own) * abs(value)


def tensor(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


def constant(**attributes):
    return helper.make_node("Constant", [], ["c"], name="made", **attributes)


def node(op, inputs, output, **attributes):
    return helper.make_node(op, inputs, [output], name=f"{op}_{output}", **attributes)


def f(value):
    return np.float32(value)


# Nodes and initializers that make the constant `c`.
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
# Nodes that read `c` and `h`, and the one whose format is asked for.
READERS = {
    "add": [node("Add", ["h", "c"], "y")],
    "sub": [node("Sub", ["c", "h"], "y")],
    "mul": [node("Mul", ["h", "c"], "y")],
    "div": [node("Div", ["h", "c"], "y")],
    "where": [node("Greater", ["h", "zero"], "b"), node("Where", ["b", "h", "c"], "y")],
    "max": [node("Max", ["h", "c"], "y")],
}


def make(place, reader, value):
    """A product, so that what follows is narrow by the operand rule, and a reader."""
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
def test_readers_of_constants(tmp_path, format, reader):
    """The node is narrow exactly where the format holds the constant."""
    places = list(PLACES)
    for index, value in enumerate(VALUES):
        model = make(places[index % len(places)], reader, value)
        converted, text = convert(model, tmp_path, POLICIES[format])
        name = READERS[reader][-1].name
        reason = find_reasons(converted)[name]
        held = is_held(value, FORMATS[format])
        assert (f"node '{name}': constant" in text) != held, (value, text)
        if reader != "max":  # The policy has it compute in f32 anyway.
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
def test_formats(tmp_path, format):
    """What `explain` says of an addition, by a policy with the format."""
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


LOGS = """
g (float[2, 4] x) => (float[2, 3] y) {{
  h = MatMul(x, w)
  r = Relu(h)
  {}
}}"""
ENDS = {
    "log": "a = Add(r, c) y = Log(a)",
    "quotient": "a = Add(r, c) y = Div(r, a)",
    "clipped": "a = Clip(r, c) y = Div(r, a)",
    "maximum": "a = Max(r, c) y = Div(r, a)",
    "root": "s = Mul(r, r) a = Add(s, c) q = Sqrt(a) y = Div(r, q)",
    "padded": "p = Constant <value_ints = [0, 0, 0, 1]> () z = Pad(r, p, c)"
    " b = Constant <value_ints = [0, 1]> () e = Constant <value_ints = [2, 4]> ()"
    " s = Slice(z, b, e) y = Log(s)",
}


@pytest.mark.parametrize("policy", ["fp16-amp", "autocast-onnx", "torch-cuda-fp16"])
@pytest.mark.parametrize("end", ENDS)
def test_small_constants_protect(tmp_path, end, policy):
    """Results are finite and those of f32, in runtimes with and without optimizations."""
    for value in (1e-8, 1e-12):
        if end == "padded":
            value = 1e6
        model = parse(LOGS.format(ENDS[end]))
        for name, array in {"w": np.eye(4, 3, dtype="f4"), "c": f(value)}.items():
            model.graph.initializer.append(tensor(name, array))
        convert(model, tmp_path, policy)
        x = np.float32([[0, 0, 0.5, 0], [1, -2, 0.25, 1]])
        x = {"x": np.abs(x) + 1 if end == "padded" else x}
        expected = run(tmp_path / "in.onnx", x)["y"]
        default = open_session(str(tmp_path / "out.onnx")).run(None, x)[0]
        for found in (evaluate(tmp_path / "out.onnx", x)["y"], default):
            assert np.isfinite(found).all()
            assert np.allclose(found, expected, rtol=1e-2, atol=1e-2)


MASKED = """
g (float[2, 4] x, bool[2, 4] m) => (float[2, 4] y) {{
  h = MatMul(x, w)
  {}
  p = Softmax(a)
  y = MatMul(p, w)
}}"""


@pytest.mark.parametrize("value", [-1e9, float(np.finfo("f4").min), -np.inf])
@pytest.mark.parametrize(
    "mask",
    [
        "a = Where(m, h, c)",
        "n = Not(m) f = Cast <to = 1> (n) q = Mul(f, c) a = Add(h, q)",
    ],
)
def test_masks_stay_narrow(tmp_path, mask, value):
    if np.isinf(value) and "Mul" in mask:
        pytest.skip("0 times infinity")
    model = parse(MASKED.format(mask))
    for name, array in {"w": np.eye(4, dtype="f4"), "c": f(value)}.items():
        model.graph.initializer.append(tensor(name, array))
    converted, text = convert(model, tmp_path, "autocast-onnx")
    assert "kept in f32" not in text
    reasons = find_reasons(converted)
    last = next(node for node in converted.graph.node if node.output[0] == "a")
    assert reasons[last.name].startswith("f16")
    feeds = {"x": np.eye(2, 4, dtype="f4"), "m": np.eye(2, 4) > 0}
    expected = run(tmp_path / "in.onnx", feeds)["y"]
    assert np.allclose(evaluate(tmp_path / "out.onnx", feeds)["y"], expected, atol=1e-2)


def test_small_weights_stay_wide(tmp_path):
    """Inside of the file and beside it; one small element among others is no reason."""
    rng = np.random.default_rng(0)
    for scale, beside in ((1e-7, False), (1e-7, True), (1.0, False), (1.0, True)):
        weight = rng.standard_normal((64, 32)).astype("f4") * np.float32(scale)
        weight[0, 0] = 1e-9
        model = parse(
            "g (float[2, 64] x) => (float[2, 32] y) { [mm] y = MatMul(x, w) }"
        )
        model.graph.initializer.append(tensor("w", weight))
        outside = {"save_as_external_data": True, "location": "w.bin"}
        save = {**outside, "size_threshold": 0} if beside else {}
        converted, text = convert(model, tmp_path, "fp16-amp", **save)
        assert find_reasons(converted)["mm"].startswith("f16") == (scale == 1.0), text
        assert ("kept in f32: node 'mm': parameter 'w'" in text) == (scale != 1.0)
        for path in tmp_path.iterdir():
            path.unlink()


# Norms n of h, of shape [2, 4], with an epsilon; the operator sets that have them.
NORMS = {
    "LayerNormalization": ("n = {} <epsilon = {}> (h, four, half)", 20),
    "RMSNormalization": ("n = {} <epsilon = {}> (h, four)", 23),
    "BatchNormalization": ("n = {} <epsilon = {}> (t, two, two, two, spread)", 20),
    "InstanceNormalization": ("n = {} <epsilon = {}> (t, two, two)", 20),
    "GroupNormalization": ("n = {} <epsilon = {}, num_groups = 1> (t, two, two)", 21),
    "LRN": ("n = {0} <alpha = {1}, bias = {1}, beta = 0.25, size = 3> (t)", 20),
}
NORMED = """
g (float[2, 4] x) => (float[2, 4] y) {{
  h = MatMul(x, w)
  t = Reshape(h, {})
  {}
  y = Reshape(n, flat)
}}"""
SHARED = {
    "four": np.ones(4, "f4"), "half": np.full(4, 0.5, "f4"), "two": np.ones(2, "f4"),
    "spread": np.full(2, 1e-7, "f4"), "pairs": [2, 2, 2], "planes": [2, 4, 1, 1],
    "flat": [2, 4],
}  # fmt: skip


@pytest.mark.parametrize("policy", ["autocast-onnx", "fp16-amp", "torch-cuda-fp16"])
@pytest.mark.parametrize("op", NORMS)
def test_epsilon_attributes(tmp_path, op, policy):
    """An epsilon below f16 is added in f32: to a variance of 0, and to one that f16 has in
    few bits."""
    body, version = NORMS[op]
    for epsilon in (1e-8, 1e-12):
        axes = "planes" if op == "LRN" else "pairs"
        model = parse(NORMED.format(axes, body.format(op, epsilon)))
        model.opset_import[0].version = version
        read = {name for node in model.graph.node for name in node.input}
        for name, array in {**SHARED, "w": np.eye(4, dtype="f4")}.items():
            if name in read:
                model.graph.initializer.append(tensor(name, array))
        converted, _ = convert(model, tmp_path, policy)
        reason = next(
            reason for name, reason in find_reasons(converted).items()
            if any(node.name == name and node.op_type == op for node in converted.graph.node)
        )  # fmt: skip
        x = {"x": np.float32([[1, 1, 1, 1], [1, 1, 1, 1 + 2.0**-10]])}
        expected = run(tmp_path / "in.onnx", x)["y"]
        assert np.isfinite(expected).all()
        for optimizes in (False, True):
            found = run(tmp_path / "out.onnx", x, optimizes)["y"]
            assert np.allclose(found, expected, rtol=2e-3, atol=1e-3), reason
        # ONNX's reference rounds where the file does, but knows no `stash_type`.
        if op not in ("LayerNormalization", "RMSNormalization", "LRN"):
            found = evaluate(tmp_path / "out.onnx", x)["y"]
            assert np.allclose(found, expected, rtol=2e-3, atol=1e-3), reason


# `sum` adds c to a product inside of the node, or of the function, that makes y.
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
    """The constant is a node next to its reader, or of the graph around."""
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
    """Those of nodes of all graphs, by name."""
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
def test_constants_inside_of_nodes(tmp_path, kind, base):
    """In graphs inside of nodes and in functions, also where products are those of FP8."""
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


def test_a_rule_of_the_user_goes_first(tmp_path):
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


def test_training_has_the_loss_of_f32(tmp_path):
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
    # Steps that a dynamic scale skips would be others.
    (tmp_path / "p.yaml").write_text(
        "name: p\nextends: fp16-amp\nloss_scale: { static: 8 }\n"
    )
    exact, narrow = train(tmp_path, "fp32"), train(tmp_path, "p.yaml")
    assert len(exact) >= 5
    assert np.allclose(exact, narrow, rtol=1e-2)
    said = re.compile("constant 'c' is 1e-08, which becomes 0 in f16")
    done = subprocess.run(
        [BUILD / "bin" / "binade", "explain", "m.onnx", "--policy", "fp16-amp"],
        check=False, capture_output=True, text=True, cwd=tmp_path, timeout=60,
    )  # fmt: skip
    assert said.search(done.stdout)
