"""Dynamic and static loss scaling, from the policy to the kernel.

Scales are compared with recorded traces of GradScaler, Keras, Apex and DeepSpeed
(data/golden). A step overflows because its batch contains an infinity.
"""

import json

import numpy as np
import pytest
from support.paths import ROOT
from support.reference import ONE_WEIGHT, binade, evaluate_op, safetensors, write_model

pytest.importorskip("onnx")

F32 = np.float32
GOLDEN = json.loads((ROOT / "test/data/golden/loss_scale.json").read_text())["cases"]
OVERFLOWS = GOLDEN["overflow_steps"]
STEPS = len(GOLDEN["torch_growth_interval_3"])
TORCH = [(s["scale"], s["tracker"]) for s in GOLDEN["torch_growth_interval_3"]]
# name: the policy's setting, and (scale, counter) after each step.
RULES = {
    "torch": ("interval: 3", TORCH),
    "keras": ("init: 32768, interval: 3", GOLDEN["keras_growth_3"]),
    "apex": ("interval: 3, max: 16777216", GOLDEN["apex_window_3"]),
    "deepspeed": (
        "interval: 3, delay: 1, hysteresis: 2, min: 1",
        GOLDEN["deepspeed_window_3_shift_2"],
    ),
}


def attributes(interval=3, **more):
    text = "growth = 2.0 : f64, backoff = 0.5 : f64, "
    text += f"interval = {interval} : i64"
    for key, value in more.items():
        kind = "f64" if key in ("min", "max") else "i64"
        text += f", {key} = {value} : {kind}" if value is not True else f", {key}"
    return text


def update(state, overflows, text):
    values = [F32(state[0]), *map(np.int64, state[1:])]
    operands = [*values[:2], np.bool_(overflows), *values[2:]]
    types = [((), F32), *[((), np.int64)] * (len(state) - 1)]
    return tuple(evaluate_op("update_scale", operands, types, text))


class DeepSpeed:
    """The algorithm of DynamicLossScaler in deepspeed/runtime/fp16/loss_scaler.py."""

    def __init__(self, window, shift, consecutive, minimum):
        self.scale, self.step, self.last = F32(65536), 0, -1
        self.window, self.shift, self.left = window, shift, shift
        self.consecutive, self.minimum = consecutive, minimum

    def update(self, overflows):
        if overflows:
            if self.shift == 1 or self.left == 1:
                self.scale = max(self.scale * F32(0.5), F32(self.minimum))
            else:
                self.left -= 1
            self.last = self.step
        else:
            if self.consecutive:
                self.left = self.shift
            stable = self.step - self.last - 1
            if stable > 0 and stable % self.window == 0:
                if not self.consecutive:
                    self.left = self.shift
                self.scale *= F32(2)
        self.step += 1


@pytest.mark.parametrize("consecutive", [False, True])
@pytest.mark.parametrize(
    "window, shift, share", [(3, 2, 0.3), (1, 3, 0.5), (5, 4, 0.6)]
)
def test_hysteresis_matches_deepspeed(window, shift, share, consecutive):
    expected = DeepSpeed(window, shift, consecutive, minimum=16)
    text = attributes(window, delay=1, hysteresis=shift, min=16.0)
    text += ", consecutive_hysteresis" if consecutive else ""
    state, random = (65536, -1, shift), np.random.default_rng(window)
    for step in range(60):
        overflows = random.random() < share
        state = update(state, overflows, text)
        expected.update(overflows)
        assert (state[0], state[2]) == (expected.scale, expected.left), step


def test_the_scale_matches_pytorch_bit_for_bit():
    torch = pytest.importorskip("torch")
    scale, tracker = torch.tensor([12345.678]), torch.tensor([0], dtype=torch.int32)
    state, random = (scale.item(), 0), np.random.default_rng(5)
    text = "growth = 1.7 : f64, backoff = 0.3 : f64, interval = 2 : i64"
    for step in range(80):
        overflows = random.random() < 0.3
        torch._amp_update_scale_(
            scale, tracker, torch.tensor([float(overflows)]), 1.7, 0.3, 2
        )
        state = update(state, overflows, text)
        assert state == (F32(scale.item()), tracker.item()), step


def test_minimum_and_maximum_of_the_scale():
    text = attributes(1, min=0.25, max=1.0)
    assert update((0.5, 0), False, text) == (1, 0)
    assert update((1, 0), False, text) == (1, 0)
    assert update((0.3, 0), True, text) == (0.25, 0)
    # Without a minimum the scale falls below 1.
    assert update((1, 0), True, attributes(1)) == (0.5, 0)


