"""Exported graphs against PyTorch, run by ONNX's reference implementation."""

import copy
import dataclasses
import json
import pathlib

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxscript", reason="PyTorch's exporter needs onnxscript")

import torch.nn.functional as F
from binade import export, initial, safetensors
from binade.command import REJECTED, run_command
from binade.errors import RejectedError
from binade.record import InitialRules
from onnx.reference import ReferenceEvaluator
from support import export_models as models
from torch import nn

KINDS = {
    "mlp": (models.MLP, models.vectors),
    "gpt": (models.MiniGPT, models.tokens),
    "conv": (models.ConvNet, models.images),
}


def write(tmp_path, model, batch, loss=models.cross_entropy, **options):
    """Exports and returns the file as it lies on disk, without weights."""
    export.export_onnx(model, batch, tmp_path / "m.onnx", loss=loss, **options)
    return onnx.load(tmp_path / "m.onnx", load_external_data=False)


def run(tmp_path, batch, extra_outputs=()):
    """Evaluates the exported file and returns its outputs by name."""
    proto = onnx.load(tmp_path / "m.onnx")
    for name in extra_outputs:
        proto.graph.output.add(name=name)
    names = [output.name for output in proto.graph.output]
    feeds = {key: value.numpy() for key, value in batch.items()}
    return dict(zip(names, ReferenceEvaluator(proto).run(None, feeds)))


def metadata(proto):
    return {entry.key: json.loads(entry.value) for entry in proto.metadata_props}


def op_types(proto):
    return [node.op_type for node in proto.graph.node]


@dataclasses.dataclass
class Exported:
    """A model in its initial state, its batch, and the files made of them."""

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


def test_loss_and_prediction_are_those_of_torch(exported):
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


def test_every_parameter_is_kept_under_its_name(exported):
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


def test_nodes_are_named_by_module_and_nothing_of_this_machine_is_kept(exports):
    proto = exports["gpt"].proto
    names = [node.name for node in proto.graph.node]
    assert len(set(names)) == len(names)
    assert {"token/Gather", "norm1/LayerNormalization", "mlp.0/MatMul"} <= set(names)
    assert "loss/SoftmaxCrossEntropyLoss" in names
    assert not any(n.doc_string or n.metadata_props for n in proto.graph.node)
    assert b"export_models" not in proto.SerializeToString()


def test_running_statistics_advance_as_in_torch(exports):
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
    # ONNX advances with the population variance, PyTorch with n / (n - 1) times it.
    # The variance was 1; 0.7 of it is kept.
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


def test_small_constants_frozen_parameters_and_buffers_survive(tmp_path):
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


def test_attention_is_five_plain_ops_and_one_shared_mask(tmp_path):
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = models.MiniGPT(), models.MiniGPT()

        def forward(self, input_ids):
            return self.one(input_ids) + self.two(input_ids)

    types = op_types(write(tmp_path, Two(), models.tokens()))
    start = types.index("LessOrEqual")
    assert types[start - 2 : start + 5] == [
        "MatMul", "Mul", "LessOrEqual", "Where", "Add", "Softmax", "MatMul",
    ]  # fmt: skip
    assert types.count("Softmax") == 2 and types.count("Where") == 1
    assert not {"Sqrt", "Shape", "Trilu", "CastLike", "Expand"} & set(types)
    assert {"Gelu", "LayerNormalization", "SoftmaxCrossEntropyLoss"} <= set(types)


ATTENTION = {
    "plain": {},
    "scale": {"scale": 0.3},
    "bool mask": {"attn_mask": torch.tensor([[True, False, True]] * 4)},
    "float mask": {"attn_mask": torch.arange(12.0).view(4, 3)},
    "causal, more queries than keys": {"is_causal": True},
}


def test_attention_is_that_of_torch(tmp_path):
    class Attend(nn.Module):
        def forward(self, query, key, value):
            attend = F.scaled_dot_product_attention
            results = {
                case: attend(query, key, value, **options)
                for case, options in ATTENTION.items()
            }
            results["grouped heads"] = attend(
                query, key[:, :2], value[:, :2], enable_gqa=True
            )
            return {"loss": query.mean(), **results}

    torch.manual_seed(0)
    sizes = {"query": (2, 4, 4, 5), "key": (2, 4, 3, 5), "value": (2, 4, 3, 6)}
    batch = {name: torch.randn(size) for name, size in sizes.items()}
    write(tmp_path, Attend(), batch, loss=None)
    found, expected = run(tmp_path, batch), Attend()(**batch)
    assert list(found) == list(expected) and len(found) == 7
    for case, value in expected.items():
        np.testing.assert_allclose(
            found[case], value, rtol=2e-5, atol=2e-6, err_msg=case
        )


