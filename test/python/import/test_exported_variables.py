"""`binade.variables`, which `binade.keras` and `binade.jax` share, and these two where their
packages are installed."""

import json

import numpy as np
import onnx
import onnx.reference
import pytest
from binade import variables
from binade.errors import RejectedError
from onnx import TensorProto, helper


def make_graph():
    """y = x w in a branch, where w is the first input."""

    def info(name, *shape):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    inner = helper.make_graph(
        [helper.make_node("MatMul", ["in_1", "in_0"], ["z"])],
        "inner",
        [],
        [info("z", 1, 3)],
    )
    nodes = [
        helper.make_node("If", ["c"], ["fc/w"], then_branch=inner, else_branch=inner),
        helper.make_node("Identity", ["fc/w"], ["out"]),
    ]
    condition = helper.make_tensor("c", TensorProto.BOOL, [], [True])
    inputs = [info("in_0", 2, 3), info("in_1", 1, 2), info("in_2", 4)]
    graph = helper.make_graph(nodes, "g", inputs, [info("out", 1, 3)], [condition])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])


def test_variables_become_initializers(tmp_path):
    """Also those that only a branch reads, and if an inner value has the same name."""
    model = make_graph()
    weight = np.arange(6, dtype=np.float32).reshape(2, 3)
    variables.attach(model, ["fc/w"], {"fc/w": weight}, ["x", "unused"])
    variables.rename_outputs(model.graph, ["y"])
    variables.describe(model, variables.Roles(["fc/w"]))
    assert [i.name for i in model.graph.input] == ["x", "unused"]
    onnx.checker.check_model(model, full_check=True)
    stored = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    np.testing.assert_array_equal(stored["fc/w"], weight)
    x = np.array([[1, 2]], np.float32)
    evaluator = onnx.reference.ReferenceEvaluator(model)
    (y,) = evaluator.run(["y"], {"x": x, "unused": np.zeros(4, np.float32)})
    np.testing.assert_array_equal(y, x @ weight)
    entries = {entry.key: json.loads(entry.value) for entry in model.metadata_props}
    assert entries["binade.trainable"] == ["fc/w"]


def test_values_that_loops_and_branches_read_are_found():
    assert {"in_0", "in_1", "fc/w", "out"} <= variables.list_reads(make_graph().graph)
    assert "in_2" not in variables.list_reads(make_graph().graph)


def test_equal_names_are_refused():
    with pytest.raises(RejectedError, match="'x' is the name of two"):
        variables.attach(make_graph(), ["x"], {}, ["x", "y"])


def test_a_run_of_another_model_is_refused(tmp_path):
    from binade import safetensors

    safetensors.save(tmp_path / "final.safetensors", {"a": np.zeros(2, np.float32)})
    with pytest.raises(RejectedError, match=r"'a' is \[2\], in the model \[3\]; .*'b'"):
        variables.load(tmp_path, {"a": (3,), "b": (1,)})


def test_keras_models_are_exported(tmp_path):
    pytest.importorskip("tf2onnx", reason="tf2onnx is not installed")
    keras = pytest.importorskip("keras", reason="Keras is not installed")
    import binade.keras

    model = keras.Sequential(
        [keras.Input((4,), name="x"), keras.layers.Dense(3, name="fc")]
    )
    proto = binade.keras.export(model, tmp_path / "m.onnx")
    assert {t.name for t in proto.graph.initializer} >= {"fc/kernel", "fc/bias"}


def test_functions_of_jax_are_exported(tmp_path):
    pytest.importorskip("jax2onnx", reason="jax2onnx is not installed")
    import binade.jax

    parameters = {"fc": {"w": np.ones((2, 3), np.float32)}}
    inputs = {"x": np.ones((1, 2), np.float32)}
    proto = binade.jax.export(
        lambda p, x: x @ p["fc"]["w"], parameters, inputs, tmp_path / "m.onnx"
    )
    assert "fc.w" in {t.name for t in proto.graph.initializer}
