"""A compiled step of a linear model."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from support import reference  # noqa: E402

if not (reference.BUILD / "python" / "binade").exists():
    pytest.skip("the extension is not built", allow_module_level=True)

import binade  # noqa: E402
import binade.errors  # noqa: E402

ROWS, INPUTS, OUTPUTS = 4, 3, 2
RATE = 0.125


def make_values(seed=0):
    generator = np.random.default_rng(seed)
    draw = lambda *shape: generator.standard_normal(shape, dtype=np.float32)
    return draw(INPUTS, OUTPUTS), draw(OUTPUTS), draw(ROWS, INPUTS), draw(ROWS, OUTPUTS)


def make_model(weight, bias):
    """y = x @ w + b."""
    value = lambda name, shape: onnx.helper.make_tensor_value_info(
        name, onnx.TensorProto.FLOAT, shape
    )
    graph = onnx.helper.make_graph(
        [
            onnx.helper.make_node("MatMul", ["x", "w"], ["xw"], "product"),
            onnx.helper.make_node("Add", ["xw", "b"], ["y"], "sum"),
        ],
        "linear",
        [value("x", [ROWS, INPUTS])],
        [value("y", [ROWS, OUTPUTS])],
        [onnx.numpy_helper.from_array(weight, "w"),
         onnx.numpy_helper.from_array(bias, "b")],
    )  # fmt: skip
    return onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=9
    )


def compile_linear(weight, bias, **options):
    options = {"optimizer": "sgd", "settings": {"lr": RATE}} | options
    return binade.compile(
        make_model(weight, bias), loss="mse(y, target)", train=["*"], **options
    )
