"""Hyper-parameters of a compiled step are set when it runs, and shown by `binade inspect`."""

import json

import numpy as np
import pytest
from support.reference import binade, safetensors

onnx = pytest.importorskip("onnx")

MODEL = """
<ir_version: 9, opset_import: ["" : 20]>
g (float[4, 2] x, int64[4] labels) => (float loss)
  <float[2, 3] weight = {0.5, -1.0, 0.25, 2.0, 0.125, -0.75},
   float[3] bias = {0.5, 0.25, -0.5}> {
  h = MatMul(x, weight)
  y = Add(h, bias)
  loss = SoftmaxCrossEntropyLoss(y, labels)
}
"""
IMPORT = ["--loss-output", "loss", "--train", "*"]
GROUP = ["--group", "bias:weight_decay=0,beta1=0.5"]
# A value with more digits than a shortened number has.
CHANGES = ["--lr", "0.0001234567891", "--set", "weight_decay=0.1"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model, data, and the model compiled with default settings."""
    folder = tmp_path_factory.mktemp("settings")
    onnx.save(onnx.parser.parse_model(MODEL), folder / "model.onnx")
    x = np.random.default_rng(1).standard_normal((12, 2), np.float32)
    labels = np.arange(12) % 3
    safetensors.save(folder / "data.safetensors", {"x": x, "labels": labels})
    arguments = [*IMPORT, *GROUP, "-o", folder / "step.bnd"]
    process = binade("compile", folder / "model.onnx", *arguments)
    assert process.returncode == 0, process.stderr
    return folder


def train(folder, model, run, *more, steps=5):
    return binade(
        "train", folder / model, "--data", folder / "data.safetensors",
        "--steps", steps, "--out", run, *more,
    )  # fmt: skip


def losses(run):
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line)["loss"] for line in lines]


def test_a_bundle_with_changed_settings_equals_a_model_with_these_settings(
    folder, tmp_path
):
    model, bundle, plain = (tmp_path / name for name in ("model", "bundle", "plain"))
    for process in (
        train(folder, "model.onnx", model, *IMPORT, *GROUP, *CHANGES),
        train(folder, "step.bnd", bundle, *CHANGES),
        train(folder, "step.bnd", plain),
    ):
        assert process.returncode == 0, process.stderr
    assert losses(bundle) == losses(model) != losses(plain)
    expected = safetensors.load(model / "final.safetensors")
    found = safetensors.load(bundle / "final.safetensors")
    assert found.keys() == expected.keys()
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)
    settings = json.loads((bundle / "run.json").read_text())["settings"]
    assert settings == json.loads((model / "run.json").read_text())["settings"]
    # Changes apply to all groups, except for settings that a group sets itself.
    assert settings["lr"] == settings["lr@1"] == 0.0001234567891
    assert (settings["weight_decay"], settings["weight_decay@1"]) == (0.1, 0)


def test_a_learning_rate_of_zero_keeps_every_parameter(folder, tmp_path):
    """The bundle was compiled with another learning rate."""
    assert train(folder, "step.bnd", tmp_path / "none", steps=0).returncode == 0
    assert train(folder, "step.bnd", tmp_path / "still", "--lr", 0).returncode == 0
    first = safetensors.load(tmp_path / "none" / "final.safetensors")
    last = safetensors.load(tmp_path / "still" / "final.safetensors")
    assert (first["step"], last["step"]) == (0, 5)
    for name in first:
        if not name.startswith("state/") and name not in ("step", "rng"):
            np.testing.assert_array_equal(last[name], first[name], err_msg=name)


INVALID = {
    "unknown": (["--set", "weight_dekay=1"], 3, ["did you mean 'weight_decay'?"]),
    "negative": (["--lr", "-1"], 3, ["lr must be at least 0, got -1"]),
    "nan": (["--lr", "nan"], 2, ["--lr", "must be finite"]),
    "set nan": (["--set", "lr=nan"], 3, ["lr must be finite"]),
    "bound": (["--set", "beta1@1=1"], 3, ["beta1 of group 1 must be below 1, got 1"]),
    "form": (["--set", "form=row"], 2, ["--set form=row belongs to phase 'optimizer'"]),
    "no form": (["--set", "form="], 2, ["--set expects KEY=VALUE"]),
    "text": (["--set", "lr=fast"], 2, ["--set expects KEY=VALUE"]),
    "group": (["--group", "*:lr=1"], 2, ["--group belongs to", "lr=0.001, beta1"]),
    "optimizer": (["--optimizer", "sgd"], 2, ["--optimizer", "lr=0.001, beta1"]),
    "clip": (["--clip", "1"], 2, ["--clip", "lr=0.001, beta1"]),
    "policy": (["--policy", "fp32"], 2, ["--policy", "lr=0.001, beta1"]),
}


@pytest.mark.parametrize("kind", INVALID)
def test_invalid_settings_are_rejected(kind, folder, tmp_path):
    arguments, code, words = INVALID[kind]
    process = train(folder, "step.bnd", tmp_path / "run", *arguments)
    assert process.returncode == code, process.stderr
    for word in words:
        assert word in process.stderr
    assert process.stderr.count("error:") == 1
    assert not (tmp_path / "run").exists()


def test_a_form_is_set_for_all_parameters(folder, tmp_path):
    finals = []
    for number, flags in enumerate(
        (["--set", "form=dimension"], ["--group", "*:form=dimension"], [])
    ):
        run = tmp_path / str(number)
        flags = [*IMPORT, "--optimizer", "tiger", *flags]
        process = train(folder, "model.onnx", run, *flags)
        assert process.returncode == 0, process.stderr
        finals.append(safetensors.load(run / "final.safetensors")["weight"])
    np.testing.assert_array_equal(finals[0], finals[1])
    assert not np.array_equal(finals[0], finals[2])


def test_inspect_shows_settings(folder):
    process = binade("inspect", folder / "step.bnd", "--set", "beta2=0.9")
    assert process.returncode == 0, process.stderr
    settings = process.stdout.splitlines()[1]
    assert settings == (
        "settings lr=0.001, beta1=0.9, beta2=0.9, eps=1e-08, weight_decay=0.01; "
        "group 1: beta1=0.5, weight_decay=0"
    )


def test_every_record_names_its_node(folder):
    plan = json.loads(binade("inspect", folder / "step.bnd", "--json").stdout)
    labels = [record["label"].split(" ", 1) for record in plan["records"]]
    assert all(len(label) == 2 for label in labels), labels
    nodes = {label[1].split(" +")[0] for label in labels}
    assert nodes <= {
        *("MatMul_0", "Add_1", "SoftmaxCrossEntropyLoss_2"),
        *("weight", "bias", "g"),  # Parameters, and the graph itself.
    }
    # One launch updates both parameters.
    update = [rest for kernel, rest in labels if kernel.startswith("optimizer_update")]
    assert update == ["weight +1"]
    table = binade("inspect", folder / "step.bnd").stdout
    assert "SoftmaxCrossEntropyLoss_2" in table and "weight +1" in table
