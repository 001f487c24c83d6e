"""`binade convert` on ops inside and after branches, loops, functions and sequences.

`value_info` does not list the types of their values; `convert` infers them from the bodies.
"""

import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, inliner, numpy_helper
from support.convert import BINADE, convert, draw, run
from support.nested_graphs import (
    HALF,
    MODELS,
    N,
    info,
    make_functions,
    make_if_of,
    make_scan,
)


def feed(model):
    feeds = {"x": draw(2, 4, seed=2)}
    for value in model.graph.input:
        if value.name == "c":
            feeds["c"] = np.array(False)
        elif value.name != "x":
            feeds[value.name] = np.array(1)
    return feeds


def walk(graph, scope=None):
    """Yields the nodes of `graph` and its subgraphs with the types of their inputs."""
    scope = dict(scope or {})
    for tensor in graph.initializer:
        scope[tensor.name] = tensor.data_type
    for value in [*graph.input, *graph.output, *graph.value_info]:
        if value.type.HasField("tensor_type"):
            scope[value.name] = value.type.tensor_type.elem_type
    for node in graph.node:
        yield node, [scope.get(name) for name in node.input]
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from walk(attribute.g, scope)


def find_matmuls(model):
    """Returns the names of matmuls and the types of their operands."""
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    return [
        (node.name, types)
        for node, types in walk(inferred.graph)
        if node.op_type == "MatMul"
    ]


@pytest.mark.parametrize("name", MODELS)
def test_all_matmuls_are_narrow(tmp_path, name):
    model = MODELS[name]()
    converted, text = convert(model, tmp_path, "fp16-amp")
    products = find_matmuls(converted)
    expected = find_matmuls(inliner.inline_local_functions(model))
    assert len(products) == len(expected)
    assert all(types == [HALF, HALF] for _, types in products), products
    # A tensor with only narrow readers is stored narrow, also if they are in subgraphs.
    stored = {tensor.name: tensor.data_type for tensor in converted.graph.initializer}
    assert stored["w"] == stored["inner_w"] == HALF
    feeds = feed(model)
    exact, narrow = (run(tmp_path / f"{kind}.onnx", feeds) for kind in ("in", "out"))
    difference = np.abs(narrow["z"] - exact["z"]).max()
    assert difference <= 16 * 2.0**-11 * np.abs(exact["z"]).max(), difference
    assert "left in f32: node 'final'" not in text


@pytest.mark.parametrize("name", MODELS)
def test_fp32_changes_nothing(tmp_path, name):
    """Functions are not inlined."""
    model = MODELS[name]()
    converted, _ = convert(model, tmp_path, "fp32")
    assert converted.SerializeToString() == model.SerializeToString()


def test_nodes_of_subgraphs_state_their_reason(tmp_path):
    converted, _ = convert(make_if_of("c"), tmp_path, "fp16-amp")
    (branch,) = [node for node in converted.graph.node if node.op_type == "If"]
    for attribute in branch.attribute:
        (product,) = [n for n in attribute.g.node if n.op_type == "MatMul"]
        assert product.metadata_props[0].value.startswith("f16, sums f32 <- ")


def test_functions_are_inlined(tmp_path):
    """Each call gets unique names, and the model has no functions."""
    converted, _ = convert(make_functions(), tmp_path, "fp16-amp")
    assert not converted.functions
    names = [output for node in converted.graph.node for output in node.output]
    assert len(names) == len(set(names))
    assert len([n for n in converted.graph.node if n.op_type == "MatMul"]) == 5


def test_functions_of_another_operator_set_are_not_inlined(tmp_path):
    """Their nodes would have other semantics in the graph."""
    model = make_functions()
    for function in model.functions:
        function.opset_import[0].version = 16
    converted, text = convert(model, tmp_path, "fp16-amp")
    assert len(converted.functions) == 2
    assert ("final", [HALF, HALF]) in find_matmuls(converted)
    assert "left in f32: node 'call'" in text


@pytest.mark.parametrize("options", [{}, {"save_as_external_data": True,
    "location": "m.bin", "size_threshold": 0}], ids=["inside", "external"])  # fmt: skip
def test_initializers_of_branches_are_stored_narrow(tmp_path, options):
    """Includes a weight and a constant that is read in two formats."""
    model = make_if_of("c")
    (node,) = [node for node in model.graph.node if node.op_type == "If"]
    (graph,) = [a.g for a in node.attribute if a.name == "then_branch"]
    graph.initializer.append(numpy_helper.from_array(draw(4, 4, seed=3), "own_w"))
    graph.initializer.append(numpy_helper.from_array(draw(4, 4, seed=4), "both"))
    graph.node[0].input[1] = "own_w"
    graph.node.insert(1, N("MatMul", ["own_h", "both"], ["then_h"], name="own"))
    graph.node[0].output[0] = "own_h"
    graph.node.insert(2, N("Cos", ["both"], ["cosine"]))
    onnx.checker.check_model(model, full_check=True)
    convert(model, tmp_path, "fp16-amp", **options)
    products = find_matmuls(onnx.load(tmp_path / "out.onnx"))
    assert all(types == [HALF, HALF] for _, types in products)
    feeds = feed(model) | {"c": np.array(True)}
    exact, narrow = (run(tmp_path / f"{kind}.onnx", feeds) for kind in ("in", "out"))
    assert np.allclose(narrow["z"], exact["z"], rtol=0.02, atol=0.02)


def test_models_that_crash_onnx_inference_are_converted(tmp_path):
    """ONNX's type inference crashes if an input has no type, as after an unknown op."""
    model = make_scan()
    model.opset_import[0].version = 20
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.graph.node.insert(0, N("Strange", ["x"], ["s"], domain="own"))
    model.graph.node.insert(1, N("RegexFullMatch", ["s"], ["m"], pattern="a"))
    model.graph.output.append(info("m", (2,), TensorProto.BOOL))
    source, target = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(model, source)
    command = [BINADE, "convert", source, "--policy", "fp16-amp", "-o", target]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    onnx.checker.check_model(target)
