"""ONNX Runtime's training artifacts: gradients against PyTorch's, runs against its own.

The graphs hold ops of `com.microsoft`; their outputs say only that gradients were added
to buffers. Import makes the gradients outputs.
"""

import json
import subprocess

import numpy as np
import onnx
import pytest
from support import training_graphs as graphs
from support.paths import BUILD, MODELS
from support.reference import EVAL, binade, safetensors

TRANSLATE = BUILD / "bin" / "binade-translate"
NAMES = ["mlp-digits", "gpt2-tiny", "llama-tiny", "lstm-char"]
SUFFIX = "_grad.accumulation.out"

pytestmark = pytest.mark.skipif(not MODELS.is_dir(), reason=f"{MODELS} is absent")


class Artifacts:
    """The training model, its weights by their names in it, and ten batches."""

    def __init__(self, name):
        self.source = MODELS / name
        self.folder = self.source / "ort-training"
        self.model = onnx.load(self.folder / "training_model.onnx")
        inputs = {value.name for value in self.model.graph.input}
        self.weights = {
            prefix + key: value
            for key, value in safetensors.load(
                self.source / "weights.safetensors"
            ).items()
            for prefix in ("", "net.")
            if prefix + key in inputs
        }
        self.batches = dict(np.load(self.source / "inputs.npz"))
        self.loss = self.model.graph.output[0].name


@pytest.mark.parametrize("name", NAMES)
def test_gradients(name, tmp_path):
    artifacts = Artifacts(name)
    reference = np.load(artifacts.source / "reference.npz")
    module, out = tmp_path / "m.mlir", tmp_path / "out.st"
    subprocess.run(
        [TRANSLATE, "--import-onnx", artifacts.folder / "training_model.onnx", "-o",
         module], check=True, timeout=600,
    )  # fmt: skip
    batch = {key: value[0] for key, value in artifacts.batches.items()}
    safetensors.save(tmp_path / "in.st", artifacts.weights | batch)
    subprocess.run(
        [EVAL, module, "--inputs", tmp_path / "in.st", "--out", out],
        check=True,
        timeout=300,
    )
    results = safetensors.load(out)
    np.testing.assert_allclose(
        results[artifacts.loss], reference["loss.adamw.fp64"][0], rtol=2e-6
    )
    compared = 0
    for parameter in artifacts.weights:
        key = f"grad.{parameter.removeprefix('net.')}"
        if key not in reference:
            continue
        expected = reference[key]
        atol = 1e-5 * np.abs(expected).max() + 1e-8
        np.testing.assert_allclose(
            results[parameter + SUFFIX], expected, rtol=1e-4, atol=atol
        )
        compared += 1
    assert compared > 3


def train(folder, artifacts, model, optimizer, *flags, new=None):
    """`binade train` of three steps on the first batch; `new` has new names."""
    new = new or {}
    onnx.save(model, folder / "training.onnx")
    onnx.save(optimizer, folder / "optimizer.onnx")
    safetensors.save(
        folder / "data.safetensors",
        {new.get(n, n): np.concatenate([a[0]] * 3) for n, a in artifacts.batches.items()},
    )  # fmt: skip
    safetensors.save(
        folder / "init.safetensors",
        {new.get(n, n): a for n, a in artifacts.weights.items()},
    )
    return binade(
        "train", folder / "training.onnx",
        "--optimizer-model", folder / "optimizer.onnx",
        "--loss-output", new.get(artifacts.loss, artifacts.loss),
        "--init", folder / "init.safetensors", "--data", folder / "data.safetensors",
        "--order", "sequential", "--steps", 3, "--out", folder / "run", *flags,
    )  # fmt: skip


def load_optimizer(artifacts):
    return onnx.load(artifacts.folder / "optimizer_model.onnx")


@pytest.mark.parametrize(
    "name",
    ["mlp-digits", *(pytest.param(n, marks=pytest.mark.nightly) for n in NAMES[1:])],
)
def test_both_models_train_as_in_onnx_runtime(name, tmp_path):
    artifacts = Artifacts(name)
    model, old = graphs.scramble(artifacts.model)
    process = train(
        tmp_path, artifacts, model, load_optimizer(artifacts),
        new={name: fresh for fresh, name in old.items()},
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    losses = graphs.read_metrics(tmp_path / "run/metrics.jsonl")["loss"]
    recorded = json.loads((artifacts.folder / "info.json").read_text())
    expected = recorded["losses_of_3_steps_on_batch_0"]
    # Units of the last place of numbers between 4 and 8.
    np.testing.assert_allclose(losses, expected, rtol=0, atol=2 * 2.0**-21)


@pytest.mark.parametrize("mode, rule", [(0, "adamw"), (1, "adamw_hf")])
def test_the_rule_has_the_values_of_the_optimizer_model(mode, rule, tmp_path):
    artifacts = Artifacts("mlp-digits")
    optimizer = load_optimizer(artifacts)
    for attribute in optimizer.graph.node[0].attribute:
        if attribute.name == "adam_mode":
            attribute.i = mode
        elif attribute.name == "weight_decay":
            attribute.f = 0.25
    onnx.save(optimizer, tmp_path / "optimizer.onnx")
    process = binade(
        "import", artifacts.folder / "training_model.onnx", "--report",
        "--optimizer-model", tmp_path / "optimizer.onnx", "-o", tmp_path / "m.mlir",
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    assert f"update: 6 parameters by '{rule}', 2 states, lr = 0.001, beta1 = 0.89999" in (
        process.stderr
    )  # fmt: skip
    assert "weight_decay = 0.25" in process.stderr


def spoil(optimizer, **attributes):
    """A copy of an optimizer model with other attributes, or another op."""
    spoiled = onnx.ModelProto()
    spoiled.CopyFrom(optimizer)
    node = spoiled.graph.node[0]
    node.op_type = attributes.pop("op", node.op_type)
    for name, value in attributes.items():
        kept = [a for a in node.attribute if a.name != name]
        del node.attribute[:]
        node.attribute.extend([*kept, onnx.helper.make_attribute(name, value)])
    return spoiled


@pytest.mark.parametrize(
    "attributes, message",
    [
        ({"op": "LambOptimizer"}, "is not an optimizer model: expected one node"),
        ({"correct_bias": 0}, "correct_bias 0 is not supported"),
        ({"adam_mode": 2}, "expected adam_mode 0 or 1, got 2"),
        ({"alpha": 1.5}, "has a value that rule 'adamw_hf' does not allow"),
        ({"schedule": 1}, "attribute 'schedule' is not supported"),
    ],
)
def test_other_optimizer_models_are_refused(attributes, message, tmp_path):
    artifacts = Artifacts("mlp-digits")
    optimizer = spoil(load_optimizer(artifacts), **attributes)
    process = train(tmp_path, artifacts, artifacts.model, optimizer)
    assert process.returncode == 3
    assert message in process.stderr
    assert not (tmp_path / "run").exists()
