"""On a GPU, no thread reports an index that is in range."""

import json

import numpy as np
import onnx
import onnx.numpy_helper
from onnx import helper
from support.cuda_runs import CUDA, run


def make_gather_model(path):
    """Writes a model that gathers one element of each row at an index computed from the
    label. Labels and indices share memory, and a block has more threads than rows."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["logits"]),
        helper.make_node("Equal", ["labels", "ignored"], ["is_ignored"]),
        helper.make_node("Where", ["is_ignored", "zero", "labels"], ["safe"]),
        helper.make_node("Unsqueeze", ["safe", "last"], ["places"]),
        helper.make_node("GatherElements", ["logits", "places"], ["picked"], axis=1),
        helper.make_node("Squeeze", ["picked", "last"], ["row"]),
        helper.make_node("Where", ["is_ignored", "nothing", "row"], ["kept"]),
        helper.make_node("ReduceMean", ["kept"], ["loss"], keepdims=0),
    ]
    constants = {"w": np.ones((4, 10), np.float32), "last": np.array([-1]),
                 "ignored": np.array(-100), "zero": np.array(0),
                 "nothing": np.array(0, np.float32)}  # fmt: skip
    kinds = {"x": (onnx.TensorProto.FLOAT, [32, 4]),
             "labels": (onnx.TensorProto.INT64, [32])}  # fmt: skip
    graph = helper.make_graph(
        nodes, "picking",
        [helper.make_tensor_value_info(name, *kind) for name, kind in kinds.items()],
        [helper.make_tensor_value_info("loss", onnx.TensorProto.FLOAT, [])],
        [onnx.numpy_helper.from_array(value, name) for name, value in constants.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    onnx.save(model, path)


def test_indices_in_range_are_not_reported(tmp_path):
    """Threads without a row report nothing either, after a label was overwritten."""
    make_gather_model(tmp_path / "m.onnx")
    bundle = tmp_path / "m.bnd"
    run("binade", "compile", tmp_path / "m.onnx", "--train", "w", *CUDA, "-o", bundle)
    done = run("binade", "verify", bundle, "--device", "simulator", "--json")
    report = json.loads(done.stdout)
    assert any("check_index" in r.get("kernel", "") for r in report["records"])
    assert report["equal"]
