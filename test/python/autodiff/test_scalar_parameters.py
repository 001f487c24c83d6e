"""Trains parameters of rank 0, such as a scale or a shift, and compares with PyTorch.

The optimizer updates all parameters in one multi-tensor launch. Other scalar operands of
such a launch, such as the learning rate, are shared by all its tensors.
"""

import json

import numpy as np
import pytest
from support.reference import binade, safetensors

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")

STEPS = 5
GRAPH = """
<ir_version: 10, opset_import: ["" : 18]>
g (float[16, 4] x, float[16, 3] y) => (float loss)
  <float[4, 3] weight = {{{weight}}}, float scale = {{0.5}}, float shift = {{-0.25}}> {{
  product = MatMul(x, weight)
  scaled = Mul(product, scale)
  shifted = Add(scaled, shift)
  wrong = Sub(shifted, y)
  squares = Mul(wrong, wrong)
  loss = ReduceMean <keepdims = 0> (squares)
}}
"""
WEIGHT = np.random.default_rng(1).standard_normal((4, 3), np.float32)


def make_data():
    random = np.random.default_rng(2)
    return {
        name: random.standard_normal((16 * STEPS, size), np.float32)
        for name, size in (("x", 4), ("y", 3))
    }


def train_with_pytorch(trained, data, skipped):
    """Losses, gradient norms and final values. Skips the updates marked in `skipped`,
    whose gradients overflow."""
    values = {"weight": WEIGHT, "scale": 0.5, "shift": -0.25}
    values = {
        n: torch.tensor(v, dtype=torch.float32, requires_grad=n in trained)
        for n, v in values.items()
    }
    parameters = [values[name] for name in trained]
    optimizer = torch.optim.AdamW(parameters, lr=0.05, weight_decay=0.1)
    losses, norms = [], []
    batches = (torch.tensor(array).split(16) for array in data.values())
    for x, y, skips in zip(*batches, skipped, strict=True):
        optimizer.zero_grad()
        loss = (
            (x @ values["weight"] * values["scale"] + values["shift"] - y) ** 2
        ).mean()
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(parameters, 0.5).item())
        if not skips:
            optimizer.step()
        losses.append(loss.item())
    return losses, norms, {name: values[name].detach().numpy() for name in trained}


def save_model(trained, path):
    weight = ", ".join(repr(float(v)) for v in WEIGHT.flat)
    model = onnx.parser.parse_model(GRAPH.format(weight=weight))
    model.metadata_props.add(key="binade.trainable", value=json.dumps(trained))
    onnx.save(model, path)


@pytest.mark.parametrize(
    "trained",
    [
        ["scale"],
        ["scale", "shift"],
        ["weight", "scale"],
        ["weight", "scale", "shift"],
    ],
    ids="-".join,
)
@pytest.mark.parametrize("policy", ["fp32", "fp16-amp"])
def test_scalars_are_trained_like_tensors(trained, policy, tmp_path):
    save_model(trained, tmp_path / "model.onnx")
    data = make_data()
    safetensors.save(tmp_path / "data.safetensors", data)
    process = binade(
        "train", tmp_path / "model.onnx", "--data", tmp_path / "data.safetensors",
        "--order", "sequential", "--steps", STEPS, "--policy", policy,
        "--optimizer", "adamw", "--lr", 0.05, "--set", "weight_decay=0.1",
        "--clip", 0.5, "--out", tmp_path / "run",
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    metrics = [json.loads(line) for line in lines]
    final = safetensors.load(tmp_path / "run" / "final.safetensors")

    skipped = np.array([line["skipped"] for line in metrics], bool)
    assert not skipped[-2:].any() and (policy == "fp16-amp" or not skipped.any())
    losses, norms, expected = train_with_pytorch(trained, data, skipped)
    allowed = {"fp32": 1e-5, "fp16-amp": 5e-3}[policy]
    np.testing.assert_allclose([line["loss"] for line in metrics], losses, rtol=allowed)
    found = np.array([line["grad_norm"] for line in metrics], float)
    np.testing.assert_allclose(found[~skipped], np.array(norms)[~skipped], rtol=allowed)
    for name, value in expected.items():
        assert final[name].shape == value.shape
        np.testing.assert_allclose(final[name], value, atol=allowed, err_msg=name)


def test_scalars_are_updated_in_place(tmp_path):
    save_model(["weight", "scale"], tmp_path / "model.onnx")
    process = binade(
        "compile", tmp_path / "model.onnx", "--optimizer", "adamw", "--to", "plan",
        "-o", tmp_path / "plan.json",
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    records = json.loads((tmp_path / "plan.json").read_text())["records"]
    assert [r["label"] for r in records if r["kind"] == "copy"] == []