LOSSES = {
    "mean": {},
    "sum": {"reduction": "sum"},
    "none": {"reduction": "none"},
    "ignore": {"ignore_index": 2},
    "smoothed": {"label_smoothing": 0.1, "ignore_index": 2},
    "smoothed sum": {"label_smoothing": 0.1, "reduction": "sum"},
    "weighted": {"weight": torch.tensor([0.5, 1.0, 2.0])},
}


def test_cross_entropy_is_that_of_torch(tmp_path):
    class Losses(nn.Module):
        def forward(self, x, labels, shares):
            x = x[:, :3]
            results = {
                case: F.cross_entropy(x, labels, **options)
                for case, options in LOSSES.items()
            }
            for how in ("mean", "sum", "none"):
                results[f"shares {how}"] = F.cross_entropy(x, shares, reduction=how)
            return {"loss": x.mean(), **results}

    batch = models.vectors()
    batch["shares"] = torch.softmax(batch["x"][:, 3:], dim=-1)
    write(tmp_path, Losses(), batch, loss=None)
    found, expected = run(tmp_path, batch), Losses()(**batch)
    assert list(found) == list(expected) and len(found) == 11
    for case, value in expected.items():
        np.testing.assert_allclose(found[case], value, rtol=2e-6, err_msg=case)


def test_uneven_splits_and_mean_squared_error(tmp_path):
    class Parts(nn.Module):
        def forward(self, x):
            first, second = x.split(4, dim=1)
            a, b, c = x.split([1, 2, 3], dim=1)
            rows = x.unbind(0)
            return first.sum() * second + a * b * c[:, :2] + rows[0][:2]

    batch = {"x": torch.randn(5, 6), "target": torch.randn(5, 2)}
    types = op_types(write(tmp_path, Parts(), batch, loss=lambda prediction, target:
                           F.mse_loss(prediction, target)))  # fmt: skip
    assert types.count("Sub") == 1 and "SequenceAt" not in types
    expected = F.mse_loss(Parts()(batch["x"]), batch["target"]).item()
    np.testing.assert_allclose(run(tmp_path, batch)["loss"], expected, rtol=2e-6)


def test_a_model_may_bring_its_loss(tmp_path):
    model, batch = models.OwnLoss(), models.vectors()
    write(tmp_path, model, batch, loss=None)
    found = run(tmp_path, batch)
    assert list(found) == ["loss", "logits"]
    expected = model(**batch)["loss"].item()
    np.testing.assert_allclose(found["loss"], expected, rtol=2e-6)


@pytest.mark.parametrize("opset", [18, 23])
def test_other_operator_sets(tmp_path, opset):
    torch.manual_seed(0)
    model, batch = models.MLP(), models.vectors()
    proto = write(tmp_path, model, batch, opset=opset)
    assert proto.opset_import[0].version == opset
    loss = models.cross_entropy(model(batch["x"]), batch["labels"]).item()
    np.testing.assert_allclose(run(tmp_path, batch)["loss"], loss, rtol=2e-6)


def test_rules_take_the_place_of_weights(tmp_path):
    with InitialRules() as rules:
        model = models.ConvNet()
    batch = models.images()
    proto = write(tmp_path, model, batch, rules=rules)
    assert not (tmp_path / "m.safetensors").exists()
    running = ["norm.running_mean", "norm.running_var"]
    names = [*dict(model.named_parameters()), *running]
    assert [value.name for value in proto.graph.input] == [*names, *batch]
    found = metadata(proto)["binade.init"]
    assert list(found) == names
    assert found["norm.weight"] == found["norm.running_var"] == {"rule": "ones"}
    assert found["norm.bias"] == {"rule": "zeros"}
    bound = 1 / np.sqrt(2 * 9)
    assert found["conv.weight"]["rule"] == "uniform"
    assert found["conv.weight"]["high"] == pytest.approx(bound)
    assert found["conv.weight"]["low"] == pytest.approx(-bound)

    values = initial.draw_model(tmp_path / "m.onnx", seed=3)
    model.load_state_dict(
        {name: torch.from_numpy(value) for name, value in values.items()}, strict=False
    )
    feeds = {k: torch.from_numpy(v) for k, v in values.items()} | batch
    expected = models.cross_entropy(model(batch["x"]), batch["labels"]).item()
    np.testing.assert_allclose(run(tmp_path, feeds)["loss"], expected, rtol=2e-6)


