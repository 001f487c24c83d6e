"""`binade-translate --export-onnx`: ops as nodes of ONNX, run by other programs."""

import subprocess

import numpy as np
import onnx
import pytest
from convert import add_tensor, draw, evaluate, parse, run
from op_examples import EXAMPLES, write
from reference import BUILD
from reference import run as interpret

TRANSLATE, OPT = BUILD / "bin" / "binade-translate", BUILD / "bin" / "binade-opt"
# Codes and their scales, random numbers, what kernels are made of, and bits in another
# type, which ONNX has from operator set 26 on.
NOT_WRITTEN = {
    "bitcast", "choose_scale", "conv_weight_grad", "dequantize", "dropout", "dropout_grad", "encode",
    "group_max", "join_halves", "quantize", "random_uniform", "round_to", "scaled_matmul",
    "statistics", "tile", "yield",
}  # fmt: skip
# How far results may be apart, by the bits of their format.
TOLERANCE = {"float32": 1e-5, "float64": 1e-5, "float16": 2**-9, "bfloat16": 2**-6,
             "float8_e4m3fn": 0, "float8_e5m2": 0}  # fmt: skip


def export(folder, module, code=0):
    source, target = folder / "m.mlir", folder / "m.onnx"
    source.write_text(module)
    command = [TRANSLATE, "--export-onnx", source, "-o", target]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    if code == 0:
        onnx.checker.check_model(target, full_check=True)
    return done.stderr


@pytest.mark.parametrize("op", EXAMPLES)
def test_ops_have_the_references_values(tmp_path, op):
    module, inputs = write(op)
    if op in NOT_WRITTEN:
        assert "without a form in ONNX" in export(tmp_path, module, code=1)
        return
    export(tmp_path, module)
    process, expected = interpret(module, inputs)
    assert process.returncode == 0, process.stderr
    feeds = {f"argument{i}": array for i, array in enumerate(inputs.values())}
    # onnxruntime takes NumPy's own types.
    arrays = [*inputs.values(), *expected.values()]
    is_plain = all(hasattr(np, array.dtype.name) for array in arrays)
    outputs = (run if is_plain else evaluate)(tmp_path / "m.onnx", feeds)
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


def test_gradients_are_those_of_the_formula(tmp_path):
    """A model that was read, differentiated and written again."""
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
    export(tmp_path, done.stdout.decode())
    x = draw(8, 6)
    outputs = run(tmp_path / "m.onnx", {"x": x})
    a = np.tanh(x.astype("f8") @ weights["u"])
    y = a @ weights["w"]
    gradient = 2 * y @ weights["w"].T * (1 - a * a)
    assert np.allclose(outputs["loss"], np.square(y).sum(), rtol=1e-5)
    assert np.allclose(outputs["grad.w"], a.T @ (2 * y), rtol=1e-5, atol=1e-5)
    assert np.allclose(outputs["grad.u"], x.T @ gradient, rtol=1e-5, atol=1e-5)
    # Weights stay where they are.
    written = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    places = {
        tensor.name: tensor.external_data[0].value
        for tensor in written.graph.initializer
        if tensor.external_data
    }
    assert places == {"u": "f.bin", "w": "f.bin"}
