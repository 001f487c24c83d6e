"""Ops of exported graphs on NaN, infinities, zeros, scalars and empty tensors compute the
values of the `onnx` package's reference evaluator."""

import subprocess
import warnings

import numpy as np
import pytest
from support.paths import BUILD
from support.reference import evaluate

onnx = pytest.importorskip("onnx")
from onnx.reference import ReferenceEvaluator  # noqa: E402

TRANSLATE = BUILD / "bin" / "binade-translate"
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5, -2.5]
UNARY = """Abs Cos Erf Exp Gelu Identity IsNaN Log Neg Reciprocal Relu Sigmoid Sin Softplus
    Sqrt Tanh""".split()
BINARY = """Add Div Equal Greater GreaterOrEqual Less LessOrEqual Max Min Mul Pow
    Sub""".split()
INTEGERS = "Add Div Equal Greater Max Min Mul Sub".split()
# Ops along one axis, which may be empty.
OVER_AXES = """s{0} = ReduceSum <keepdims = 0> ({0}, last)
    p{0} = Softmax({0})  l{0} = LogSoftmax({0})
    c{0} = Concat <axis = -1> ({0}, {0})  t{0} = Transpose({0})"""


def write_graph():
    """Writes one graph with all ops: on x and y, which contain all pairs of special
    values, on 0-d and empty tensors, and on integers."""
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
    add("broadcast", "Add(x0, e2)")
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


def run(text, inputs, backend, folder):
    """Returns the model of a graph and the results that Binade computes."""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]> {text}')
    source, module = folder / "m.onnx", folder / "m.mlir"
    onnx.save(model, source)
    subprocess.run(
        [TRANSLATE, "--import-onnx", source, "-o", module], check=True, timeout=600
    )
    return model, evaluate(module.read_text(), inputs, "--backend", backend)


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_values_equal_those_of_onnx(backend, tmp_path):
    nodes, outputs = write_graph()
    inputs = {name: np.asarray(value) for name, value in make_inputs().items()}
    kinds = {"f": "float", "i": "int32"}
    declared = ", ".join(
        f"{kinds[value.dtype.kind]}{list(value.shape) if value.shape else ''} {name}"
        for name, value in inputs.items()
    )
    text = f"g ({declared}) => ({', '.join(outputs)}) {{ {nodes} }}"
    model, found = run(text, inputs, backend, tmp_path)
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


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_powers_of_integers(backend, tmp_path):
    """A negative power is 0 except for bases 1 and -1, even if a square wraps to 1. A
    power with a float exponent equals NumPy's."""
    near, most = np.int8([127, -127, 1, -1, 2]), 2**31 - 1
    inputs = {
        "a": near, "b": np.int32([most, -most, 1, -1, 2]),
        "c": np.int32([2**24 + 1, 300, -3, 7, 2]), "s": np.float32([1, 2, 3, 0, -1]),
        "h": np.float16([1, 2, 3, 0, -1]),
    }  # fmt: skip
    text = """g (int8[5] a, int32[5] b, int32[5] c, float[5] s, float16[5] h)
        => (a1, a2, b1, b2, p, q) <int8 once = {-1}, int32[1] twice = {-2}> {
          a1 = Pow(a, once)  a2 = Pow(a, twice)  b1 = Pow(b, once)  b2 = Pow(b, twice)
          p = Pow(c, s)  q = Pow(c, h)
        }"""
    _, found = run(text, inputs, backend, tmp_path)
    for name in "ab":
        np.testing.assert_array_equal(found[f"{name}1"], [0, 0, 1, -1, 0])
        np.testing.assert_array_equal(found[f"{name}2"], [0, 0, 1, 1, 0])
    for name, exponent in ("p", "s"), ("q", "h"):
        power = np.power(inputs["c"], inputs[exponent].astype(np.float64))
        np.testing.assert_array_equal(found[name], power.astype(np.int32))
