"""Indices in range are not reported on a GPU, whichever threads read them."""

import json

import numpy as np
import onnx
import onnx.numpy_helper
from onnx import helper
from support.cuda_runs import CUDA, run


def picking_model(path):
    """One number of each row, named by labels that are computed: places lie where those
    were, and there are fewer than a block has threads for."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["logits"]),
        helper.make_node("Equal", ["labels", "none"], ["is_none"]),
        helper.make_node("Where", ["is_none", "zero", "labels"], ["safe"]),
        helper.make_node("Unsqueeze", ["safe", "last"], ["places"]),
        helper.make_node("GatherElements", ["logits", "places"], ["picked"], axis=1),
        helper.make_node("Squeeze", ["picked", "last"], ["row"]),
        helper.make_node("Where", ["is_none", "nothing", "row"], ["kept"]),
        helper.make_node("ReduceMean", ["kept"], ["loss"], keepdims=0),
    ]
    constants = {"w": np.ones((4, 10), np.float32), "last": np.array([-1]),
                 "none": np.array(-100), "zero": np.array(0),
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
    """By threads that have no row, either, once a row is overwritten."""
    picking_model(tmp_path / "m.onnx")
    bundle = tmp_path / "m.bnd"
    run("binade", "compile", tmp_path / "m.onnx", "--train", "w", *CUDA, "-o", bundle)
    done = run("binade", "verify", bundle, "--device", "simulator", "--json")
    report = json.loads(done.stdout)
    assert any("check_index" in r.get("kernel", "") for r in report["records"])
    assert report["equal"]
