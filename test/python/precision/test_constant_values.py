"""Converted models with constants that a narrow format does not represent: small constants
that prevent division by 0, masks, small weights, and the epsilon of norms."""

import numpy as np
import pytest
from support.constant_graphs import f, tensor
from support.convert import convert, evaluate, find_reasons, open_session, parse, run

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
def test_small_constants_keep_results_finite(tmp_path, end, policy):
    """Results are finite and close to f32, with and without the runtime's optimizations."""
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
    """Holds for weights inside the file and in external data. A single small element does
    not keep a weight wide."""
    rng = np.random.default_rng(0)
    for scale, is_external in ((1e-7, False), (1e-7, True), (1.0, False), (1.0, True)):
        weight = rng.standard_normal((64, 32)).astype("f4") * np.float32(scale)
        weight[0, 0] = 1e-9
        model = parse(
            "g (float[2, 64] x) => (float[2, 32] y) { [mm] y = MatMul(x, w) }"
        )
        model.graph.initializer.append(tensor("w", weight))
        outside = {"save_as_external_data": True, "location": "w.bin"}
        save = {**outside, "size_threshold": 0} if is_external else {}
        converted, text = convert(model, tmp_path, "fp16-amp", **save)
        assert find_reasons(converted)["mm"].startswith("f16") == (scale == 1.0), text
        assert ("kept in f32: node 'mm': parameter 'w'" in text) == (scale != 1.0)
        for path in tmp_path.iterdir():
            path.unlink()


# Nodes that compute a norm n with an epsilon, and the operator set that has them. They read
# h, of shape [2, 4], or its reshaped copy t.
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
    """An epsilon too small for f16 is added in f32: to a variance of 0, and to a variance
    that is subnormal in f16."""
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
        # ONNX's reference rounds where the file does, but does not support `stash_type`.
        if op not in ("LayerNormalization", "RMSNormalization", "LRN"):
            found = evaluate(tmp_path / "out.onnx", x)["y"]
            assert np.allclose(found, expected, rtol=2e-3, atol=1e-3), reason
