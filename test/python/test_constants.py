"""A narrow format that does not hold a constant keeps what reads it wide: over formats,
places where a constant stands, ops that read it, and values."""

import json
import re
import subprocess

import ml_dtypes
import numpy as np
import onnx
import pytest
from convert import convert, evaluate, find_reasons, open_session, parse, run
from onnx import TensorProto, helper, numpy_helper
from reference import BUILD

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
