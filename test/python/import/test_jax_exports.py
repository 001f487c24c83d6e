"""Files that jax2onnx and binade.jax wrote train like the function of JAX.

The expected values are from JAX (`test/data/exports-jax/export.py`).
"""

import numpy as np
import onnx
import pytest
from binade import trained
from support.exported_models import (
    BINADE,
    DATA,
    binade,
    check_losses,
    check_state,
    load_values,
    train,
)

pytestmark = pytest.mark.skipif(not BINADE.exists(), reason="the tool is not built")

FILES = DATA / "exports-jax"
MODELS = ["image", "tagger", "encoder", "mlp"]
COUNTS = {"image": 8, "tagger": 6, "encoder": 19, "mlp": 6}


def run(model, exporter, folder, *options):
    known = load_values("exports-jax", model)
    path = FILES / f"{model}-{exporter}.onnx"
    name = onnx.load(path).graph.input[0].name
    return train(path, {name: known["batch"]}, known["labels"], folder, *options)


@pytest.mark.parametrize("model", MODELS)
def test_parameters_of_our_export_are_trained(model, tmp_path):
    result = run(model, "binade", tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    count = COUNTS[model]
    assert f"trained: {count} of {count} parameters\n" in result.stdout
    check_losses(tmp_path, load_values("exports-jax", model)["losses"])
    after = load_values("exports-jax", model, "after/")
    statistics = ["const_0", "const_1"] if model == "image" else []
    check_state(tmp_path, after, without=statistics)


@pytest.mark.parametrize("model", MODELS)
def test_parameters_of_jax2onnx_are_trained(model, tmp_path):
    """The file has no names: the tensors that are trained are listed."""
    result = run(model, "jax2onnx", tmp_path)
    assert result.returncode == 0, result.stderr
    count = COUNTS[model]
    assert f"which tensors are parameters; {count} are trained: " in result.stderr
    assert "binade.jax.export(function, parameters, inputs, path)" in result.stderr
    assert f"trained: {count} of {count} parameters\n" in result.stdout
    check_losses(tmp_path, load_values("exports-jax", model)["losses"])


def test_running_statistics_are_not_trained(tmp_path):
    result = run("image", "jax2onnx", tmp_path)
    assert "warning: batch norm is in inference form" in result.stderr
    graph = onnx.load(FILES / "image-jax2onnx.onnx").graph
    stored = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
    norm = next(n for n in graph.node if n.op_type == "BatchNormalization")
    state = trained.load_state(tmp_path / "run")
    for name in norm.input[3:]:
        np.testing.assert_array_equal(state[name], stored[name])
    for name in norm.input[1:3]:
        assert (state[name] != stored[name]).any()


def test_nodes_of_our_export_are_named_by_layers():
    result = binade("import", FILES / "encoder-binade.onnx")
    assert result.returncode == 0, result.stderr
    for layer in ("embedding", "attention.query", "up", "down", "first", "head"):
        assert f'"{layer}/' in result.stdout, layer


def test_reshaped_scales_and_offsets_are_trained(tmp_path):
    """jax2onnx reshapes those of a group norm; the other shape is a constant."""
    info = onnx.helper.make_tensor_value_info
    nodes = [
        onnx.helper.make_node("Reshape", ["const_0", "axes"], ["scale"]),
        onnx.helper.make_node("Reshape", ["const_1", "axes"], ["offset"]),
        onnx.helper.make_node("Mul", ["x", "scale"], ["scaled"]),
        onnx.helper.make_node("Add", ["scaled", "offset"], ["y"]),
    ]
    vectors = {f"const_{i}": np.full(3, i, np.float32) for i in range(2)}
    stored = [
        onnx.numpy_helper.from_array(value, name)
        for name, value in {**vectors, "axes": np.array([1, 3])}.items()
    ]
    graph = onnx.helper.make_graph(
        nodes, "g", [info("x", 1, [2, 3])], [info("y", 1, [2, 3])], stored
    )
    onnx.save(
        onnx.helper.make_model(graph, producer_name="jax2onnx"), tmp_path / "m.onnx"
    )
    result = binade("import", tmp_path / "m.onnx", "--report")
    assert result.returncode == 0, result.stderr
    assert "2 are trained: 'const_0', 'const_1'\n" in result.stderr
