"""Compares runs that start from given weights, or train only some, with PyTorch."""

import json

import ml_dtypes
import numpy as np
import pytest
from support.reference import binade, safetensors

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript", reason="PyTorch's exporter needs onnxscript")

from binade import export
from support import export_models as models

STEPS = 4


class Files:
    def __init__(self, folder):
        torch.manual_seed(3)
        self.net = models.MLP()
        draw = np.random.default_rng(0)
        x = draw.standard_normal((5 * STEPS, 6), np.float32)
        self.data = {"x": x, "labels": draw.integers(0, 3, len(x))}
        self.path = folder / "data.safetensors"
        safetensors.save(self.path, self.data)
        self.model = folder / "net.onnx"
        export.export_onnx(
            self.net, models.vectors(), self.model, loss=models.cross_entropy
        )

    def train(self, out, *more, status=0, policy="fp32"):
        process = binade(
            "train", self.model, "--data", self.path, "--order", "sequential",
            "--optimizer", "adamw", "--lr", 0.05, "--policy", policy,
            "--steps", STEPS, "--out", out, *more,
        )  # fmt: skip
        assert process.returncode == status, process.stderr
        return process

    def train_with_pytorch(self, values, frozen=()):
        """Trains from the parameters `values`; returns the final ones."""
        net = models.MLP()
        state = {k: torch.tensor(np.asarray(v, np.float32)) for k, v in values.items()}
        net.load_state_dict(state)
        for name, parameter in net.named_parameters():
            parameter.requires_grad = name not in frozen
        trained = [p for p in net.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(trained, lr=0.05)
        batches = zip(
            torch.tensor(self.data["x"]).split(5),
            torch.tensor(self.data["labels"]).split(5),
        )
        for x, labels in batches:
            optimizer.zero_grad()
            models.cross_entropy(net(x), labels).backward()
            optimizer.step()
        return {name: p.detach().numpy() for name, p in net.named_parameters()}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return Files(tmp_path_factory.mktemp("start"))


def draw_weights(net, dtype):
    random = np.random.default_rng(5)
    return {
        name: (0.5 * random.standard_normal(tuple(p.shape))).astype(dtype)
        for name, p in net.named_parameters()
    }


def check_state(run, expected, **tolerance):
    final = safetensors.load(run / "final.safetensors")
    for name, value in expected.items():
        np.testing.assert_allclose(final[name], value, err_msg=name, **tolerance)
    return final


@pytest.mark.parametrize(
    "dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16]
)
def test_runs_start_from_weights_of_any_format(dtype, files, tmp_path):
    values = draw_weights(files.net, dtype)
    safetensors.save(tmp_path / "weights.safetensors", values)
    process = files.train(tmp_path / "run", "--init", tmp_path / "weights.safetensors")
    assert f"start: {len(values)} tensors of {tmp_path}" in process.stdout
    assert "warning" not in process.stderr
    expected = files.train_with_pytorch(values)
    check_state(tmp_path / "run", expected, rtol=2e-4, atol=2e-6)


def test_wide_weights_are_rounded_to_narrow_parameters(files, tmp_path):
    """f32 master weights keep their full precision."""
    policy = tmp_path / "narrow.yaml"
    policy.write_text(
        "name: narrow\nextends: bf16\nrules:\n"
        "  - {match: {}, parameter: bf16, master: f32, state: f32}\n"
    )
    values = draw_weights(files.net, np.float64)
    safetensors.save(tmp_path / "weights.safetensors", values)
    files.train(
        tmp_path / "run", "--init", tmp_path / "weights.safetensors",
        "--schedule", "lr=0", policy=policy,
    )  # fmt: skip
    final = safetensors.load(tmp_path / "run" / "final.safetensors")
    for name, value in values.items():
        wide = value.astype(np.float32)
        np.testing.assert_array_equal(final[f"state/master/{name}"], wide)
        np.testing.assert_array_equal(final[name], wide.astype(ml_dtypes.bfloat16))


def test_missing_and_additional_tensors_of_a_file_are_listed(files, tmp_path):
    values = draw_weights(files.net, np.float32)
    del values["out.bias"]
    values["elsewhere"] = np.zeros(4, np.float32)
    safetensors.save(tmp_path / "weights.safetensors", values)
    process = files.train(
        tmp_path / "run",
        *("--init", tmp_path / "weights.safetensors", "--init-partial"),
    )
    lines = [line for line in process.stderr.splitlines() if "warning" in line]
    assert len(lines) == 2
    assert (
        "1 tensors keep their initial values" in lines[0] and "'out.bias'" in lines[0]
    )
    assert "1 tensors of the file are ignored" in lines[1] and "'elsewhere'" in lines[1]
    values["out.bias"] = np.zeros(3, np.float32)  # The value in the model.
    del values["elsewhere"]
    expected = files.train_with_pytorch(values)
    check_state(tmp_path / "run", expected, rtol=2e-4, atol=2e-6)


def ledger(run):
    return json.loads((run / "run.json").read_text())["ledger"]


def test_frozen_parameters_do_not_change(files, tmp_path):
    """They need no gradients or states. --init sets them like the others."""
    values = draw_weights(files.net, np.float32)
    weights = tmp_path / "weights.safetensors"
    safetensors.save(weights, values)
    files.train(tmp_path / "all", "--init", weights)
    frozen = ["fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"]
    process = files.train(tmp_path / "run", "--init", weights, "--freeze", "fc[12].*")
    assert "warning" not in process.stderr
    expected = files.train_with_pytorch(values, frozen)
    final = check_state(tmp_path / "run", expected, rtol=2e-4, atol=2e-6)
    for name in frozen:
        np.testing.assert_array_equal(final[name], values[name])
    count = sum(values[name].size for name in frozen)
    before, after = ledger(tmp_path / "all"), ledger(tmp_path / "run")
    assert before["state"] - after["state"] == 2 * 4 * count
    assert before["parameter"] - after["parameter"] == 4 * count
    assert after["buffer"] - before.get("buffer", 0) == 4 * count
    assert {n for n in final if n.startswith("state/")}.isdisjoint(
        f"state/{state}/{name}"
        for name in frozen
        for state in ("exp_avg", "exp_avg_sq")
    )


def test_the_exporter_freezes_parameters_without_gradient(files, tmp_path):
    torch.manual_seed(3)
    net = models.MLP()
    net.fc1.weight.requires_grad = False
    export.export_onnx(
        net, models.vectors(), tmp_path / "net.onnx", loss=models.cross_entropy
    )
    process = binade(
        "train", tmp_path / "net.onnx", "--data", files.path, "--order", "sequential",
        "--optimizer", "adamw", "--lr", 0.05, "--steps", STEPS, "--out",
        tmp_path / "run",
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    values = {name: p.detach().numpy() for name, p in net.named_parameters()}
    expected = files.train_with_pytorch(values, ["fc1.weight"])
    final = check_state(tmp_path / "run", expected, rtol=2e-4, atol=2e-6)
    np.testing.assert_array_equal(final["fc1.weight"], values["fc1.weight"])
