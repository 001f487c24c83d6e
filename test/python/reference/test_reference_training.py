"""Trains the shared models in the reference and compares with PyTorch.

An ONNX graph is imported, differentiated and given an optimizer; the reference
interpreter then runs the step. Results differ only by the rounding of f32.
BINADE_MODELS names the folder of the models (default: ../shared/models).
"""

import shutil

import numpy as np
import pytest
from support.paths import BUILD, MODELS
from support.processes import call
from support.reference import EVAL, safetensors
from support.shared_models import STEPS, allowed_loss_error

OPTIMIZERS = {
    "adamw": "optimizer=adamw settings=lr=1e-3,weight_decay=0.01",
    "sgd": "optimizer=sgd settings=lr=0.05,momentum=0.9",
}


class Model:
    """A copy of a shared model and its weights in `folder`."""

    def __init__(self, name, folder):
        self.source, self.folder = MODELS / name, folder
        if not self.source.is_dir():
            pytest.skip(f"{self.source} is absent; BINADE_MODELS names its folder")
        for file in ("loss.onnx", "weights.safetensors"):
            shutil.copy(self.source / file, folder / file)
        self.batches = np.load(self.source / "inputs.npz")
        self.recorded = np.load(self.source / "reference.npz")
        self.forward = folder / "forward.mlir"
        call(BUILD / "bin" / "binade-translate", "--import-onnx", folder / "loss.onnx",
             "-o", self.forward, timeout=300)  # fmt: skip

    def transform(self, *pipelines):
        out = self.folder / "out.mlir"
        call(
            BUILD / "bin" / "binade-opt",
            self.forward,
            *pipelines,
            "-o",
            out,
            timeout=300,
        )
        return out

    def run(self, module, batch, **state):
        """Evaluates the module on batch number `batch`."""
        given, out = self.folder / "in.safetensors", self.folder / "out.safetensors"
        arrays = {
            name: np.ascontiguousarray(a[batch]) for name, a in self.batches.items()
        }
        safetensors.save(given, arrays | state)
        call(EVAL, module, "--inputs", given, "--out", out, timeout=300)
        return safetensors.load(out)


@pytest.mark.parametrize("name", STEPS)
def test_gradients(name, tmp_path):
    model = Model(name, tmp_path)
    outputs = model.run(model.transform("--binade-autodiff-pipeline"), 0)
    prefix, found = "grad_fp64.", 0
    largest = max(np.abs(model.recorded[n]).max() for n in model.recorded.files
                  if n.startswith(prefix))  # fmt: skip
    for key in model.recorded.files:
        if not key.startswith(prefix):
            continue
        parameter = key.removeprefix(prefix)
        gradient = outputs.get(parameter, outputs.get(f"gradient/{parameter}"))
        expected, single = model.recorded[key], model.recorded[f"grad.{parameter}"]
        allowed = max(8 * np.abs(single - expected).max(), 1e-6 * largest)
        assert np.abs(gradient - expected).max() <= allowed, parameter
        found += 1
    assert found > 5


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", STEPS)
def test_training(name, optimizer, tmp_path):
    model, steps = Model(name, tmp_path), STEPS[name]
    module = model.transform(
        "--binade-autodiff-pipeline",
        f"--binade-optimizer-pipeline={OPTIMIZERS[optimizer]}",
    )
    arguments = module.read_text().split("func.func @step(")[1].split(") -> (")[0]
    state, losses = {}, []
    for batch in range(steps):
        outputs = model.run(module, batch, **state)
        losses.append(float(outputs["loss"]))
        state = {
            n: v for n, v in outputs.items() if f'binade.name = "{n}"' in arguments
        }
    expected = model.recorded[f"loss.{optimizer}"][:steps]
    allowed = allowed_loss_error(model.recorded, optimizer, steps)
    np.testing.assert_allclose(losses, expected, rtol=0, atol=allowed)
    assert outputs["step"] == steps and not outputs["found_inf"]

    prefix = f"{optimizer}.step{steps}."
    for key in model.recorded.files:
        if key.startswith(prefix) and ".check." not in key:
            difference = np.abs(state[key.removeprefix(prefix)] - model.recorded[key])
            assert difference.max() <= 2e-3, key
            assert np.median(difference) <= 1e-6, key