def test_rules_follow_arithmetic_copies_and_in_place_writes():
    with InitialRules() as rules:
        scaled = nn.Parameter(torch.randn(4, 5) * 0.02 + 1)
        shifted = nn.Parameter(2 * torch.rand(3) - 1)
        copied = copy.deepcopy(nn.Linear(4, 4))
        again = nn.Linear(4, 4)
        nn.init.normal_(again.weight, std=0.5)
        single = nn.Parameter(torch.tensor(2.5))
    assert rules.rule("w", scaled) == {"rule": "normal", "mean": 1.0, "std": 0.02}
    assert rules.rule("w", shifted) == {"rule": "uniform", "low": -1.0, "high": 1.0}
    assert rules.rule("w", copied.bias)["rule"] == "uniform"
    assert rules.rule("w", again.weight) == {"rule": "normal", "std": 0.5}
    assert rules.rule("w", single) == {"rule": "constant", "value": 2.5}


def test_what_has_no_rule_is_named():
    with InitialRules() as rules:
        weight = nn.Parameter(nn.init.orthogonal_(torch.empty(4, 4)))
        padded = nn.Embedding(4, 4, padding_idx=0)
    with pytest.raises(RejectedError, match="initial value of 'a.weight'"):
        rules.rule("a.weight", weight)
    with pytest.raises(RejectedError, match="in a part of it"):
        rules.rule("b.weight", padded.weight)


def command(tmp_path, *arguments):
    fixed = ["--output", str(tmp_path / "m.onnx"), *arguments]
    return run_command("binade.export", export._main, fixed)


def test_the_command_loads_values_and_is_repeatable(tmp_path, capsys):
    names = ["export_models:MLP", "--batch", "export_models:vectors"]
    names += ["--loss", "export_models:cross_entropy"]
    assert command(tmp_path, *names) == 0
    assert "inputs x [5, 6], labels [5]" in capsys.readouterr().out
    first = (
        (tmp_path / "m.onnx").read_bytes(),
        (tmp_path / "m.safetensors").read_bytes(),
    )
    assert command(tmp_path, *names) == 0
    assert first[0] == (tmp_path / "m.onnx").read_bytes()
    assert first[1] == (tmp_path / "m.safetensors").read_bytes()

    values = safetensors.load(tmp_path / "m.safetensors")
    values["fc1.weight"] += 1
    safetensors.save(tmp_path / "other.safetensors", values)
    assert command(tmp_path, *names, "--init", str(tmp_path / "other.safetensors")) == 0
    stored = safetensors.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(stored["fc1.weight"], values["fc1.weight"])

    values["out.bias"] = np.zeros(4, np.float32)
    safetensors.save(tmp_path / "other.safetensors", values)
    code = command(tmp_path, *names, "--init", str(tmp_path / "other.safetensors"))
    assert code == REJECTED
    assert "'out.bias' has shape [4], the model's has [3]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("model", "batch", "loss", "message"),
    [
        ("export_models", "vectors", "mean", "write package.module:name"),
        ("absent_module:f", "vectors", "mean", "no module 'absent_module'"),
        ("export_models:Absent", "vectors", "mean", "has no 'Absent'"),
        ("export_models:vectors", "vectors", "mean", "must be a torch.nn.Module"),
        ("export_models:MLP", "MLP", "mean", "must map input names to tensors"),
        ("export_models:MLP", "wrong_batch", "cross_entropy", "'extra'"),
        ("export_models:MLP", "vectors", "no_reduction", "tensor of shape [5]"),
        ("export_models:MLP", "vectors", "mean", "has a parameter 'labels'"),
    ],
)
def test_wrong_input_is_rejected(tmp_path, capsys, model, batch, loss, message):
    code = command(tmp_path, model, "--batch", f"export_models:{batch}",
                   "--loss", f"export_models:{loss}")  # fmt: skip
    assert code == REJECTED
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_old_operator_sets_and_other_file_names_are_rejected(tmp_path):
    model, batch = models.MLP(), models.vectors()
    with pytest.raises(RejectedError, match="must be 18 to"):
        write(tmp_path, model, batch, opset=17)
    with pytest.raises(RejectedError, match="must end in .onnx"):
        export.export_onnx(model, batch, tmp_path / "m.pb", loss=models.cross_entropy)


def test_what_cannot_be_exported_is_named(tmp_path):
    average = nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3, momentum=None))
    batch = {"input": torch.zeros(4, 6)}
    with pytest.raises(RejectedError, match="batch norm '1' has momentum None"):
        write(tmp_path, average, batch, loss=models.mean)

    class Singular(nn.Module):
        def forward(self, input):
            return torch.linalg.svdvals(input)

    with pytest.raises(RejectedError, match="_linalg_svd"):
        write(tmp_path, Singular(), batch, loss=models.mean)
    assert not list(tmp_path.iterdir())
