"""``decay="matrices"`` equals PyTorch's AdamW with a group for biases and norms."""

import copy

import numpy as np
import pytest
from support.reference import binade as command

torch = pytest.importorskip("torch")

import binade  # noqa: E402
import binade.torch  # noqa: E402
from binade.errors import RejectedError  # noqa: E402

DECAY, STEPS = 0.5, 4
GRAPH = """
<ir_version: 9, opset_import: ["" : 20]>
g (float[4, 2] x, int64[4] labels) => (float loss)
  <float[2, 3] weight = {0.5, -1.0, 0.25, 2.0, 0.125, -0.75},
   float[3] bias = {0.5, 0.25, -0.5}> {
  h = MatMul(x, weight)
  y = Add(h, bias)
  loss = SoftmaxCrossEntropyLoss(y, labels)
}
"""


def make():
    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Conv1d(2, 3, 3, padding=1), torch.nn.Flatten(), torch.nn.Linear(12, 8),
        torch.nn.LayerNorm(8), torch.nn.GELU(), torch.nn.Linear(8, 1),
    )  # fmt: skip
    batch = {"input": torch.randn(6, 2, 4), "target": torch.randn(6, 1)}
    return module, batch


def train_with_pytorch(module, batch, decays):
    """Trains a copy with AdamW; `decays` gives the decay of a parameter by its name."""
    module = copy.deepcopy(module)
    groups = [
        {"params": [parameter], "weight_decay": decays(name, parameter)}
        for name, parameter in module.named_parameters()
    ]
    optimizer = torch.optim.AdamW(groups, lr=0.1)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(module(batch["input"]), batch["target"])
        loss.backward()
        optimizer.step()
    return {name: p.detach().numpy() for name, p in module.named_parameters()}


# Options of capture, and the decay of a parameter in PyTorch.
KINDS = {
    "all": ({}, lambda name, p: DECAY),
    "matrices": ({"decay": "matrices"}, lambda name, p: DECAY * (p.ndim >= 2)),
    "a group with a decay": (
        {"decay": "matrices", "groups": {"3.*": {"weight_decay": 0.25}}},
        lambda name, p: 0.25 if name.startswith("3.") else DECAY * (p.ndim >= 2),
    ),
    "a group without one": (
        {"decay": "matrices", "groups": {"2.*": {"eps": 1e-8, "beta1": 0.9}}},
        lambda name, p: DECAY * (p.ndim >= 2),
    ),
    # The last group that matches wins, and it sets no decay.
    "two groups": (
        {"decay": "matrices",
         "groups": {"*.bias": {"weight_decay": 0.25}, "2.bias": {"lr": 0.1}}},
        lambda name, p: (0.25 if name.endswith("bias") and name != "2.bias"
                         else DECAY * (p.ndim >= 2)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_equal_those_of_pytorch(kind):
    options, decays = KINDS[kind]
    module, batch = make()
    step = binade.torch.capture(
        module, torch.nn.MSELoss(), batch, optimizer="adamw",
        settings={"lr": 0.1, "weight_decay": DECAY}, **options,
    )  # fmt: skip
    for _ in range(STEPS):
        step(batch)
    expected = train_with_pytorch(module, batch, decays)
    assert step.parameters.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(
            step.parameters[name], value, rtol=2e-4, atol=2e-5, err_msg=name
        )
    other = train_with_pytorch(module, batch, lambda name, p: 0.4 - decays(name, p))
    assert max(np.abs(other[name] - expected[name]).max() for name in other) > 1e-3


def test_only_all_and_matrices_are_accepted():
    module, batch = make()
    with pytest.raises(RejectedError, match="must be all or matrices, got 'norms'"):
        binade.torch.capture(module, torch.nn.MSELoss(), batch, decay="norms")


def test_a_bundle_keeps_the_choice(tmp_path):
    onnx = pytest.importorskip("onnx")
    onnx.save(onnx.parser.parse_model(GRAPH), tmp_path / "model.onnx")
    process = command(
        "compile", tmp_path / "model.onnx", "--loss-output", "loss", "--train", "*",
        "--decay", "matrices", "-o", tmp_path / "step.bnd",
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    process = command("inspect", tmp_path / "step.bnd", "--set", "weight_decay=0.25")
    assert process.stdout.splitlines()[1].endswith(
        "weight_decay=0.25; group 1: weight_decay=0"
    )
    process = command("inspect", tmp_path / "step.bnd", "--decay", "all")
    assert process.returncode == 2 and "--decay belongs to phase" in process.stderr
    process = command("compile", tmp_path / "model.onnx", "--decay", "matrix")
    assert process.returncode == 2 and "matrices" in process.stderr
