"""Recovers gradients and whole steps of the shared models, and compares with PyTorch.

The graphs of BINADE_MODELS are scrambled: names are random, and nodes, inputs and outputs
are in random order.
"""

import subprocess

import numpy as np
import onnx
import pytest
from support import training_graphs as graphs
from support.paths import BUILD, MODELS
from support.reference import EVAL, safetensors
from support.shared_models import STEPS, allowed_loss_error

IMPORT, *STEP = (f"--binade-{phase}-pipeline" for phase in
                 ("import", "autodiff", "optimizer"))  # fmt: skip
SETTINGS = {
    "adamw": "optimizer=adamw settings=lr=1e-3,weight_decay=0.01",
    "sgd": "optimizer=sgd settings=lr=0.05,momentum=0.9",
}


def call(*command):
    process = subprocess.run(
        [str(part) for part in command],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    if "ops that cannot be imported" in process.stderr:
        pytest.skip(process.stderr.splitlines()[0])
    assert process.returncode == 0, process.stderr


@pytest.mark.nightly
def test_gradients_of_a_large_model_are_derived_anew(tmp_path):
    """Evaluates 1e11 multiplications three times, which takes about a minute."""
    report = graphs.report_scrambled(MODELS / "gpt2-124m" / "grads.onnx", tmp_path)
    assert ": note: its gradients are compared with those that Binade" in report
    assert "backward part: derived anew" in report
    assert "attention 12, gelu 12" in report


class Scrambled:
    """The training step that is recovered from a scrambled graph of a shared model."""

    def __init__(self, model, file, folder, *pipelines):
        self.source, self.folder = MODELS / model, folder
        if not (self.source / file).exists():
            pytest.skip(f"{self.source / file} is absent")
        graph, self.old = graphs.scramble(onnx.load(self.source / file))
        self.new = {old: new for new, old in self.old.items()}
        onnx.save(graph, folder / "m.onnx")
        call(BUILD / "bin" / "binade-translate", "--import-onnx", folder / "m.onnx",
             "-o", folder / "imported.mlir")  # fmt: skip
        call(BUILD / "bin" / "binade-opt", folder / "imported.mlir", *pipelines,
             "-o", folder / "step.mlir")  # fmt: skip
        self.module = (folder / "step.mlir").read_text()
        self.batches = np.load(self.source / "inputs.npz")
        self.recorded = np.load(self.source / "reference.npz")

    def train(self, steps):
        """The losses, and the final state by the names of the model."""
        arguments = self.module.split("func.func @step(")[1].split(") -> (")[0]
        weights = safetensors.load(self.source / "weights.safetensors")
        state = {self.new[n]: v for n, v in weights.items() if n in self.new}
        state = {n: v for n, v in state.items() if f'name = "{n}"' in arguments}
        losses = []
        for step in range(steps):
            batch = {
                self.new[n]: np.ascontiguousarray(a[step])
                for n, a in self.batches.items()
            }
            safetensors.save(self.folder / "in.safetensors", state | batch)
            call(EVAL, self.folder / "step.mlir", "--inputs",
                 self.folder / "in.safetensors", "--out",
                 self.folder / "out.safetensors")  # fmt: skip
            outputs = safetensors.load(self.folder / "out.safetensors")
            losses.append(float(outputs["loss"]))
            state = {n: v for n, v in outputs.items() if f'name = "{n}"' in arguments}
        return losses, {self.old.get(n, n): v for n, v in state.items()}

    def check(self, optimizer, steps):
        losses, state = self.train(steps)
        allowed = allowed_loss_error(self.recorded, optimizer, steps)
        expected = self.recorded[f"loss.{optimizer}"][:steps]
        np.testing.assert_allclose(losses, expected, rtol=0, atol=allowed)
        prefix, found = f"{optimizer}.step{steps}.", 0
        for key in self.recorded.files:
            if key.startswith(prefix) and ".check." not in key:
                error = np.abs(state[key.removeprefix(prefix)] - self.recorded[key])
                assert error.max() <= 2e-3, key
                found += 1
        assert found or steps < 10 or optimizer == "sgd"


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", SETTINGS)
@pytest.mark.parametrize("model", STEPS)
def test_whole_steps(model, optimizer, tmp_path):
    graph = Scrambled(model, f"train_step.{optimizer}.onnx", tmp_path, IMPORT, *STEP)
    assert graph.module.count(f"binade.optimizer @{optimizer} ") == 1
    assert "@exported" not in graph.module
    graph.check(optimizer, STEPS[model])


@pytest.mark.slow
@pytest.mark.parametrize("model", STEPS)
def test_gradients(model, tmp_path):
    graph = Scrambled(model, "grads.onnx", tmp_path, IMPORT, STEP[0],
                      f"{STEP[1]}={SETTINGS['adamw']}")  # fmt: skip
    graph.check("adamw", STEPS[model])