#
# Compiled steps, with a scale that a policy defines.
#


def train(
    tmp_path, scaling, steps, *more, narrow="f16", x=None, overflows=(), end="}}",
    optimizer="sgd",
):  # fmt: skip
    # f16 ends at 65504.
    model = write_model(tmp_path, ONE_WEIGHT, ["weight"], np.linspace(-1, 1, 16))
    if x is None:
        x = np.full((2 * steps, 4), 2.0**-12, F32)
        for step in overflows:
            x[2 * step] = np.inf
    safetensors.save(tmp_path / "data.safetensors", {"x": x})
    policy = tmp_path / "scaled.yaml"
    text = f"{{name: p, narrow: {narrow}, wide: f32"
    policy.write_text(text + (f", loss_scale: {{{scaling}{end}" if scaling else "}"))
    process = binade(
        "train", model, "--data", tmp_path / "data.safetensors",
        "--order", "sequential", "--steps", steps, "--policy", policy,
        "--optimizer", optimizer, "--lr", 0.5, "--out", tmp_path / "run", "--overwrite", *more,
    )  # fmt: skip
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    final = tmp_path / "run" / "final.safetensors"
    return process, [json.loads(line) for line in lines], safetensors.load(final)


@pytest.mark.parametrize("rule", RULES)
def test_a_run_follows_the_recorded_trace(rule, tmp_path):
    setting, trace = RULES[rule]
    process, metrics, final = train(tmp_path, setting, STEPS, overflows=OVERFLOWS)
    assert process.returncode == 0, process.stderr
    assert [m["step"] - 1 for m in metrics if m["skipped"]] == OVERFLOWS
    scales = [scale for scale, _ in trace]
    assert [m["loss_scale"] for m in metrics[1:]] == scales[:-1]
    assert final["scaler/scale"] == scales[-1]
    counter = "hysteresis" if rule == "deepspeed" else "growth"
    assert final[f"scaler/{counter}"] == trace[-1][1]
    assert final["step"] == STEPS - len(OVERFLOWS)


@pytest.mark.parametrize("rule", RULES)
def test_the_reference_follows_the_recorded_trace(rule):
    setting, trace = RULES[rule]
    pairs = dict(pair.split(": ") for pair in setting.split(", "))
    init = float(pairs.pop("init", 65536))
    more = {k: float(v) if k in ("min", "max") else v for k, v in pairs.items()}
    state = (init, -int(pairs.get("delay", 0)))
    state += (int(pairs["hysteresis"]),) if "hysteresis" in pairs else ()
    for step, expected in enumerate(trace):
        state = update(state, step in OVERFLOWS, attributes(**more))
        assert (state[0], state[-1]) == tuple(expected), step


