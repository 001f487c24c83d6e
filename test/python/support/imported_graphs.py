"""Graphs as text: imported, run, and compared with the evaluator of the onnx package."""

import subprocess

import numpy as np
import pytest
from binade import safetensors
from support.paths import BUILD

onnx = pytest.importorskip("onnx")
inliner = pytest.importorskip("onnx.inliner")
from onnx.reference import ReferenceEvaluator  # noqa: E402

TRANSLATE = BUILD / "bin" / "binade-translate"
EVAL = BUILD / "bin" / "binade-interpret"


def make_inputs(model, random):
    inputs = {}
    for value in model.graph.input:
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        if dtype == np.int64:
            bound = int(value.name.rsplit("_", 1)[1])
            inputs[value.name] = random.integers(0, bound, shape)
        elif dtype == np.bool_:
            inputs[value.name] = random.random(shape) < 0.5
        else:
            inputs[value.name] = random.normal(size=shape).astype(dtype)
    return inputs


def run(*command):
    result = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=600
    )
    assert result.returncode == 0, result.stdout + result.stderr


def sort_nodes(model):
    """A topologically sorted copy, because the evaluator runs nodes in file order."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    known = {""} | {i.name for i in model.graph.input}
    known |= {t.name for t in model.graph.initializer}
    pending = list(model.graph.node)
    del result.graph.node[:]
    while pending:
        ready = [n for n in pending if set(n.input) <= known]
        pending = [n for n in pending if not set(n.input) <= known]
        result.graph.node.extend(ready)
        known |= {name for n in ready for name in n.output}
    return result


def check_outputs(name, opset, graph, tmp_path):
    """Compares the results of the imported graph with those of ONNX's evaluator."""
    text = f'<ir_version: 10, opset_import: ["" : {opset}]> {graph}'
    model = onnx.parser.parse_model(text)
    onnx.save(model, tmp_path / "model.onnx")
    inputs = make_inputs(model, np.random.default_rng(len(name)))
    flat = inliner.inline_local_functions(model)
    values = ReferenceEvaluator(sort_nodes(flat)).run(None, inputs)
    safetensors.save(tmp_path / "inputs.safetensors", inputs)
    run(TRANSLATE, "--import-onnx", tmp_path / "model.onnx", "-o", tmp_path / "m.mlir")
    run(
        EVAL, tmp_path / "m.mlir", "--inputs", tmp_path / "inputs.safetensors",
        "--out", tmp_path / "results.safetensors",
    )  # fmt: skip
    results = safetensors.load(tmp_path / "results.safetensors")
    assert set(results) == {output.name for output in model.graph.output}
    for output, expected in zip(model.graph.output, values, strict=True):
        result, expected = results[output.name], np.asarray(expected)
        assert result.dtype == expected.dtype
        assert result.shape == expected.shape
        if result.dtype.kind == "f":
            np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
        else:
            np.testing.assert_array_equal(result, expected)
