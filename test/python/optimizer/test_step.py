"""Whole training steps, built by the passes and run by the reference.

The loss is the sum of parameter times batch, so that the batch is the gradient. Steps
follow results of PyTorch that are recorded for a sequence of gradients. Tests cover
settings, groups, clipping, loss scaling, skipped steps and the step count.
"""

import json
import subprocess

import numpy as np
import pytest
from support.golden import ULPS, from_bits
from support.optimizer_steps import GOLDEN, OPTIM, P0, SETTINGS, Step
from support.paths import BUILD
from support.reference import evaluate

OPT = BUILD / "bin" / "binade-opt"
F32 = np.float32


@pytest.mark.parametrize("name", SETTINGS)
def test_optimizers_follow_pytorch(name, tmp_path):
    """Tests a parameter of six elements, and one of the same elements in two rows."""
    optimizer, settings = SETTINGS[name]
    step = Step(tmp_path, f"optimizer={optimizer} settings={settings}")
    for number, record in enumerate(OPTIM["grads"]):
        g = from_bits(record)
        outputs = step(P0, P0.reshape(2, 3), g, g.reshape(2, 3))
        record = OPTIM[name][number]
        expected = from_bits(record.get("p", record))
        for value in (outputs["w"], outputs["v"].ravel()):
            np.testing.assert_array_max_ulp(value, expected, maxulp=ULPS.get(name, 1))
        assert outputs["step"] == number + 1
        norm = np.sqrt(2 * np.sum(g.astype(np.float64) ** 2))
        np.testing.assert_allclose(outputs["grad_norm"], norm, rtol=1e-6)


def test_groups_have_their_own_settings(tmp_path):
    step = Step(
        tmp_path, "optimizer=sgd settings=lr=0.5 group=v:lr=0.25;weight_decay=1"
    )
    g = from_bits(OPTIM["grads"][0])
    outputs = step(P0, P0.reshape(2, 3), g, g.reshape(2, 3))
    np.testing.assert_array_equal(outputs["w"], P0 - F32(0.5) * g)
    np.testing.assert_array_equal(outputs["v"].ravel(), P0 - F32(0.25) * (g + P0))


@pytest.mark.parametrize("scale, clips", [(1.0, False), (100.0, True)])
def test_clipping_by_the_global_norm(scale, clips, tmp_path):
    """Uses the factor of torch.nn.utils.clip_grad_norm_: min(1, limit / (norm + 1e-6))."""
    limit = 2.0
    step = Step(tmp_path, f"optimizer=sgd settings=lr=1 clip={limit}")
    gw = F32(scale) * from_bits(OPTIM["grads"][0])
    gv = F32(scale) * from_bits(OPTIM["grads"][1]).reshape(2, 3)
    outputs = step(P0, P0.reshape(2, 3), gw, gv)
    norm = np.sqrt(sum(np.sum(g.astype(np.float64) ** 2) for g in (gw, gv)))
    assert (norm > limit) == clips
    np.testing.assert_allclose(outputs["grad_norm"], norm, rtol=1e-6)
    factor = F32(min(1.0, limit / (norm + 1e-6)))
    np.testing.assert_array_equal(outputs["w"], P0 - gw * factor)
    np.testing.assert_array_equal(outputs["v"], P0.reshape(2, 3) - gv * factor)


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_a_step_with_a_bad_gradient_changes_nothing(bad, tmp_path):
    """Parameters with finite gradients and the step count stay unchanged, too."""
    step = Step(tmp_path, "optimizer=adamw settings=lr=0.1")
    g = from_bits(OPTIM["grads"][0])
    first = step(P0, P0.reshape(2, 3), g, g.reshape(2, 3))
    before = dict(step.state)
    worse = g.copy()
    worse[4] = bad
    outputs = step(P0, P0.reshape(2, 3), worse, g.reshape(2, 3))
    assert outputs["found_inf"] and not first["found_inf"]
    assert set(before) == {
        "w", "v", "step", *(f"{s}/{n}" for s in ("exp_avg", "exp_avg_sq") for n in "wv"),
    }  # fmt: skip
    for name, value in before.items():
        np.testing.assert_array_equal(step.state[name], value, err_msg=name)
    after = step(P0, P0.reshape(2, 3), g, g.reshape(2, 3))
    assert after["step"] == 2 and not after["found_inf"]
    assert (after["w"] != before["w"]).all()


def test_the_loss_scale_follows_grad_scaler(tmp_path):
    """Follows a recorded trace of PyTorch. Steps overflow because the loss scale raises
    their gradients beyond f32. Other steps update as without a scale."""
    policy = tmp_path / "scaled.yaml"
    policy.write_text("{name: p, narrow: f16, wide: f32, loss_scale: {interval: 3}}")
    step = Step(tmp_path, "optimizer=sgd settings=lr=0.5", policy)
    golden = json.loads((GOLDEN / "loss_scale.json").read_text())["cases"]
    w = P0
    for number, expected in enumerate(golden["torch_growth_interval_3"]):
        overflows = number in golden["overflow_steps"]
        g = np.full(6, 1e37 if overflows else 0.25, F32)
        outputs = step(P0, P0.reshape(2, 3), g, np.zeros((2, 3), F32))
        assert outputs["found_inf"] == overflows, number
        assert outputs["scale"] == expected["scale"], number
        assert outputs["growth"] == expected["tracker"], number
        w = w if overflows else w - F32(0.5) * g
        np.testing.assert_array_equal(outputs["w"], w)
        if not overflows:
            assert outputs["grad_norm"] == F32(0.25 * np.sqrt(6))
    rows = len(golden["torch_growth_interval_3"])
    assert outputs["step"] == rows - len(golden["overflow_steps"])


def test_gradients_of_matmuls_overflow_in_f16(tmp_path):
    """A matmul's gradient is rounded to f16 before the optimizer reads it in f32."""
    source = tmp_path / "matmul.mlir"
    source.write_text("""
func.func @forward(
    %w: tensor<2x2xf32> {binade.name = "w", binade.role = #binade.role<parameter>},
    %x: tensor<2x2xf32> {binade.name = "x", binade.role = #binade.role<batch>})
    -> (tensor<f32> {binade.name = "loss", binade.role = #binade.role<metric>}) {
  %y = binade.matmul %x, %w : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %loss = binade.reduce_sum %y {axes = array<i64: 0, 1>} : (tensor<2x2xf32>) -> tensor<f32>
  return %loss : tensor<f32>
}
""")
    module = subprocess.run(
        [OPT, source, "--binade-autodiff-pipeline",
         "--binade-optimizer-pipeline=optimizer=sgd settings=lr=1",
         "--binade-assign-pipeline=policy=fp16-amp", "--binade-materialize-pipeline"],
        capture_output=True, text=True, check=True, timeout=600,
    ).stdout  # fmt: skip
    for scale, overflows in ((16384, False), (32768, True)):
        inputs = {
            "w": np.zeros((2, 2), F32), "x": np.ones((2, 2), F32), "scale": F32(scale),
        }  # fmt: skip
        outputs = evaluate(module, inputs, "--function", "step")
        # Each element of the scaled gradient is twice the scale; f16's maximum is 65504.
        assert outputs["found_inf"] == overflows, scale
        np.testing.assert_array_equal(outputs["w"], 0 if overflows else -2)
