"""Ops of opsets before 13: attributes that became inputs later, flattened axes, default
bounds. ONNX Runtime computes the expected values."""

import subprocess

import numpy as np
import pytest
from support.paths import BUILD
from support.reference import evaluate

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

TRANSLATE = BUILD / "bin" / "binade-translate"
X = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32) * 3
IMAGE = np.random.default_rng(1).standard_normal((1, 2, 5, 5)).astype(np.float32)
MATRIX, ROW = X[0], X[1, 0]

# name: (opsets, node, inputs of the node in the order in which it names them).
CASES = {
    "softmax": ((7, 11, 12), "y = Softmax(a)", [X]),
    "softmax_of_all": ((11,), "y = Softmax <axis = 0> (a)", [X]),
    "softmax_of_the_last": ((9, 11), "y = Softmax <axis = 2> (a)", [X]),
    "log_softmax": ((7, 12), "y = LogSoftmax(a)", [X]),
    "squeeze": ((7, 11), "y = Squeeze <axes = [0, 2]> (a)", [IMAGE[:, :, :1]]),
    "squeeze_of_all": ((7, 11), "y = Squeeze (a)", [IMAGE[:, :, :1]]),
    "unsqueeze": ((7, 11), "y = Unsqueeze <axes = [0, 3]> (a)", [X]),
    "split": ((7, 11), "y, z = Split <axis = 2, split = [1, 3]> (a)", [X]),
    "split_in_halves": ((7, 11), "y, z = Split <axis = 2> (a)", [X]),
    "slice": ((7, 9), "y = Slice <starts = [1, -3], ends = [9, -1], axes = [0, 2]> (a)", [X]),
    "slice_of_all_axes": ((7,), "y = Slice <starts = [0, 1], ends = [1, 3]> (a)", [X]),
    "pad": ((7, 10), "y = Pad <pads = [0, 1, 0, 2, 0, 1], value = 1.5> (a)", [X]),
    "pad_by_reflection": ((7,), 'y = Pad <mode = "reflect", pads = [0,1,2,0,0,1]> (a)', [X]),
    "clip": ((7, 10), "y = Clip <min = -1.0, max = 2.0> (a)", [X]),
    "clip_below": ((7,), "y = Clip <min = -1.0> (a)", [X]),
    "dropout": ((7, 10, 11), "y = Dropout <ratio = 0.4> (a)", [X]),
    "reduce": ((7, 11), "y = ReduceSum <axes = [1], keepdims = 0> (a)", [X]),
    "gemm": ((7, 9), "y = Gemm <alpha = 0.5, transB = 1> (a, b, c)", [MATRIX, MATRIX, ROW[:3]]),
    "max_pool": ((7, 8, 10), "y = MaxPool <kernel_shape = [3, 2], strides = [2, 1]> (a)", [IMAGE]),
    "prelu": ((7, 9), "y = PRelu(a, b)", [X, ROW]),
    "gather": ((7, 10), "y = Gather <axis = 1> (a, i)", [X, np.array([2, 0])]),
    "concat": ((7,), "y = Concat <axis = 1> (a, b)", [X, X]),
    "depth_to_space": ((7,), "y = DepthToSpace <blocksize = 2> (a)", [IMAGE.reshape(1, 2, 5, 5)[:, [0, 1, 0, 1]]]),
    "comparison": ((7, 9), "y = Greater(a, b)", [X, X[::-1]]),
    "scatter": ((9, 10), "y = Scatter <axis = 2> (a, i, b)", [X, np.array([[[2, 0]]]), X[:1, :1, :2]]),
}  # fmt: skip
NAMES = {np.dtype(np.float32): "float", np.dtype(np.int64): "int64"}


def build(opset, text, inputs):
    """Builds a model of one node. Returns it and the names of the node's inputs."""
    node = text[text.index("(", text.rindex("> (") if "> (" in text else 0) + 1 : -1]
    names = [name.strip() for name in node.split(",")]
    declared = ", ".join(
        f"{NAMES[x.dtype]}[{', '.join(map(str, x.shape))}] {name}"
        for name, x in zip(names, inputs, strict=True)
    )
    outputs = text[: text.index("=")].strip()
    model = onnx.parser.parse_model(
        f'<ir_version: 6, opset_import: ["" : {opset}]> '
        f"g ({declared}) => ({outputs}) {{ {text} }}"
    )
    return onnx.shape_inference.infer_shapes(model), names


@pytest.mark.parametrize(
    "name, opset", [(name, opset) for name, case in CASES.items() for opset in case[0]]
)
def test_values_equal_those_of_onnx_runtime(name, opset, tmp_path):
    _, text, inputs = CASES[name]
    model, names = build(opset, text, inputs)
    source, module = tmp_path / "m.onnx", tmp_path / "m.mlir"
    onnx.save(model, source)
    subprocess.run(
        [TRANSLATE, "--import-onnx", source, "-o", module], check=True, timeout=600
    )
    values = dict(zip(names, inputs))
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    found = evaluate(module.read_text(), values)
    outputs = [output.name for output in model.graph.output]
    for key, expected in zip(outputs, session.run(outputs, values)):
        np.testing.assert_allclose(found[key], expected, rtol=1e-5, atol=1e-6)


def test_clip_without_bounds_clips_infinity(tmp_path):
    model, _ = build(7, "y = Clip(a)", [ROW])
    onnx.save(model, tmp_path / "m.onnx")
    module = tmp_path / "m.mlir"
    subprocess.run(
        [TRANSLATE, "--import-onnx", tmp_path / "m.onnx", "-o", module], check=True
    )
    x = np.array([np.inf, -np.inf, 1.0, 0.0], np.float32)
    largest = np.finfo(np.float32).max
    found = evaluate(module.read_text(), {"a": x})["y"]
    np.testing.assert_array_equal(found, [largest, -largest, 1.0, 0.0])
