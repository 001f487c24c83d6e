"""`binade-translate --export-onnx` writes ops as ONNX nodes; other programs run them."""

import subprocess

import numpy as np
import onnx
import pytest
from support.convert import add_tensor, draw, parse, run
from support.onnx_backend import TRANSLATE, evaluate, export
from support.op_examples import EXAMPLES, write
from support.paths import BUILD
from support.reference import run as interpret

OPT = BUILD / "bin" / "binade-opt"
# The largest relative error, by the format of the result.
TOLERANCE = {"float32": 1e-5, "float64": 1e-5, "float16": 2**-9, "bfloat16": 2**-6,
             "float8_e4m3fn": 0, "float8_e5m2": 0}  # fmt: skip


@pytest.mark.parametrize("op", EXAMPLES)
def test_ops_match_the_reference(op):
    module, inputs = write(op)
    process, expected = interpret(module, inputs)
    assert process.returncode == 0, process.stderr
    outputs = evaluate(module, inputs)
    assert len(outputs) == len(expected)
    for name, wanted in expected.items():
        got = np.asarray(outputs[name])
        assert got.shape == wanted.shape and got.dtype == wanted.dtype
        if wanted.dtype.kind in "biu":
            assert np.array_equal(got, wanted)
            continue
        tolerance = TOLERANCE[wanted.dtype.name]
        got, wanted = got.astype("f8"), wanted.astype("f8")
        assert np.allclose(got, wanted, tolerance, tolerance * np.abs(wanted).max())


FORWARD = """
g (float[8, 6] x, float[6, 5] u, float[5, 4] w) => (float loss) {
  h = MatMul(x, u)
  a = Tanh(h)
  y = MatMul(a, w)
  q = Mul(y, y)
  loss = ReduceSum <keepdims = 0> (q)
}"""


def test_gradients_match_the_formula(tmp_path):
    """Imports a model, differentiates it, exports it and runs it."""
    weights = {"u": draw(6, 5, scale=0.4, seed=1), "w": draw(5, 4, seed=2)}
    model = parse(FORWARD)
    del model.graph.input[1:]
    for name, array in weights.items():
        add_tensor(model, name, array)
    onnx.save(
        model, tmp_path / "f.onnx",
        save_as_external_data=True, location="f.bin", size_threshold=0,
    )  # fmt: skip
    done = subprocess.run(
        [TRANSLATE, "--import-onnx", tmp_path / "f.onnx"],
        check=True,
        capture_output=True,
    )
    done = subprocess.run(
        [OPT, "--binade-autodiff-pipeline"],
        check=True, input=done.stdout, capture_output=True,
    )  # fmt: skip
    export(done.stdout.decode(), tmp_path)
    x = draw(8, 6)
    outputs = run(tmp_path / "m.onnx", {"x": x})
    a = np.tanh(x.astype("f8") @ weights["u"])
    y = a @ weights["w"]
    gradient = 2 * y @ weights["w"].T * (1 - a * a)
    assert np.allclose(outputs["loss"], np.square(y).sum(), rtol=1e-5)
    assert np.allclose(outputs["grad.w"], a.T @ (2 * y), rtol=1e-5, atol=1e-5)
    assert np.allclose(outputs["grad.u"], x.T @ gradient, rtol=1e-5, atol=1e-5)
    # The weights stay in their file.
    written = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    places = {
        tensor.name: tensor.external_data[0].value
        for tensor in written.graph.initializer
        if tensor.external_data
    }
    assert places == {"u": "f.bin", "w": "f.bin"}


def test_types_that_onnx_lacks_are_named(tmp_path):
    module = """
      func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
        %n = binade.cast %x : (tensor<4xf32>) -> tensor<4xf8E4M3>
        %y = binade.cast %n : (tensor<4xf8E4M3>) -> tensor<4xf32>
        return %y : tensor<4xf32>
      }"""
    assert "cannot be written as ONNX: binade.cast (1)" in export(module, tmp_path, 1)


@pytest.mark.parametrize("groups", [1, 4])
def test_convolutions_with_channels_last(groups):
    """Kernels use this layout; ONNX has no nodes for it."""
    window = f"""strides = array<i64: 2, 1>, padding_low = array<i64: 1, 0>,
      padding_high = array<i64: 2, 1>, dilations = array<i64: 1, 2>,
      groups = {groups} : i64, channels_last"""
    x, y, w = "2x9x8x4", "2x5x7x8", f"8x{4 // groups}x3x2"
    module = f"""
      func.func @f(%x: tensor<{x}xf32>, %w: tensor<{w}xf32>, %dy: tensor<{y}xf32>)
          -> (tensor<{y}xf32>, tensor<{x}xf32>, tensor<{w}xf32>) {{
        %y = binade.conv %x, %w {{{window}}}
          : (tensor<{x}xf32>, tensor<{w}xf32>) -> tensor<{y}xf32>
        %dx = binade.conv_input_grad %dy, %w {{{window}}}
          : (tensor<{y}xf32>, tensor<{w}xf32>) -> tensor<{x}xf32>
        %dw = binade.conv_weight_grad %dy, %x {{{window}}}
          : (tensor<{y}xf32>, tensor<{x}xf32>) -> tensor<{w}xf32>
        return %y, %dx, %dw : tensor<{y}xf32>, tensor<{x}xf32>, tensor<{w}xf32>
      }}"""
    inputs = {
        f"arg{i}": draw(*map(int, shape.split("x")), seed=i)
        for i, shape in enumerate((x, w, y))
    }
    _, expected = interpret(module, inputs)
    outputs = evaluate(module, inputs)
    for name, wanted in expected.items():
        assert np.allclose(outputs[name], wanted, 1e-5, 1e-5)
