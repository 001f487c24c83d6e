"""Files that tf2onnx and binade.keras wrote train like the Keras model.

The expected values are from Keras (`test/data/exports-keras/export.py`).
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

FILES = DATA / "exports-keras"


def run(model, exporter, folder, *options):
    known = load_values("exports-keras", model)
    name = "image" if model == "image" else "tokens"
    path = FILES / f"{model}-{exporter}.onnx"
    return train(path, {name: known["batch"]}, known["labels"], folder, *options)


@pytest.mark.parametrize("model", ["image", "tagger", "encoder"])
def test_variables_of_our_export_are_trained(model, tmp_path):
    """With batch norm in training mode, and weights of LSTM and GRU as variables."""
    result = run(model, "binade", tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    count = {"image": 8, "tagger": 9, "encoder": 19}[model]
    assert f"trained: {count} of {count} parameters\n" in result.stdout
    check_losses(tmp_path, load_values("exports-keras", model)["losses"])
    check_state(tmp_path, load_values("exports-keras", model, "after/"))


@pytest.mark.parametrize("model", ["tagger", "encoder"])
def test_variables_of_tf2onnx_are_trained(model, tmp_path):
    """The file does not say what the variables are: they are listed."""
    result = run(model, "keras", tmp_path)
    assert result.returncode == 0, result.stderr
    count = {"tagger": 9, "encoder": 19}[model]
    assert f"which tensors are parameters; {count} are trained: " in result.stderr
    assert "binade.keras.export(model, path) keeps all variables" in result.stderr
    assert "inference graph, without dropout" in result.stderr
    assert f"trained: {count} of {count} parameters\n" in result.stdout
    check_losses(tmp_path, load_values("exports-keras", model)["losses"])


def test_names_of_tf2onnx_are_kept(tmp_path):
    assert run("encoder", "keras", tmp_path).returncode == 0
    state = trained.load_state(tmp_path / "run")
    after = load_values("exports-keras", "encoder", "after/")
    for name, path in {
        "encoder_1/up_1/Cast/ReadVariableOp:0": "up/kernel",
        "encoder_1/up_1/BiasAdd/ReadVariableOp:0": "up/bias",
        "encoder_1/second_1/Reshape:0": "second/gamma",
        "encoder_1/second_1/Reshape_1:0": "second/beta",
        "encoder_1/attention_1/query_1/Reshape:0": "attention/query/kernel",
        "encoder_1/embedding_1/GatherV2/ReadVariableOp:0": "embedding/embeddings",
    }.items():
        value = state[name].reshape(after[path].shape)
        np.testing.assert_allclose(value, after[path], rtol=0, atol=1e-6)


def test_folded_batch_norm_is_an_error(tmp_path):
    result = run("image", "keras", tmp_path)
    assert result.returncode == 3
    assert (
        "error: batch norm is folded into constants, so that its scale and offset cannot "
        "be trained: 'image_net_1/norm_1'\n" in result.stderr
    )
    assert "binade.keras.export(model, path) keeps them" in result.stderr
    assert not (tmp_path / "run").exists()


def test_freezing_the_layer_accepts_folded_batch_norm(tmp_path):
    """The constants of the batch norm are not trained, the other variables are."""
    result = run("image", "keras", tmp_path, "--freeze", "image_net_1/norm_1")
    assert result.returncode == 0, result.stderr
    assert "trained: 6 of 6 parameters" in result.stdout


def test_dropout_of_our_export_is_random(tmp_path):
    result = binade("import", FILES / "dropout-binade.onnx",
                    "--dim", "batch=3")  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "dropout" in result.stdout


@pytest.mark.parametrize(
    "path", ["encoder-keras.onnx", "encoder-binade.onnx", "tagger-binade.onnx"]
)
def test_nodes_are_named_by_layers(path):
    """Policies match layers by name."""
    layers = ["lstm/", "gru/"] if path.startswith("tagger") else ["up/", "down/"]
    if path.endswith("keras.onnx"):
        layers = ["encoder_1/up_1/", "encoder_1/down_1/"]
    shape = onnx.load(FILES / path).graph.input[0].type.tensor_type.shape
    result = binade("import", FILES / path, "--dim", f"{shape.dim[0].dim_param}=3")
    for layer in layers:
        assert f'"{layer}' in result.stdout, layer


def test_equal_variables_of_tf2onnx_are_separated(tmp_path):
    """In a new model, the norms have equal scales and offsets, stored once."""
    known = load_values("exports-keras", "encoder")
    path = FILES / "fresh-keras.onnx"
    result = train(path, {"tokens": known["batch"]}, known["labels"], tmp_path)
    assert result.returncode == 0, result.stderr
    assert "trained as one parameter" not in result.stderr
    state = trained.load_state(tmp_path / "run")
    for name in ("Reshape:0", "Reshape_1:0"):
        first, second = (state[f"encoder_1/{k}_1/{name}"] for k in ("first", "second"))
        assert (first != second).any()


@pytest.mark.parametrize(
    "path", sorted(FILES.glob("*.onnx")), ids=lambda path: path.stem
)
def test_files_are_valid(path):
    onnx.checker.check_model(path, full_check=True)


def test_ops_that_tf2onnx_did_not_convert_are_explained(tmp_path):
    """tf2onnx 1.17 writes the Erfc of Keras's gelu as an op that ONNX lacks."""
    shape = [onnx.helper.make_tensor_value_info(n, 1, [2, 3]) for n in ("x", "y")]
    node = onnx.helper.make_node("Erfc", ["x"], ["y"], name="fc/Gelu/Erfc")
    graph = onnx.helper.make_graph([node], "g", shape[:1], shape[1:])
    model = onnx.helper.make_model(graph, producer_name="tf2onnx")
    onnx.save(model, tmp_path / "m.onnx")
    result = binade("import", tmp_path / "m.onnx")
    assert result.returncode == 3
    assert "error: has ops that cannot be imported: Erfc (1)\n" in result.stderr
    assert "binade.keras.export(model, path) converts more" in result.stderr
