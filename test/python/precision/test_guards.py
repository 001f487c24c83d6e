"""Gradients that underflow in a narrow format raise the loss scale (`loss_scale: underflow`)."""

import json

import numpy as np
import pytest
from support.reference import (
    F16,
    ONE_WEIGHT,
    binade,
    evaluate_op,
    safetensors,
    write_model,
)

F32 = np.float32
RAISE = (
    "growth = 2.0 : f64, check = 3 : i64, limit = 0.25 : f64, largest = 1000.0 : f64"
)
CASES = [
    # count, vanished, nonzero, amax: raised, infeasible
    ((3, 26, 100, 500), (1, 0)),
    ((6, 100, 100, 0), (1, 0)),
    ((3, 25, 100, 1), (0, 0)),
    ((4, 26, 100, 1), (0, 0)),
    ((0, 26, 100, 1), (0, 0)),
    ((-3, 26, 100, 1), (0, 0)),
    ((3, 0, 0, 1), (0, 0)),
    ((3, 26, 100, 500.0001), (0, 1)),
    ((3, 26, 100, np.inf), (0, 1)),
    ((4, 26, 100, 5000), (0, 0)),
    ((3 * 10**12, 26, 100, 1), (1, 0)),
    ((3 * 10**12 - 1, 26, 100, 1), (0, 0)),
]  # fmt: skip


@pytest.mark.parametrize("case, expected", CASES)
def test_raise_scale_raises_when_too_many_gradients_underflow(case, expected):
    count, vanished, nonzero, amax = case
    scale, new_count, infeasible = evaluate_op(
        "raise_scale",
        [F32(64), np.int64(count), np.int64(vanished), np.int64(nonzero), F32(amax)],
        [((), F32), ((), np.int64), ((), np.bool_)],
        RAISE,
    )
    raised = bool(expected[0])
    assert (scale, new_count, infeasible) == (
        128 if raised else 64, 0 if raised else count, bool(expected[1]),
    )  # fmt: skip


WEIGHT = np.linspace(-1, 1, 16, dtype=F32).reshape(4, 4)


def train(folder, row, scaling, steps=12):
    pytest.importorskip("onnx")
    model = write_model(folder, ONE_WEIGHT, ["weight"], WEIGHT)
    x = np.tile(F32(row), (steps, 1))
    safetensors.save(folder / "data.safetensors", {"x": x})
    (folder / "policy.yaml").write_text(
        f"{{extends: fp16-amp, name: p, loss_scale: {{{scaling}}}, "
        "rules: [{match: {op: mul}, class: deny}]}"
    )
    done = binade(
        "train", model, "--data", folder / "data.safetensors",
        "--steps", steps, "--policy", folder / "policy.yaml", "--optimizer", "sgd",
        "--lr", 0, "--out", folder / "run",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = (folder / "run" / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line)["loss_scale"] for line in lines], done.stderr


def vanished(row, scale):
    """The share of the weight's gradient that f16 rounds to 0, and its amax."""
    x = F16(row).astype(F32)
    hidden = (x @ WEIGHT.astype(F16).astype(F32)).astype(F16).astype(F32)
    upstream = (2 * hidden * F32(scale) / 8).astype(F16).astype(F32)
    exact = x.T @ upstream
    rounded = exact.astype(F16)
    return np.sum((exact != 0) & (rounded == 0)) / np.sum(exact != 0), np.max(
        np.abs(rounded)
    )


def smallest_gradient(row, scale):
    """The smallest magnitude of the weight's gradient that is not 0."""
    x = F16(row).astype(F32)
    hidden = (x @ WEIGHT.astype(F16).astype(F32)).astype(F16).astype(F32)
    upstream = (2 * hidden * F32(scale) / 8).astype(F16).astype(F32)
    exact = np.abs(x.T @ upstream)
    return exact[exact > 0].min()


def test_the_scale_grows_while_gradients_underflow(tmp_path):
    row = [[1, 1, 1, 3e-7]] * 2
    scales, log = train(tmp_path, row, "init: 0.0625, underflow: 0.01, check: 2")
    expected, scale = [], 0.0625
    for step in range(12):
        expected.append(scale)
        # The share is checked after two steps without overflow.
        if step % 2 == 1 and vanished(row, scale)[0] > 0.01:
            scale *= 2
    assert scales == expected and len(set(scales)) > 2
    assert vanished(row, scales[-1])[0] == 0 < vanished(row, scales[0])[0]
    assert "no feasible scale" not in log


def test_no_feasible_scale_is_reported_with_its_bounds(tmp_path):
    row = [[400, 400, 400, 0], [0, 0, 0, 1e-6]]
    scales, log = train(tmp_path, row, "init: 0.25, underflow: 0.01, check: 2")
    share, amax = vanished(row, scales[-1])
    assert share > 0.01 and 2 * amax > 65504 / 4
    scale, smallest = scales[-1], smallest_gradient(row, scales[-1])
    # Rounding to nearest gives a finite f16 below 65520, and not 0 above 2^-25.
    overflow, zero = scale * 65520 / amax, scale * 2.0**-25 / smallest
    assert zero > overflow
    line = next(line for line in log.splitlines() if "no feasible scale" in line)
    assert log.count("no feasible scale") == 1
    assert (
        f"the gradient of 'weight' reaches {amax:.4g} at a scale of {scale:g} and "
        f"overflows from a scale of {overflow:.4g} on, and that of 'weight' has elements "
        f"of {smallest:.4g}, which become 0 up to a scale of {zero:.4g} "
        f"({100 * share:.3g}% of its elements do)"
    ) in line


def test_no_warning_if_a_scale_without_underflow_exists(tmp_path):
    """Gradients underflow, and doubling the scale would exceed the limit for the largest one.
    But a scale exists at which nothing under- or overflows, so nothing is reported."""
    row = [[400, 400, 400, 0], [0, 0, 0, 2.0**-11]]
    scales, log = train(tmp_path, row, "init: 0.5, underflow: 0.01, check: 2")
    share, amax = vanished(row, scales[-1])
    smallest = smallest_gradient(row, scales[-1])
    assert share > 0.01 and 2 * amax > 65504 / 4
    assert smallest * 65520 / amax > 2.0**-25 > smallest and set(scales) == {0.5}
    assert "no feasible scale" not in log


def test_without_the_setting_the_scale_is_not_raised(tmp_path):
    scales, _ = train(tmp_path, [[1, 1, 1, 3e-7]] * 2, "init: 0.0625")
    assert set(scales) == {0.0625}


def test_underflow_of_f32_gradients_cannot_be_watched(tmp_path):
    with pytest.raises(AssertionError, match="but all gradients are 'f32'"):
        train(tmp_path, [[1, 1, 1, 1]] * 2, "underflow: 0.01}, narrow: f32, "
              "evidence: {overflow: 0")  # fmt: skip
