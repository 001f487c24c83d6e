"""`binade train` returns PyTorch's results for a model that is exported in three ways.

Each shared model is exported as forward pass with loss, with its gradients, and as a whole
step with AdamW or SGD. The last two graphs are scrambled: names are random, and nodes,
inputs and outputs are in random order.
"""

import itertools
import shutil

import numpy as np
import onnx
import pytest
from support import training_graphs as graphs
from support.paths import MODELS, ROOT
from support.reference import binade, safetensors
from support.shared_models import (
    AUTOCAST,
    OPTIMIZERS,
    allowed_loss_error,
    close,
    load_autocast,
)

KINDS = ["loss", "grads", "train_step"]
POLICIES = ["fp32", "bf16-amp", "fp16-amp"]
ALL_POLICIES = sorted(p.stem for p in (ROOT / "lib/Precision/Policies").glob("*.yaml"))
# The convolutional network is chaotic: f32 and f64 diverge after two steps.
STEPS = {"mlp-digits": 10, "gpt2-tiny": 10, "llama-tiny": 10, "lstm-char": 10,
         "clip-tiny": 10, "detector-tiny": 10, "resnet18-cifar-w8": 2}  # fmt: skip
# Tensors of the model that are not trained.
CONSTANT = {"llama-tiny": "m.model.rotary_emb.inv_freq"}
FAST = {
    ("mlp-digits", "grads", "fp16-amp", "adamw"),
    ("mlp-digits", "train_step", "bf16-amp", "sgd"),
    ("lstm-char", "loss", "fp32", "adamw"),
    ("clip-tiny", "grads", "fp8-delayed"),
    ("detector-tiny", "train_step", "mxfp8"),
}


def mark(*values):
    return pytest.param(*values, marks=[] if values in FAST else pytest.mark.nightly)


def list_runs():
    """PyTorch's runs in 16 bits are recorded of five models."""
    for name, kind, policy, optimizer in itertools.product(
        STEPS, KINDS, POLICIES, OPTIMIZERS
    ):
        if policy == "fp32" or (AUTOCAST / f"{name}.json").exists():
            yield mark(name, kind, policy, optimizer)


class Exported:
    """A model's graph of one kind, and the flags by which it trains."""

    def __init__(self, name, kind, optimizer, folder):
        source = MODELS / name
        file = f"{kind}.{optimizer}.onnx" if kind == "train_step" else f"{kind}.onnx"
        if not (source / file).exists():
            pytest.skip(f"there is no {source / file}")
        self.folder, self.kind, self.model = folder, kind, folder / "m.onnx"
        batches = dict(np.load(source / "inputs.npz"))
        weights = safetensors.load(source / "weights.safetensors")
        self.old = {}
        if kind == "loss":
            shutil.copy(source / file, self.model)
            shutil.copy(source / "weights.safetensors", folder)
            # Its copy, which nothing reads, is left out.
            self.flags = ["--freeze", CONSTANT[name]] if name in CONSTANT else []
        else:
            graph, self.old = graphs.scramble(onnx.load(source / file))
            onnx.save(graph, self.model)
            new = {old: fresh for fresh, old in self.old.items()}
            batches = {new[n]: a for n, a in batches.items()}
            safetensors.save(
                folder / "init.safetensors",
                {new[n]: a for n, a in weights.items() if n in new},
            )
            self.flags = ["--init", folder / "init.safetensors"]
            self.flags += ["--loss-output", new["loss"]]
            if constant := CONSTANT.get(name):
                file = folder / "constant.safetensors"
                safetensors.save(file, {new[constant]: weights[constant]})
                self.flags += ["--const", f"{new[constant]}={file}"]
        if kind != "train_step":
            self.flags = [*self.flags, *OPTIMIZERS[optimizer]]
        safetensors.save(
            folder / "data.safetensors",
            {n: a.reshape(-1, *a.shape[2:]) for n, a in batches.items()},
        )

    def train(self, policy, steps):
        """The columns of the metrics, and the last state by the model's names."""
        run = self.folder / "run"
        process = binade(
            "train", self.model, "--data", self.folder / "data.safetensors",
            "--order", "sequential", "--policy", policy, "--steps", steps, "--out", run,
            *self.flags,
        )  # fmt: skip
        assert process.returncode == 0, process.stderr
        metrics = graphs.read_metrics(run / "metrics.jsonl")
        state = safetensors.load(run / "final.safetensors")
        return metrics, {self.old.get(n, n): a for n, a in state.items()}


