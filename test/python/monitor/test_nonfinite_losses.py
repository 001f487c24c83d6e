"""A loss that is not finite is detected in each step, as such gradients are: with and
without a loss scale, in any batch of a step, for NaN and both infinities."""

import json

import numpy as np
import pytest
from support.reference import binade, safetensors

onnx = pytest.importorskip("onnx")

F32 = np.float32
# The gradient of `w` does not depend on `t`, so that only the loss becomes non-finite.
MODEL = """
<ir_version: 10, opset_import: ["" : 18]>
g (float[4, 8] x, float[4] t) => (float loss) <float[8, 2] w = {WEIGHT}> {
  [up] h = MatMul(x, w)
  [mean] m = ReduceMean <keepdims = 0> (h)
  [target] u = ReduceMean <keepdims = 0> (t)
  [sum] loss = Add(m, u)
}
"""
POLICIES = {
    "fp32": "{name: p, extends: fp32}",
    "bf16-amp": "{name: p, extends: bf16-amp}",
    "fp8-current": "{name: p, extends: fp8-current}",
    "dynamic": "{name: p, extends: fp16-amp}",
    "static": "{name: p, extends: fp16-amp, loss_scale: {static: 8}}",
}
VALUES = {"NaN": np.nan, "infinity": np.inf, "-infinity": -np.inf}
BATCH, STEPS = 4, 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("losses")
    weight = np.linspace(-1, 1, 16, dtype=F32)
    text = MODEL.replace("WEIGHT", ", ".join(str(x) for x in weight))
    model = onnx.parser.parse_model(text)
    model.metadata_props.add(key="binade.trainable", value='["w"]')
    onnx.save(model, folder / "model.onnx")
    for name, text in POLICIES.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder


def train(folder, out, policy, *more, t=None, x=None, steps=STEPS, lr=0.1):
    """Trains on twelve batches. `t` and `x` replace elements of the data."""
    random = np.random.default_rng(1)
    data = {"x": random.standard_normal((12 * BATCH, 8)).astype(F32),
            "t": np.zeros(12 * BATCH, F32)}  # fmt: skip
    for name, given in (("t", t), ("x", x)):
        for row, value in (given or {}).items():
            data[name][row] = value
    path = out.with_suffix(".safetensors")
    safetensors.save(path, data)
    return binade("train", folder / "model.onnx", "--data", path, "--order", "sequential",
                  "--optimizer", "sgd", "--lr", lr, "--steps", steps, "--policy",
                  folder / f"{policy}.yaml", "--out", out, *more)  # fmt: skip


def count_steps(out):
    return len((out / "metrics.jsonl").read_text().splitlines())


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("value", VALUES)
def test_a_run_stops_and_names_the_batch(value, policy, folder, tmp_path):
    """The third batch, with samples 8 to 11, contains the value."""
    out = tmp_path / "run"
    process = train(folder, out, policy, t={9: VALUES[value]})
    assert process.returncode == 4, process.stderr
    assert f"step 3: error: the loss is {value} in batch 3\n" in process.stderr
    assert "batch 3 has samples 8 to 11 of " in process.stderr
    assert count_steps(out) == 3
    # Its gradients are finite, so that the update of the step is finite, too.
    final = safetensors.load(out / "final.safetensors")
    assert final["step"] == 3 and np.isfinite(final["w"]).all()


@pytest.mark.parametrize("policy", ["fp32", "dynamic"])
@pytest.mark.parametrize("place", range(3))
def test_the_loss_of_each_batch_of_a_step_is_checked(place, policy, folder, tmp_path):
    """The second step reads batches 4 to 6."""
    batch = 4 + place
    out = tmp_path / "run"
    process = train(folder, out, policy, "--accumulate", 3,
                    t={BATCH * batch - 1: np.nan})  # fmt: skip
    assert process.returncode == 4, process.stderr
    assert f"step 2: error: the loss is NaN in batch {batch}\n" in process.stderr
    assert count_steps(out) == 2


@pytest.mark.parametrize("policy", ["fp32", "dynamic"])
def test_skip_warns_and_continues(policy, folder, tmp_path):
    out = tmp_path / "run"
    bad = {9: np.inf, 13: -np.inf}
    process = train(folder, out, policy, "--on-nonfinite", "skip", t=bad)
    assert process.returncode == 0, process.stderr
    # One warning for consecutive steps, and a summary at the end.
    assert process.stderr.count("the loss is ") == 1
    assert "step 3: the loss is infinity in batch 3; the step was applied" in (
        process.stderr
    )
    assert "the loss was not finite in 2 steps" in process.stderr
    assert count_steps(out) == STEPS


def test_continue_warns(folder, tmp_path):
    process = train(folder, tmp_path / "run", "fp32", "--on-nonfinite", "continue",
                    t={9: np.nan})  # fmt: skip
    assert process.returncode == 0, process.stderr
    assert "step 3: the loss is NaN in batch 3; the step was applied" in process.stderr


