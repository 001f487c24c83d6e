"""Exported ONNX graphs, run by ONNX's reference implementation, match PyTorch."""

import copy
import dataclasses
import pathlib

import numpy as np
import pytest
import torch

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxscript", reason="PyTorch's exporter needs onnxscript")

from binade import safetensors
from support import export_models as models
from support.exported_graphs import metadata, op_types, run, write  # noqa: E402
from torch import nn

KINDS = {
    "mlp": (models.MLP, models.vectors),
    "gpt": (models.MiniGPT, models.tokens),
    "conv": (models.ConvNet, models.images),
}


@dataclasses.dataclass
class Exported:
    """A model in its initial state, its batch, and the exported files."""

    kind: str
    model: nn.Module
    batch: dict
    folder: pathlib.Path
    proto: onnx.ModelProto


@pytest.fixture(scope="module")
def exports(tmp_path_factory):
    found = {}
    for kind, (make_model, make_batch) in KINDS.items():
        torch.manual_seed(0)
        model, batch, folder = make_model(), make_batch(), tmp_path_factory.mktemp(kind)
        before = copy.deepcopy(model)
        proto = write(folder, model, batch)
        for name, value in before.state_dict().items():
            assert torch.equal(model.state_dict()[name], value), name
        found[kind] = Exported(kind, before, batch, folder, proto)
    return found


@pytest.fixture(params=KINDS)
def exported(request, exports):
    return dataclasses.replace(
        exports[request.param], model=copy.deepcopy(exports[request.param].model)
    )


def test_loss_and_prediction_match_pytorch(exported):
    found = run(exported.folder, exported.batch)
    *inputs, labels = exported.batch.values()
    prediction = exported.model(*inputs)
    loss = models.cross_entropy(prediction, labels)
    assert list(found) == ["loss", "prediction"]
    assert found["loss"].shape == ()
    np.testing.assert_allclose(found["loss"], loss.item(), rtol=2e-6)
    np.testing.assert_allclose(
        found["prediction"], prediction.detach(), rtol=2e-5, atol=2e-6
    )
    assert [value.name for value in exported.proto.graph.input] == list(exported.batch)


def test_every_parameter_keeps_its_name(exported):
    proto, state = exported.proto, exported.model.state_dict()
    parameters = list(dict(exported.model.named_parameters()))
    external = [
        tensor
        for tensor in proto.graph.initializer
        if tensor.data_location == onnx.TensorProto.EXTERNAL
    ]
    names = [tensor.name for tensor in external]
    running = ["norm.running_mean", "norm.running_var"]
    assert names == parameters + (running if exported.kind == "conv" else [])
    assert metadata(proto)["binade.trainable"] == parameters
    assert set(names) <= {name for node in proto.graph.node for name in node.input}
    weights = (exported.folder / "m.safetensors").read_bytes()
    for tensor in external:
        place = {entry.key: entry.value for entry in tensor.external_data}
        assert place["location"] == "m.safetensors"
        start, length = int(place["offset"]), int(place["length"])
        expected = state[tensor.name].numpy()
        assert weights[start : start + length] == expected.tobytes()
        assert tuple(tensor.dims) == expected.shape
    assert sorted(safetensors.load(exported.folder / "m.safetensors")) == sorted(names)


def test_nodes_are_named_by_module_without_paths_of_this_machine(exports):
    proto = exports["gpt"].proto
    names = [node.name for node in proto.graph.node]
    assert len(set(names)) == len(names)
    assert {"token/Gather", "norm1/LayerNormalization", "mlp.0/MatMul"} <= set(names)
    assert "loss/SoftmaxCrossEntropyLoss" in names
    assert not any(n.doc_string or n.metadata_props for n in proto.graph.node)
    assert b"export_models" not in proto.SerializeToString()


def test_running_statistics_match_pytorch(exports):
    proto, batch = exports["conv"].proto, exports["conv"].batch
    model = copy.deepcopy(exports["conv"].model)
    (node,) = (n for n in proto.graph.node if n.op_type == "BatchNormalization")
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    assert attributes["training_mode"] == 1
    assert metadata(proto)["binade.buffers"] == {
        "norm.running_mean": {"kind": "running_mean"},
        "norm.running_var": {"kind": "running_variance", "unbiased": True},
    }
    found = run(exports["conv"].folder, batch, node.output[1:])
    model(batch["x"])
    np.testing.assert_allclose(
        found[node.output[1]], model.norm.running_mean, rtol=1e-5, atol=1e-6
    )
    # ONNX updates with the population variance, PyTorch with n / (n - 1) times it.
    # The running variance was 1 and has a weight of 0.7.
    count = 4 * 3 * 3
    advance = (found[node.output[2]] - 0.7) * count / (count - 1)
    np.testing.assert_allclose(0.7 + advance, model.norm.running_var, rtol=1e-5)


def test_evaluation_mode_uses_the_running_statistics(tmp_path):
    model, batch = models.ConvNet().eval(), models.images()
    model.norm.running_mean += 0.5
    proto = write(tmp_path, model, batch)
    assert "binade.buffers" not in metadata(proto)
    loss = models.cross_entropy(model(batch["x"]), batch["labels"])
    np.testing.assert_allclose(run(tmp_path, batch)["loss"], loss.item(), rtol=2e-6)


def test_dropout_is_in_training_mode(tmp_path):
    proto = write(tmp_path, models.Dropping(), models.vectors())
    (node,) = (n for n in proto.graph.node if n.op_type == "Dropout")
    constants = {
        tensor.name: onnx.numpy_helper.to_array(tensor)
        for tensor in proto.graph.initializer
        if tensor.data_location != onnx.TensorProto.EXTERNAL
    }
    assert constants[node.input[1]] == np.float32(0.25)
    assert constants[node.input[2]] == np.True_
    assert "Dropout" not in op_types(
        write(tmp_path, models.Dropping().eval(), models.vectors())
    )


def test_small_constants_frozen_parameters_and_buffers_are_exported(tmp_path):
    model, batch = models.Constants(), {"x": torch.zeros(2, 6)}
    model.frequency.fill_(torch.pi / 2)
    proto = write(tmp_path, model, batch, loss=models.mean)
    assert metadata(proto)["binade.trainable"] == ["weight"]
    assert metadata(proto)["binade.frozen"] == ["frozen"]
    names = {tensor.name for tensor in proto.graph.initializer}
    assert {"weight", "frozen", "frequency"} <= names
    expected = np.float32(1e-8) * np.float32(1 - 1e-6) + np.cos(np.float32(np.pi / 2))
    np.testing.assert_allclose(
        run(tmp_path, batch)["prediction"], np.broadcast_to(expected, (2, 6)), rtol=1e-6
    )