def find_noise(recorded, name):
    """Which elements have a gradient that is 0 but for roundings, as the biases of keys
    in attention do: in f64 there is something left, and it is nothing."""
    size = np.abs(recorded[f"grad_fp64.{name}"])
    gradients = [key for key in recorded.files if key.startswith("grad_fp64.")]
    largest = max(np.abs(recorded[key]).max() for key in gradients)
    return (size > 0) & (size <= 1e-12 * largest)


def check_f32(recorded, optimizer, steps, metrics, state):
    allowed = allowed_loss_error(recorded, optimizer, steps)
    close(metrics["loss"], recorded[f"loss.{optimizer}"][:steps], allowed)
    assert not metrics["skipped"].any()
    prefix, compared = f"{optimizer}.step{steps}.", 0
    for key in recorded.files:
        if key.startswith(prefix) and ".check." not in key:
            # Twice the learning rate. Noise is followed by as much in every step,
            # wherever its sign leads.
            name, allowed = key.removeprefix(prefix), np.full(recorded[key].shape, 2e-3)
            if f"grad_fp64.{name}" in recorded:
                allowed[find_noise(recorded, name)] *= steps
            error = np.abs(state[name] - recorded[key])
            assert (error <= allowed).all(), key
            compared += 1
    assert compared or optimizer == "sgd" or steps < 10


def check_16_bit(runs, policy, optimizer, steps, metrics):
    """Twice what the narrow format changes in PyTorch, which skips the same steps."""
    wide, narrow = (runs[p][optimizer] for p in ("fp32", policy))
    for column in ("loss", "grad_norm"):
        single, expected = (
            np.array(run[column][:steps], float) for run in (wide, narrow)
        )
        change = np.abs(expected - single)
        allowed = 2 * np.max(change, where=np.isfinite(change), initial=0)
        close(metrics[column], expected, allowed)
    assert list(metrics["skipped"]) == narrow["skipped"][:steps]


@pytest.mark.parametrize("name, kind, policy, optimizer", list_runs())
def test_every_kind_trains_as_pytorch_does(name, kind, policy, optimizer, tmp_path):
    steps = STEPS[name]
    exported = Exported(name, kind, optimizer, tmp_path)
    metrics, state = exported.train(policy, steps)
    if policy == "fp32":
        recorded = np.load(MODELS / name / "reference.npz")
        check_f32(recorded, optimizer, steps, metrics, state)
    else:
        check_16_bit(load_autocast(name), policy, optimizer, steps, metrics)


def list_all_policies():
    for values in itertools.product(STEPS, KINDS[1:], ALL_POLICIES):
        yield mark(*values)


@pytest.mark.parametrize("name, kind, policy", list_all_policies())
def test_every_policy_trains_every_kind(name, kind, policy, tmp_path):
    """The first loss is PyTorch's, less what three bits of mantissa lose in FP8, or one bit in
    formats of 4 bits."""
    metrics, _ = Exported(name, kind, "adamw", tmp_path).train(policy, 2)
    expected = np.load(MODELS / name / "reference.npz")["loss.adamw"]
    assert np.isfinite(metrics["loss"]).all()
    allowed = 0.2 if policy in ("nvfp4", "mxfp4", "quartet2") else 0.05
    close(metrics["loss"][0], expected[0], allowed * expected[0])