@pytest.mark.parametrize("options", [[], ["--on-nonfinite", "skip"]])
def test_a_skipped_step_names_its_loss(options, folder, tmp_path):
    """A step that the loss scale skips because of its gradients still reports its loss."""
    out = tmp_path / "run"
    process = train(folder, out, "dynamic", *options, x={9: np.inf})
    assert process.returncode == 0, process.stderr
    assert "step 3: the loss is NaN in batch 3; the step was skipped" in process.stderr
    lines = [json.loads(x) for x in (out / "metrics.jsonl").read_text().splitlines()]
    assert [line["skipped"] for line in lines] == [False, False, True, False]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_finite_run_has_no_warning(policy, folder, tmp_path):
    process = train(folder, tmp_path / "run", policy)
    assert process.returncode == 0 and "the loss" not in process.stderr


def test_samples_of_an_injected_file_are_named(folder, tmp_path):
    safetensors.save(tmp_path / "bad.safetensors",
                     {"x": np.ones((4, 8), F32), "t": np.full(4, np.inf, F32)})  # fmt: skip
    process = train(folder, tmp_path / "run", "dynamic", "--inject",
                    f"{tmp_path / 'bad.safetensors'}@2")  # fmt: skip
    assert process.returncode == 4
    assert "batch 2 has samples 0 to 3 of" in process.stderr
    assert "bad.safetensors" in process.stderr


@pytest.mark.parametrize("target", [0.0, 1.0])
def test_a_diverged_run_names_the_learning_rate(target, tmp_path):
    """Gradient descent with this rate multiplies the error by more than 10 in each step.
    Without an error, no loss rises, and the gradients of the third batch are not finite."""
    model = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["" : 18]>
        g (float[4, 8] x) => (float[4, 1] y) <float[8, 1] w = {0, 0, 0, 0, 0, 0, 0, 0}> {
          [up] y = MatMul(x, w)
        }""")
    model.metadata_props.add(key="binade.trainable", value='["w"]')
    onnx.save(model, tmp_path / "model.onnx")
    x = np.ones((48, 8), F32)
    x[9] = np.nan if target == 0 else 1
    data = {"x": x, "t": np.full((48, 1), target, F32)}
    safetensors.save(tmp_path / "data.safetensors", data)
    process = binade("train", tmp_path / "model.onnx", "--loss", "mse(y, t)", "--data",
                     tmp_path / "data.safetensors", "--order", "sequential", "--optimizer",
                     "sgd", "--lr", 1, "--steps", 100, "--out", tmp_path / "run")  # fmt: skip
    assert process.returncode == 4 and "gradients are not finite" in process.stderr
    advice = "a smaller --lr, a --warmup or a --clip may help\n"
    if target == 0:
        assert "note: " + advice in process.stderr
        assert "the training diverged" not in process.stderr
        return
    lines = (tmp_path / "run/metrics.jsonl").read_text().splitlines()
    losses = [m["loss"] for m in map(json.loads, lines) if not m["skipped"]]
    assert losses == sorted(losses)
    assert (
        f"note: the training diverged before: the loss rose from {losses[0]:f} at step 1 to "
    ) in process.stderr
    assert f" at step {len(losses)}; {advice}" in process.stderr


#
# Weights.
#


def test_a_run_that_ends_with_non_finite_weights_fails(folder, tmp_path):
    out = tmp_path / "run"
    process = train(folder, out, "fp32", "--on-nonfinite", "continue", "--save-every", 1,
                    "--keep", 1, x={(5, 0): np.nan})  # fmt: skip
    assert process.returncode == 4, process.stderr
    words = "1 parameter is not finite: 'w' (2 of 16 elements)"
    assert f"step 2: {words}" in process.stderr
    assert f"final.safetensors, after step 4: {words}" in process.stderr
    # The newest finite checkpoint is kept in addition.
    names = sorted(path.name for path in (out / "checkpoints").iterdir())
    assert names == ["step-000001", "step-000004"]
    verified = binade("ckpt", "verify", out)
    assert verified.returncode == 4
    assert "step-000004: error: 2 tensors are not finite: 'w'" in verified.stderr
    assert "step-000001: error" not in verified.stderr
    assert binade("ckpt", "verify", out / "checkpoints/step-000001").returncode == 0


def test_weights_that_overflow_in_the_last_step(folder, tmp_path):
    """The loss and the gradients of the step are finite."""
    process = train(folder, tmp_path / "run", "fp32",
                    x=dict.fromkeys(range(4), 100), steps=1, lr=3e38)  # fmt: skip
    assert process.returncode == 4
    assert "after step 1: 1 parameter is not finite: 'w'" in process.stderr
