"""Exports with rules for initial values, the command `binade from-torch`, and rejected
models and options."""

import copy

import numpy as np
import pytest
import torch

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxscript", reason="PyTorch's exporter needs onnxscript")

from binade import export, from_torch, initial, safetensors
from binade.command import REJECTED, run_command
from binade.errors import RejectedError
from binade.record import InitialRules
from support import export_models as models
from support.exported_graphs import metadata, run, write  # noqa: E402
from torch import nn


def test_rules_replace_weights(tmp_path):
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


def test_weights_without_a_rule_are_named():
    with InitialRules() as rules:
        weight = nn.Parameter(nn.init.orthogonal_(torch.empty(4, 4)))
        padded = nn.Embedding(4, 4, padding_idx=0)
    with pytest.raises(RejectedError, match="initial value of 'a.weight'"):
        rules.rule("a.weight", weight)
    with pytest.raises(RejectedError, match="in a part of it"):
        rules.rule("b.weight", padded.weight)


def command(tmp_path, *arguments):
    fixed = ["--output", str(tmp_path / "m.onnx"), *arguments]
    return run_command("binade from-torch", from_torch._main, fixed)


def test_the_command_loads_values_and_is_repeatable(tmp_path, capsys):
    names = ["support.export_models:MLP", "--batch", "support.export_models:vectors"]
    names += ["--loss", "support.export_models:cross_entropy"]
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
        ("support.export_models", "vectors", "mean", "write package.module:name"),
        ("absent_module:f", "vectors", "mean", "no module 'absent_module'"),
        ("support.export_models:Absent", "vectors", "mean", "has no 'Absent'"),
        (
            "support.export_models:MLPs",
            "vectors",
            "mean",
            "no 'MLPs'; did you mean 'MLP'?",
        ),
        (
            "support.export_models:vectors",
            "vectors",
            "mean",
            "must be a torch.nn.Module",
        ),
        ("support.export_models:MLP", "MLP", "mean", "must map input names to tensors"),
        ("support.export_models:MLP", "wrong_batch", "cross_entropy", "'extra'"),
        ("support.export_models:MLP", "vectors", "no_reduction", "tensor of shape [5]"),
        (
            "support.export_models:MLP",
            "vectors",
            "mean",
            "the batch has 'labels', which",
        ),
    ],
)
def test_wrong_input_is_rejected(tmp_path, capsys, model, batch, loss, message):
    code = command(tmp_path, model, "--batch", f"support.export_models:{batch}",
                   "--loss", f"support.export_models:{loss}")  # fmt: skip
    assert code == REJECTED
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_old_operator_sets_and_other_file_names_are_rejected(tmp_path):
    model, batch = models.MLP(), models.vectors()
    with pytest.raises(RejectedError, match="must be 18 to"):
        write(tmp_path, model, batch, opset=17)
    with pytest.raises(RejectedError, match="must end in .onnx"):
        export.export_onnx(model, batch, tmp_path / "m.pb", loss=models.cross_entropy)


def test_unsupported_modules_are_named(tmp_path):
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
