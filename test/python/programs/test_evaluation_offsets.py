"""Evaluation, exported models and loaded weights are averages if the optimizer has some, here
schedule-free AdamW, compared with the published formulas on a linear model."""

import json
import re

import numpy as np
import onnx
import pytest
from binade import trained
from support.linear_step import INPUTS, OUTPUTS, make_model
from support.reference import BF16, binade, safetensors
from support.schedule_free import Published

F32 = np.float32
BATCH, STEPS, HELD_OUT = 4, 5, 8
HYPERS = {"lr": 0.05, "beta1": 0.8, "beta2": 0.9, "eps": 1e-8, "weight_decay": 0.1,
          "warmup_steps": 3, "r": 0.5, "weight_lr_power": 2}  # fmt: skip
MASTERS = ["f32", "split_round", "split_8bit", "kahan", "residual"]


class Files:
    """A linear model, and data with noise."""

    def __init__(self, folder):
        generator = np.random.default_rng(8)
        draw = lambda *shape: generator.standard_normal(shape, F32)
        self.weight, self.bias = draw(INPUTS, OUTPUTS), draw(OUTPUTS)
        self.x = draw(BATCH * STEPS, INPUTS)
        self.target = self.x @ draw(INPUTS, OUTPUTS) + draw(BATCH * STEPS, OUTPUTS)
        self.held = draw(HELD_OUT, INPUTS), draw(HELD_OUT, OUTPUTS)
        self.model, self.data, self.held_out = (
            folder / name for name in ("m.onnx", "d.safetensors", "h.safetensors"))  # fmt: skip
        onnx.save(make_model(self.weight, self.bias), self.model)
        safetensors.save(self.data, {"x": self.x, "target": self.target})
        safetensors.save(self.held_out, dict(zip(("x", "target"), self.held)))

    def train(self, out, *more, optimizer="schedule_free_adamw", steps=STEPS):
        settings = HYPERS if optimizer.startswith("schedule") else {}
        process = binade(
            "train", self.model, "--loss", "mse(y, target)", "--train", "*", "--data",
            self.data, "--order", "sequential", "--eval-data", self.held_out,
            "--eval-every", 1, "--optimizer", optimizer, "--steps", steps, "--out", out,
            *[word for k, v in settings.items() for word in ("--set", f"{k}={v}")], *more,
        )  # fmt: skip
        assert process.returncode == 0, process.stderr
        return out

    def measure(self, weight, bias):
        x, target = self.held
        return np.mean((x @ weight + bias - target) ** 2)


def follow(files):
    """Yields both parameters after each step by the published formulas."""
    w, b = (Published(p, *HYPERS.values()) for p in (files.weight, files.bias))
    for step in range(STEPS):
        part = slice(step * BATCH, (step + 1) * BATCH)
        x, target = files.x[part].astype(float), files.target[part]
        error = 2 / target.size * (x @ w.y + b.y - target)
        w.step(x.T @ error)
        b.step(error.sum(0))
        yield w, b


def read_averages(run):
    state = safetensors.load(run / "final.safetensors")
    offsets = {name: state[f"state/evaluation_offset/{name}"] for name in "wb"}
    return {name: state[name] for name in "wb"}, offsets


def test_losses_and_weights_are_those_of_averages(tmp_path):
    files = Files(tmp_path)
    run = files.train(tmp_path / "run")
    lines = (run / "metrics.jsonl").read_text().splitlines()
    losses = {entry["step"]: entry["eval_loss"] for entry in map(json.loads, lines)}
    for step, (w, b) in enumerate(follow(files), 1):
        assert losses[step] == pytest.approx(files.measure(w.x, b.x), rel=1e-5)
        if step > 1:  # The first average is the parameter.
            assert abs(losses[step] / files.measure(w.y, b.y) - 1) > 1e-4
    parameters, offsets = read_averages(run)
    loaded = trained.load_state(run)
    for name, published in zip("wb", (w, b)):
        np.testing.assert_allclose(parameters[name], published.y, 1e-5, 1e-6)
        np.testing.assert_allclose(loaded[name], published.x, 1e-5, 1e-6)
        np.testing.assert_array_equal(loaded[name], parameters[name] + offsets[name])
    raw = trained.load_state(run, evaluates=False)
    np.testing.assert_array_equal(raw["w"], parameters["w"])
    again = binade("evaluate", run, "--data", files.held_out)
    assert again.returncode == 0, again.stderr
    found = float(re.search(r"eval_loss\s+(\S+)", again.stdout)[1])
    assert found == pytest.approx(losses[STEPS], rel=1e-5)


def test_exported_models_have_averages(tmp_path):
    files = Files(tmp_path)
    run = files.train(tmp_path / "run")
    done = binade("export", run, "-o", tmp_path / "trained.onnx")
    assert done.returncode == 0, done.stderr
    loaded = trained.load_state(run)
    for tensor in onnx.load(tmp_path / "trained.onnx").graph.initializer:
        value = onnx.numpy_helper.to_array(tensor)
        np.testing.assert_array_equal(value, loaded[tensor.name])


def test_other_optimizers_continue_from_averages(tmp_path):
    files = Files(tmp_path)
    run = files.train(tmp_path / "run")
    final, averages = run / "final.safetensors", trained.load_state(run)
    other = files.train(
        tmp_path / "other", "--init", final, "--lr", 0, "--set", "weight_decay=0",
        optimizer="adamw", steps=1,
    )  # fmt: skip
    np.testing.assert_array_equal(trained.load_state(other)["w"], averages["w"])
    # The same optimizer continues with the bits of a longer run.
    same = files.train(tmp_path / "same", "--init", final, steps=1)
    assert not np.array_equal(trained.load_state(same)["w"], averages["w"])


@pytest.mark.parametrize("master", MASTERS)
def test_averages_of_16_bit_parameters(master, tmp_path):
    files = Files(tmp_path)
    policy = tmp_path / "kept.yaml"
    policy.write_text(
        "name: kept\nextends: fp32\nrules:\n- {match: {op: optimizer_update}, "
        f"parameter: bf16, master: {master}, state: dyn8}}\n"
    )
    run = files.train(tmp_path / "run", "--policy", policy)
    _, offsets = read_averages(run)
    assert offsets["w"].dtype == F32  # Not quantized.
    raw, loaded = trained.load_state(run, evaluates=False), trained.load_state(run)
    done = binade("export", run, "-o", tmp_path / "trained.onnx")
    assert done.returncode == 0, done.stderr
    for tensor in onnx.load(tmp_path / "trained.onnx").graph.initializer:
        value = onnx.numpy_helper.to_array(tensor)
        expected = raw[tensor.name].astype(F32) + offsets[tensor.name]
        np.testing.assert_array_equal(value, expected)
        np.testing.assert_array_equal(loaded[tensor.name], expected)
    text = (run / "metrics.jsonl").read_text().splitlines()[-1]
    weights = [loaded[name].astype(BF16).astype(F32) for name in "wb"]
    loss = json.loads(text)["eval_loss"]
    assert loss == pytest.approx(files.measure(*weights), rel=2e-2)
