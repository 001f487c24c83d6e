"""Integer matmuls and convolutions are exact for sums of any length. numpy computes the
expected values, or ONNX Runtime if results are quantized."""

import subprocess

import numpy as np
import pytest
from support.paths import BUILD
from support.reference import evaluate

onnx = pytest.importorskip("onnx")

TRANSLATE = BUILD / "bin" / "binade-translate"
NAMES = {np.dtype(np.float32): "float", np.dtype(np.int8): "int8",
         np.dtype(np.uint8): "uint8", np.dtype(np.int32): "int32"}  # fmt: skip


def build(node, inputs):
    declared = ", ".join(
        f"{NAMES[x.dtype]}{list(x.shape) if x.shape else ''} {name}"
        for name, x in inputs.items()
    )
    return onnx.shape_inference.infer_shapes(
        onnx.parser.parse_model(
            f'<ir_version: 8, opset_import: ["" : 20]> '
            f"g ({declared}) => (y) {{ y = {node} }}"
        )
    )


def compute(node, inputs, folder, backend):
    source, module = folder / "m.onnx", folder / "m.mlir"
    onnx.save(build(node, inputs), source)
    subprocess.run(
        [TRANSLATE, "--import-onnx", source, "-o", module], check=True, timeout=600
    )
    return evaluate(module.read_text(), inputs, "--backend", backend)["y"]


def draw(shape, dtype, seed=0):
    info = np.iinfo(dtype)
    random = np.random.default_rng(seed)
    return random.integers(info.min, info.max, shape, dtype, endpoint=True)


def widen(x, zero):
    return x.astype(np.int64) - zero.astype(np.int64)


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize(
    "dtypes", [(np.uint8, np.int8), (np.int8, np.int8), (np.uint8, np.uint8)]
)
def test_matmuls(dtypes, backend, tmp_path):
    a, b = draw((2, 3, 700), dtypes[0]), draw((700, 5), dtypes[1], seed=1)
    # The largest possible sum, of odd products; f32 cannot represent it.
    a[0, 0], b[:, 0] = np.iinfo(dtypes[0]).max, np.iinfo(dtypes[1]).max
    zeros = draw(5, dtypes[1], seed=2)
    zeros[0] = np.iinfo(dtypes[1]).min
    inputs = {"a": a, "b": b, "p": np.array(2, dtypes[0]), "q": zeros}
    found = compute("MatMulInteger(a, b, p, q)", inputs, tmp_path, backend)
    expected = widen(a, inputs["p"]) @ widen(b, inputs["q"])
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_convolutions(backend, tmp_path):
    x, w = draw((1, 160, 5, 6), np.uint8), draw((4, 80, 3, 3), np.int8, seed=1)
    inputs = {"x": x, "w": w, "p": np.array(130, np.uint8),
              "q": draw(4, np.int8, seed=2)}  # fmt: skip
    node = "ConvInteger <group = 2, pads = [1, 0, 1, 1], strides = [2, 1]> (x, w, p, q)"
    found = compute(node, inputs, tmp_path, backend)
    wide = np.pad(widen(x, inputs["p"]), ((0, 0), (0, 0), (1, 1), (0, 1)))
    kernels = widen(w, inputs["q"].reshape(4, 1, 1, 1))
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), axis=(2, 3))[
        :, :, ::2
    ]
    halves = [
        np.einsum("nchwij,ocij->nohw", windows[:, 80 * g : 80 * g + 80], kernels[2 * g : 2 * g + 2])
        for g in range(2)
    ]  # fmt: skip
    np.testing.assert_array_equal(found, np.concatenate(halves, 1))


QUANTIZED = {
    "matrices": (
        "QLinearMatMul(a, sa, za, b, sb, zb, sy, zy)",
        [(4, 300), np.uint8, (300, 6), np.int8],
    ),
    "convolution": (
        "QLinearConv <pads = [1, 1, 1, 1]> (a, sa, za, b, sb, zb, sy, zy, bias)",
        [(2, 3, 6, 6), np.uint8, (6, 3, 3, 3), np.int8],
    ),
}


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("name", QUANTIZED)
def test_quantized_results_are_rounded_and_saturated(name, backend, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    node, (left, left_type, right, right_type) = QUANTIZED[name]
    scales = np.random.default_rng(5).uniform(0.01, 0.02, 6).astype(np.float32)
    # Without VNNI, onnxruntime saturates sums of two products to 16 bits: half of the range
    # of one operand keeps them below.
    inputs = {"a": draw(left, left_type), "sa": np.float32(0.02),
              "za": np.array(120, left_type), "b": draw(right, right_type, seed=1) // 2,
              "sb": scales, "zb": np.zeros(6, right_type), "sy": np.float32(1.3),
              "zy": np.array(101, left_type)}  # fmt: skip
    inputs = {key: np.asarray(value) for key, value in inputs.items()}
    if name == "convolution":
        inputs["bias"] = np.arange(-300, 300, 100, dtype=np.int32)
    found = compute(node, inputs, tmp_path, backend)
    session = onnxruntime.InferenceSession(
        build(node, inputs).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (expected,) = session.run(["y"], inputs)
    assert found.dtype == expected.dtype
    assert len(np.unique(expected)) > 10
    # The sum times the scale is rounded to f32. Close to a tie, either neighbor is right.
    assert np.abs(found.astype(int) - expected.astype(int)).max() <= 1
    assert np.mean(found == expected) > 0.98
