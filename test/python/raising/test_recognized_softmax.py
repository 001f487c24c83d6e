"""Import recognizes decomposed softmax and log-softmax, and keeps similar graphs.

The graphs are scrambled. onnxruntime runs the ONNX graph, the reference runs the imported
module, and the values must agree.
"""

import numpy as np
import onnx
import pytest
from support import training_graphs as graphs
from support.paths import BUILD
from support.processes import call
from support.reference import EVAL, safetensors

SOFTMAX = """
  m = ReduceMax(x, last)
  c = Sub(x, m)
  e = Exp(c)
  s = ReduceSum(e, last)
  y = Div(e, s)
"""
LOG_SOFTMAX = """
  m = ReduceMax(x, last)
  c = Sub(x, m)
  e = Exp(c)
  s = ReduceSum(e, last)
  l = Log(s)
  y = Sub(c, l)
"""

# Decompositions: the nodes, replacements of lines, and the op.
DECOMPOSITIONS = {
    "quotient": (SOFTMAX, {}, "softmax"),
    "inverse": (SOFTMAX, {"y = Div(e, s)": "i = Reciprocal(s)\n  y = Mul(i, e)"},
                "softmax"),
    "rows without their axis": (SOFTMAX, {
        "m = ReduceMax(x, last)":
            "mf = ReduceMax <keepdims = 0> (x, last)\n  m = Unsqueeze(mf, last)",
        "s = ReduceSum(e, last)":
            "sf = ReduceSum <keepdims = 0> (e, last)\n  s = Reshape(sf, column)"},
        "softmax"),
    "logarithm": (LOG_SOFTMAX, {}, "log_softmax"),
    "another axis": (SOFTMAX.replace("last", "first"), {}, "softmax"),
    "logarithm over another axis": (LOG_SOFTMAX.replace("last", "first"), {},
                                    "log_softmax"),
    "difference twice": (LOG_SOFTMAX, {
        "y = Sub(c, l)": "c2 = Sub(x, m)\n  y = Sub(c2, l)"}, "log_softmax"),
}  # fmt: skip

NEAR_MISSES = {
    # It overflows where softmax does not.
    "no maximum": (SOFTMAX, {"e = Exp(c)": "e = Exp(x)"}),
    "maximum of everything": (SOFTMAX, {"m = ReduceMax(x, last)": "m = ReduceMax(x)"}),
    "maximum over another axis": (
        SOFTMAX, {"m = ReduceMax(x, last)": "m = ReduceMax(x, first)"}),
    "maximum of another value": (
        SOFTMAX, {"m = ReduceMax(x, last)": "m = ReduceMax(weights, last)"}),
    "sum over another axis": (
        SOFTMAX, {"s = ReduceSum(e, last)": "s = ReduceSum(e, first)"}),
    "mean": (SOFTMAX, {"s = ReduceSum(e, last)": "s = ReduceMean(e, last)"}),
    "sum of another value": (
        SOFTMAX, {"s = ReduceSum(e, last)": "s = ReduceSum(c, last)"}),
    "upside down": (SOFTMAX, {"y = Div(e, s)": "y = Div(s, e)"}),
    "epsilon": (SOFTMAX, {"y = Div(e, s)": "se = Add(s, eps)\n  y = Div(e, se)"}),
    "read inside": (SOFTMAX, {"y = Div(e, s)": "q = Div(e, s)\n  y = Add(q, s)"}),
    "sign": (LOG_SOFTMAX, {"y = Sub(c, l)": "y = Sub(l, c)"}),
    "logarithm of the value": (LOG_SOFTMAX, {"y = Sub(c, l)": "y = Sub(x, l)"}),
    "maximum alone": (LOG_SOFTMAX, {"y = Sub(c, l)": "y = Sub(c, m)"}),
}  # fmt: skip

SHAPE = (2, 3, 5)


def import_and_compare(nodes, changes, folder):
    """Imports the scrambled graph and compares it with onnxruntime. Returns the module."""
    for line, instead in changes.items():
        assert line in nodes
        nodes = nodes.replace(line, instead)
    for name, value in {"last": [2], "first": [1], "column": [2, 3, 1]}.items():
        nodes += f"  {name} = Constant <value_ints = {value}> ()\n"
    nodes += "  eps = Constant <value_float = 0.01> ()\n"
    nodes += "  t = Mul(y, weights)\n  loss = ReduceSum <keepdims = 0> (t)\n"
    inputs = [graphs.declare(name, SHAPE) for name in ("x", "weights")]
    model = graphs.parse(inputs, ["float loss", graphs.declare("y", SHAPE)], nodes)
    scrambled, old = graphs.scramble(model)
    draw = np.random.default_rng(0)
    values = {
        value.name: draw.uniform(-2, 2, SHAPE).astype(np.float32)
        for value in scrambled.graph.input
    }
    expected = graphs.run(scrambled, values)
    loss = next(name for name, before in old.items() if before == "loss")
    onnx.save(scrambled, folder / "m.onnx")
    safetensors.save(folder / "in.safetensors", values)
    text = call(BUILD / "bin" / "binade-translate", "--import-onnx",
                folder / "m.onnx", "--loss-output", loss)  # fmt: skip
    (folder / "m.mlir").write_text(text)
    call(EVAL, folder / "m.mlir", "--inputs", folder / "in.safetensors",
         "--out", folder / "out.safetensors")  # fmt: skip
    found = safetensors.load(folder / "out.safetensors")
    expected["loss"] = expected.pop(loss)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-6)
    return text


@pytest.mark.parametrize("decomposition", DECOMPOSITIONS)
def test_decomposed_softmax_is_recognized(decomposition, tmp_path):
    nodes, changes, op = DECOMPOSITIONS[decomposition]
    text = import_and_compare(nodes, changes, tmp_path)
    assert text.count(f"= binade.{op} ") == 1
    for gone in ("exp", "log", "reduce_max", "sub", "div", "reciprocal"):
        assert f"binade.{gone} " not in text


@pytest.mark.parametrize("change", NEAR_MISSES)
def test_graphs_that_resemble_softmax_are_kept(change, tmp_path):
    text = import_and_compare(*NEAR_MISSES[change], tmp_path)
    assert "softmax" not in text
