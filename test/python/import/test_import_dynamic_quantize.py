"""DynamicQuantizeLinear on unusual ranges, compared with the reference evaluator of ONNX."""

import subprocess

import numpy as np
import pytest
from support.paths import BUILD
from support.reference import evaluate

onnx = pytest.importorskip("onnx")
from onnx.reference import ReferenceEvaluator  # noqa: E402

F32 = np.float32
TENSORS = {
    "both signs": np.random.default_rng(1).standard_normal((7, 9)).astype(F32),
    "above": np.linspace(3, 8, 12, dtype=F32),
    "below": np.linspace(-8, -3, 12, dtype=F32).reshape(3, 4),
    "zeros": np.zeros((2, 3), F32),
    "one element": np.array(-2.5, F32),
    "ties": np.arange(-4, 251.5, 0.5, dtype=F32),  # A scale of 1.
    "tiny": np.array([1e-38, 3e-39], F32),
}


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("case", TENSORS)
def test_quantized_values_scale_and_zero_point(case, backend, tmp_path):
    x = TENSORS[case]
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 20]>\n'
        f"g (float[{', '.join(map(str, x.shape))}] x) => (uint8[] y, float s, uint8 z) "
        "{ y, s, z = DynamicQuantizeLinear(x) }".replace("[]", str(list(x.shape)))
    )
    if x.ndim == 0:
        for port in (model.graph.input[0], model.graph.output[0]):
            port.type.tensor_type.shape.ClearField("dim")
    onnx.save(model, tmp_path / "m.onnx")
    subprocess.run(
        [BUILD / "bin/binade-translate", "--import-onnx", tmp_path / "m.onnx", "-o",
         tmp_path / "m.mlir"], check=True, timeout=600,
    )  # fmt: skip
    text = (tmp_path / "m.mlir").read_text()
    found = evaluate(text, {"x": x}, "--backend", backend)
    expected = ReferenceEvaluator(model).run(None, {"x": x})
    for name, value in zip("ysz", expected):
        np.testing.assert_array_equal(found[name], value, err_msg=name)


def test_other_element_types_are_rejected(tmp_path):
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 20]>\n'
        "g (double[4] x) => (uint8[4] y, float s, uint8 z) "
        "{ y, s, z = DynamicQuantizeLinear(x) }"
    )
    onnx.save(model, tmp_path / "m.onnx")
    done = subprocess.run(
        [BUILD / "bin/binade-translate", "--import-onnx", tmp_path / "m.onnx"],
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode != 0
    assert "expected elements of float, got 'f64'" in done.stderr
