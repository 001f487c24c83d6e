"""Ops of exported graphs on NaN, infinities and zeros, on one number and on none: what the
evaluator of the `onnx` package computes."""

import subprocess
import warnings

import numpy as np
import pytest
from reference import BUILD, evaluate

onnx = pytest.importorskip("onnx")
from onnx.reference import ReferenceEvaluator  # noqa: E402

TRANSLATE = BUILD / "bin" / "binade-translate"
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.5]
UNARY = """Abs Cos Erf Exp Gelu Identity IsNaN Log Neg Reciprocal Relu Sigmoid Sin Softplus
    Sqrt Tanh""".split()
BINARY = """Add Div Equal Greater GreaterOrEqual Less LessOrEqual Max Min Mul Pow
    Sub""".split()
INTEGERS = "Add Div Equal Greater Max Min Mul Sub".split()
# Of which one axis may be as long as it likes, or have no element.
OVER_AXES = """s{0} = ReduceSum <keepdims = 0> ({0}, last)
    p{0} = Softmax({0})  l{0} = LogSoftmax({0})
    c{0} = Concat <axis = -1> ({0}, {0})  t{0} = Transpose({0})"""


def write_graph():
    """All ops in one graph, on x and y of all pairs of special values, on 0-d and empty
    tensors, and on integers."""
    nodes, outputs = ["last = Constant <value_ints = [-1]> ()"], []

    def add(name, text):
        nodes.append(f"{name} = {text}")
        outputs.append(name)

    for suffix in ("", "0", "e"):
        for op in UNARY:
            add(f"{op}{suffix}", f"{op}(x{suffix})")
        for op in BINARY:
            add(f"{op}{suffix}", f"{op}(x{suffix}, y{suffix})")
        add(f"where{suffix}", f"Where(Less{suffix}, x{suffix}, y{suffix})")
    for name in ("x", "e1", "e2"):
        nodes.append(OVER_AXES.format(name))
        outputs += [f"{letter}{name}" for letter in "splct"]
    for op in INTEGERS:
        add(f"{op}i", f"{op}(i, j)")
    add("clipped", "Clip(x, low, high)")
    add("spread", "Add(x0, e2)")
    return "\n".join(nodes), outputs


def make_inputs():
    x, y = np.meshgrid(np.float32(SPECIAL), np.float32(SPECIAL))
    i, j = np.meshgrid(np.int32([7, -7, 0, 2**31 - 1, -(2**31)]), np.int32([2, -2, 3]))
    none = np.zeros((2, 0), np.float32)
    return {
        "x": x, "y": y, "x0": np.float32(-1.5), "y0": np.float32(np.nan),
        "xe": none, "ye": none, "e1": none, "e2": np.zeros((0, 3), np.float32),
        "i": i, "j": j, "low": np.float32(-1.0), "high": np.float32(1.0),
    }  # fmt: skip


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_values_are_those_of_onnx(backend, tmp_path):
    nodes, outputs = write_graph()
    inputs = {name: np.asarray(value) for name, value in make_inputs().items()}
    kinds = {"f": "float", "i": "int32"}
    declared = ", ".join(
        f"{kinds[value.dtype.kind]}{list(value.shape) if value.shape else ''} {name}"
        for name, value in inputs.items()
    )
    model = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 20]>
        g ({declared}) => ({", ".join(outputs)}) {{ {nodes} }}"""
    )
    source, module = tmp_path / "m.onnx", tmp_path / "m.mlir"
    onnx.save(model, source)
    subprocess.run(
        [TRANSLATE, "--import-onnx", source, "-o", module], check=True, timeout=60
    )
    found = evaluate(module.read_text(), inputs, "--backend", backend)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = ReferenceEvaluator(model).run(None, inputs)
    wrong = []
    for name, value in zip(outputs, expected, strict=True):
        try:
            assert found[name].shape == value.shape
            np.testing.assert_allclose(found[name], value, rtol=2e-6, atol=1e-7)
        except AssertionError as error:
            wrong.append(f"{name}: {error}")
    assert not wrong, "\n".join(wrong)