@pytest.mark.parametrize("batches", [1, 2])
def test_the_scale_follows_its_trace_with_shrink(batches, tmp_path):
    """With `--on-nonfinite shrink`, steps that overflow are not skipped. With two batches
    per step, the first one overflows."""
    setting, trace = RULES["torch"]
    x = np.full((2 * batches * STEPS, 4), 2.0**-12, F32)
    for step in OVERFLOWS:
        x[2 * batches * step] = np.inf
    several = ["--accumulate", batches, "--accumulate-in-momentum"]
    process, metrics, final = train(
        tmp_path, setting, STEPS, "--on-nonfinite", "shrink",
        *(several if batches > 1 else []), x=x, optimizer="tiger",
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    assert not any(m["skipped"] for m in metrics)
    scales = [scale for scale, _ in trace]
    assert [m["loss_scale"] for m in metrics[1:]] == scales[:-1]
    assert final["scaler/scale"] == scales[-1]
    assert final["step"] == STEPS and np.isfinite(final["weight"]).all()


def test_a_dynamic_scale_rejects_on_nonfinite_continue(tmp_path):
    model = write_model(tmp_path, ONE_WEIGHT, ["weight"], np.linspace(-1, 1, 16))
    safetensors.save(tmp_path / "data.safetensors", {"x": np.ones((2, 4), F32)})
    process = binade(
        "train", model, "--data", tmp_path / "data.safetensors", "--steps", 1,
        "--policy", "fp16-amp", "--on-nonfinite", "continue", "--out", tmp_path / "run",
    )  # fmt: skip
    assert process.returncode == 3
    assert "use 'skip', or a policy with a static scale" in process.stderr


@pytest.mark.parametrize("scale", [1024, 2.0**-20])
def test_a_static_scale_changes_no_bit_of_f32(scale, tmp_path):
    x = np.random.default_rng(3).standard_normal((12, 4), F32)
    finals = []
    for name, scaling in (("plain", ""), ("scaled", f"static: {scale}")):
        (tmp_path / name).mkdir()
        process, metrics, final = train(tmp_path / name, scaling, 6, narrow="f32", x=x)
        assert process.returncode == 0, process.stderr
        assert metrics[-1]["loss_scale"] == (scale if scaling else None)
        finals.append((final, [m["loss"] for m in metrics]))
    (plain, losses), (scaled, scaled_losses) = finals
    assert plain.keys() == scaled.keys() and losses == scaled_losses
    for name, value in plain.items():
        np.testing.assert_array_equal(value, scaled[name])


def test_a_static_scale_skips_nothing(tmp_path):
    """A gradient that is not finite stops the run, or is applied with `continue`."""
    process, metrics, _ = train(tmp_path, "static: 8", 3, overflows=[1])
    assert process.returncode == 4, process.stderr
    assert "step 2: error: the gradients are not finite" in process.stderr
    process, metrics, final = train(
        tmp_path, "static: 8", 3, "--on-nonfinite", "continue", overflows=[1]
    )
    assert process.returncode == 4, process.stderr  # Its weights are NaN.
    assert (
        "final.safetensors, after step 3: 1 parameter is not finite" in process.stderr
    )
    assert not any(m["skipped"] for m in metrics)
    assert np.isnan(final["weight"]).all()


#
# A run that skips every step is stopped.
#


def test_too_many_skipped_steps_stop_the_run(tmp_path):
    """From the fourth step on, the matmul of every batch overflows f16 with any scale."""
    x = np.full((120, 4), 2.0, F32)
    x[6:] = 60000
    process, metrics, final = train(tmp_path, "init: 1024", 60, x=x)
    assert process.returncode == 4, process.stderr
    assert [m["skipped"] for m in metrics] == [False] * 3 + [True] * 50
    text = process.stderr
    assert "step 53: error: 50 steps in a row were skipped" in text
    assert f"the last one had a loss scale of {1024 * 0.5**49:g}" in text
    hidden = x[-2:].astype(np.float64) @ final["weight"].astype(np.float64)
    infinite = np.abs(hidden) >= 65520
    assert f"{infinite.sum()} of 8 elements in F16, computed by" in text
    assert "hidden" in text and "its operands reach 60000" in text
    # The rule that the message proposes fixes the run.
    advice = "this policy rule keeps it wide: - "
    [found] = [line.split(advice)[1] for line in text.splitlines() if advice in line]
    rule = found.partition("; add one for")[0]
    line = f"init: 1024}}, rules: [{rule}"
    process, metrics, _ = train(tmp_path, line, 4, x=x, end="]}")
    assert process.returncode == 0, process.stderr
    assert not any(m["skipped"] for m in metrics)


def test_the_limit_of_skipped_steps_is_a_setting(tmp_path):
    overflows = [1, 2, 4, 5, 6]
    process, metrics, _ = train(
        tmp_path, "interval: 3", 8, "--max-skipped", 3, overflows=overflows
    )
    assert process.returncode == 4 and len(metrics) == 7, process.stderr
    process, metrics, _ = train(
        tmp_path, "interval: 3", 8, "--max-skipped", 0, overflows=overflows
    )
    assert process.returncode == 0 and len(metrics) == 8, process.stderr


def test_a_diverged_run_names_the_learning_rate(tmp_path):
    x = np.full((240, 4), 2.0, F32)
    process, metrics, _ = train(
        tmp_path, "init: 1024", 120, "--on-nonfinite", "skip", x=x
    )
    assert process.returncode == 4, process.stderr
    applied = [
        (m["loss"], m["step"])
        for m in metrics
        if not m["skipped"] and m["loss"] is not None
    ]
    (low, first), (high, last) = min(applied), applied[-1]
    assert high > 2 * low
    assert (
        f"note: the training diverged before: the loss rose from {low:f} at step {first} to "
        f"{high:f} at step {last}; a smaller --lr, a --warmup or a --clip may help"
    ) in process.stderr
