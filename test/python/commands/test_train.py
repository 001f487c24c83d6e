"""Trains the shared models with `binade train` and compares with PyTorch.

f32 is compared with the models' recorded runs in f32 and f64, 16-bit policies with recorded
results of PyTorch's autocast and GradScaler (data/autocast, which contains the script that
recorded them). The tests do not need PyTorch.
"""

import shutil

import numpy as np
import pytest
from support.paths import ROOT
from support.reference import safetensors
from support.shared_models import OPTIMIZERS, Model, close

# The convolutional network is chaotic: f32 and f64 diverge after two steps.
STEPS = {"mlp-digits": 10, "gpt2-tiny": 10, "resnet18-cifar-w8": 2}
LOSS = {
    "mlp-digits": "cross_entropy(prediction, labels)",
    "gpt2-tiny": "cross_entropy(prediction, labels)",
    "resnet18-cifar-w8": "cross_entropy(prediction, labels)",
}


@pytest.mark.parametrize("graph", ["loss.onnx", "model.onnx"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", STEPS)
def test_fp32_matches_pytorch(name, optimizer, graph, tmp_path):
    model = Model(name, tmp_path)
    more = [] if graph == "loss.onnx" else ["--loss", LOSS[name]]
    run = model.train("fp32", optimizer, *more, graph=graph)
    recorded, steps = model.recorded, model.steps

    single = recorded[f"loss.{optimizer}"][:steps]
    double = recorded[f"loss.{optimizer}.fp64"][:steps]
    allowed = max(
        8 * np.abs(single - double).max(), 64 * np.spacing(np.float32(single.max()))
    )
    close(run.column("loss"), single, allowed)
    assert not run.column("skipped").any()

    exact = {
        key.removeprefix("grad_fp64."): recorded[key]
        for key in recorded.files
        if key.startswith("grad_fp64.")
    }
    assert exact.keys() == run.gradients.keys()
    largest = max(np.abs(gradient).max() for gradient in exact.values())
    for parameter, expected in exact.items():
        single = recorded[f"grad.{parameter}"]
        allowed = max(8 * np.abs(single - expected).max(), 1e-6 * largest)
        close(run.gradients[parameter], expected, allowed)

    assert run.final["step"] == steps
    prefix, compared = f"{optimizer}.step{steps}.", 0
    for key in recorded.files:
        if key.startswith(prefix) and ".check." not in key:
            compared += 1
            close(run.final[key.removeprefix(prefix)], recorded[key], 2e-3)
    assert compared or optimizer == "sgd" or steps != 10


def check_first_gradients(run, wide, expected):
    """Compares the norm of each gradient, within twice the narrow format's change in PyTorch."""
    norms = {
        parameter: (of_wide["norm"], expected["step1_gradients"][parameter]["norm"])
        for parameter, of_wide in wide["step1_gradients"].items()
    }
    finite = {p: pair for p, pair in norms.items() if pair[1] is not None}
    # A gradient that is mathematically zero is only noise.
    largest = max(single for single, _ in norms.values())
    changes = [
        abs(narrow / single - 1)
        for single, narrow in finite.values()
        if single > 1e-6 * largest
    ]
    for parameter, (_, narrow) in finite.items():
        norm = np.linalg.norm(run.gradients[parameter].astype(np.float64))
        close(norm, narrow, 2 * max(changes) * narrow + 1e-6 * largest)
    for parameter in norms.keys() - finite.keys():
        assert not np.isfinite(run.gradients[parameter]).all(), parameter


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("policy", ["bf16-amp", "fp16-amp"])
@pytest.mark.parametrize("name", STEPS)
def test_16_bit_policies_match_pytorch(name, policy, optimizer, tmp_path):
    model = Model(name, tmp_path)
    run = model.train(policy, optimizer)
    wide, expected = (model.autocast[p][optimizer] for p in ("fp32", policy))
    for column in ("loss", "grad_norm"):
        # A norm that is not finite is None in both runs; it becomes NaN here.
        single = np.array(wide[column][: model.steps], float)
        narrow = np.array(expected[column][: model.steps], float)
        change = np.abs(narrow - single)
        # Twice the change that the narrow format causes in PyTorch.
        allowed = 2 * np.max(change, where=np.isfinite(change), initial=0)
        close(run.column(column), narrow, allowed)
    assert list(run.column("skipped")) == expected["skipped"][: model.steps]
    if policy == "fp16-amp":
        scales = expected["loss_scale"][: model.steps]
        assert list(run.column("loss_scale")) == scales
    else:
        assert run.metrics[0]["loss_scale"] is None

    check_first_gradients(run, wide, expected)


@pytest.mark.parametrize("name", STEPS)
def test_first_gradients_of_torch_cpu_bf16(name, tmp_path):
    """Compares only the first gradients, before chaotic divergence."""
    model = Model(name, tmp_path)
    run = model.train("torch-cpu-bf16", "sgd")
    wide, expected = (model.autocast[p]["sgd"] for p in ("fp32", "bf16-amp"))
    check_first_gradients(run, wide, expected)


def test_loss_scale_follows_grad_scaler(tmp_path):
    """A scale that doubles after every good step overflows and backs off."""
    model = Model("mlp-digits", tmp_path)
    policy = tmp_path / "growing.yaml"
    shipped = (ROOT / "lib/Precision/Policies/fp16-amp.yaml").read_text()
    policy.write_text(shipped.replace("interval: 2000", "interval: 1"))
    assert policy.read_text() != shipped
    run = model.train(policy, "adamw")
    expected = model.autocast["fp16-amp-growing"]["adamw"]
    assert list(run.column("loss_scale")) == expected["loss_scale"]
    assert list(run.column("skipped")) == expected["skipped"]
    assert run.final["step"] == expected["skipped"].count(False)
    for found, norm in zip(run.column("grad_norm"), expected["grad_norm"]):
        assert np.isnan(found) == (norm is None)


def test_continuing_from_a_final_state_gives_the_same_bits(tmp_path):
    """10 steps equal 4 and 6 steps, where the second run starts from the first's state."""
    model = Model("mlp-digits", tmp_path)
    whole = model.train("fp16-amp", "adamw")
    model.steps = 4
    model.train("fp16-amp", "adamw")
    shutil.copy(tmp_path / "run" / "final.safetensors", tmp_path / "half.safetensors")
    rest = safetensors.load(model.data)
    safetensors.save(
        model.data, {name: a[4 * len(a) // 10 :] for name, a in rest.items()}
    )
    model.steps = 6
    second = model.train("fp16-amp", "adamw", "--init", tmp_path / "half.safetensors")
    assert second.final.keys() == whole.final.keys()
    for name, expected in whole.final.items():
        np.testing.assert_array_equal(second.final[name], expected, err_msg=name)
