"""Presets with a Hadamard transform: codes of a compiled step compared with numpy, and the output
of `explain`."""

import json
import re
import subprocess

import numpy as np
import onnx
import pytest
from support.hadamard import fixed_signs, transform
from support.paths import ROOT
from support.quantized_products import BACKENDS, OPT, build_step, materialize
from support.reference import binade
from support.transforms import check_gradient, run

MINI = ROOT / "examples/char-gpt/mini.onnx"


@BACKENDS
def test_codes_of_nvfp4(backend):
    """As published, only the operands of the gradient of the weight are transformed; the gradient
    of the output is rounded stochastically after the transform."""
    outputs, v, codes = run("nvfp4", 32, backend)
    assert [random is None for _, random in codes] == [True, False]
    operands = [transform(x, 16, fixed_signs(16), axis=0) for x in (-v["x"], -v["g"])]
    check_gradient(outputs, codes, operands)


@pytest.mark.parametrize("policy, count", [
    ("nvfp4", 2), ("nvfp4-four-six", 2), ("mxfp4", 0)
])  # fmt: skip
def test_policies_with_transforms(policy, count):
    text = materialize(policy, build_step(32))
    assert text.count("= binade.hadamard") == count
    assert (
        len(re.findall(r"binade\.hadamard .*axis = -2 : i64.*size = 16", text)) == count
    )


def assign(policy, rows):
    return subprocess.run(
        [OPT, f"--binade-assign-precision=policy={policy}"],
        input=build_step(rows), capture_output=True, text=True,
    )  # fmt: skip


def test_a_shipped_policy_quantizes_without_the_transform():
    process = assign("nvfp4", 24)
    assert process.returncode == 0
    assert "nvfp4.yaml:" in process.stderr
    assert "warning: quantizes 1 product without the transform" in process.stderr
    assert "transform = <hadamard = 16, signs = fixed>" in assign("nvfp4", 32).stdout


def explain(policy, *more, model=MINI):
    process = binade("explain", model, "--policy", policy, *more)
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_explain_shows_the_transform_of_each_product():
    products = explain("nvfp4").split("\nproducts of layers\n")[1].splitlines()
    quantized = [line for line in products if "f4E2M1FN" in line]
    for line in quantized:
        isWeight = line.startswith("  wgrad")
        assert line.endswith(", hadamard 16 with fixed signs") == isWeight
    assert quantized
    ops = json.loads(explain("nvfp4", "--format", "json"))["ops"]
    found = [(op["product"], op.get("transform")) for op in ops if "product" in op]
    fixed = {"hadamard": 16, "signs": "fixed"}
    assert {product for product, one in found if one == fixed} == {"wgrad"}
    assert {product for product, one in found if one is None} == {"fprop", "dgrad"}


def test_explain_says_why_a_product_is_not_transformed(tmp_path):
    """A sum over 24 elements: 3 samples of 8."""
    names = {
        name: onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", [3, 8, 32]), ("y", [3, 8, 16]))
    }
    random = onnx.numpy_helper.from_array
    weights = [random(np.ones(shape, np.float32), name)
               for name, shape in (("u", (32, 32)), ("w", (32, 16)))]  # fmt: skip
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", ["x", "u"], ["h"], name="first"),
         onnx.helper.make_node("MatMul", ["h", "w"], ["y"], name="second")],
        "two", [names["x"]], [names["y"]], weights,
    )  # fmt: skip
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=8
    )
    onnx.save(model, tmp_path / "two.onnx")
    loss = ["--loss", "mse(y, target)", "--train", "*"]
    text = explain("nvfp4", *loss, model=tmp_path / "two.onnx")
    wgrad = [line for line in text.splitlines() if line.startswith("  wgrad")]
    assert any(
        ", not transformed: sums over 24 elements (axis" in line for line in wgrad
    )
    assert "its operands are not transformed, because it sums over 24 elements" in text
