"""Gradient ops of ONNX Runtime that no shared training model contains, against PyTorch.

Each graph reads the gradient of its result, which is the same as for the record in
test/data/adjoints.json. Its outputs g0, g1, ... are the gradients of the inputs.
"""

import json
import subprocess

import numpy as np
import pytest
from support.adjoint_records import RECORDS, TRANSLATE, read
from support.paths import ROOT
from support.reference import evaluate

onnx = pytest.importorskip("onnx")

GRADIENTS = {
    "convolution": """g0, g1, g2 = com.microsoft.ConvGrad <strides = [2, 1],
        pads = [1, 0, 1, 0], dilations = [1, 2], group = 2> (dy, x0, x1)""",
    "root_mean_square": """
        y, s = SimplifiedLayerNormalization <epsilon = 1e-5> (x0, x1)
        g0, g1 = com.microsoft.SimplifiedLayerNormalizationGrad (dy, x0, x1, s)""",
    "slices": "n = Shape(x0)  g0 = com.microsoft.GatherNDGrad (n, i, dy)",
    "quick_gelu": "g0 = com.microsoft.QuickGeluGrad (dy, x0)",
}
# Ops of the training models that test_import_ort_training.py runs.
IN_MODELS = """ConcatTraining FastGelu FastGeluGrad FusedMatMul GatherGrad GeluGrad
    InPlaceAccumulatorV2 LSTMGrad LSTMTraining LayerNormalizationGrad QuickGelu
    QuickGeluGrad ReluGrad Scale SoftmaxCrossEntropyLossGrad SoftmaxGrad_13
    SplitTraining""".split()


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_equal_those_of_pytorch(name, tmp_path):
    record = RECORDS[name]
    inputs = {f"x{i}": read(x, np.float32) for i, x in enumerate(record["inputs"])}
    count = len(inputs)
    for key, value in record["others"].items():
        inputs[key] = read(value, np.int64)
    y = read(record["y"])
    inputs["dy"] = np.linspace(-1.0, 1.5, y.size, dtype=np.float32).reshape(y.shape)
    declared = ", ".join(
        f"{'int64' if value.dtype == np.int64 else 'float'}{list(value.shape)} {key}"
        for key, value in inputs.items()
    )
    results = ", ".join(f"g{i}" for i in range(count))
    model = onnx.parser.parse_model(
        f"""<ir_version: 10, opset_import: ["" : 20, "com.microsoft" : 1]>
        g ({declared}) => ({results}) {{ {GRADIENTS[name]} }}"""
    )
    source, module = tmp_path / "m.onnx", tmp_path / "m.mlir"
    onnx.save(model, source)
    subprocess.run(
        [TRANSLATE, "--import-onnx", source, "-o", module], check=True, timeout=600
    )
    text = module.read_text()
    used = {key: value for key, value in inputs.items() if f'"{key}"' in text}
    found = evaluate(text, used)
    for i in range(count):
        expected = read(record["gradients"][i])
        atol = 2e-6 * np.abs(expected).max()
        np.testing.assert_allclose(found[f"g{i}"], expected, rtol=2e-5, atol=atol)


def test_every_ort_op_is_tested():
    operators = json.loads((ROOT / "test/data/onnx-operators.json").read_text())
    missing = set(operators["com.microsoft"]) - set(IN_MODELS)
    assert all(any(op in graph for graph in GRADIENTS.values()) for op in missing)


def test_an_input_of_an_accumulator_that_a_branch_reads_stays(tmp_path):
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["" : 20, "com.microsoft" : 1]>
        g (float[3] x, float[3] buffer, bool reset) => (float[3] gradient, y)
          <bool yes = {1}> {
          p = Neg(x)  gradient = com.microsoft.InPlaceAccumulatorV2(buffer, p, reset)
          y = If (yes) <then_branch = t () => (r) { r = Cast <to = 1> (reset) },
                        else_branch = e () => (r) { r = Identity(x) }>
        }"""
    )
    onnx.save(model, tmp_path / "m.onnx")
    subprocess.run(
        [TRANSLATE, "--import-onnx", tmp_path / "m.onnx", "-o", tmp_path / "m.mlir"],
        check=True, timeout=600,
    )  # fmt: skip
    x = np.float32([1, -2, 3])
    text = (tmp_path / "m.mlir").read_text()
    found = evaluate(text, {"x": x, "reset": np.array(True)})
    np.testing.assert_array_equal(found["gradient"], -x)
    np.testing.assert_array_equal(found["y"], np.float32(1))
