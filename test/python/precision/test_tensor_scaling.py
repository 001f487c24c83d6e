"""Loss scaling per parameter (`per_tensor`): a scale for the gradient of each parameter."""

import json

import numpy as np
import pytest
from support.reference import F16, binade, safetensors, write_model

pytest.importorskip("onnx")

F32 = np.float32
STEPS, CHECK = 12, 2
MODEL = """
<ir_version: 10, opset_import: ["" : 18]>
g (float[2, 4] x, float[2, 4] u) => (float loss)
    <float[4, 4] large = {WEIGHT}, float[4, 4] small = {WEIGHT}> {
  [first] y = MatMul(x, large)
  [second] z = MatMul(u, small)
  sum = Add(y, z)
  squares = Mul(sum, sum)
  loss = ReduceMean <keepdims = 0> (squares)
}
"""
WEIGHT = np.linspace(-1, 1, 16, dtype=F32).reshape(4, 4)
# The gradient of `small` underflows in f16.
X = np.tile(F32([1, 2, 1, 1]), (2, 1))
U = np.tile(F32([1e-6, 1e-7, 1e-6, 3e-7]), (2, 1))


def train(folder, scaling, *more, x=X, u=U, steps=STEPS, lr=0):
    model = write_model(folder, MODEL, ["large", "small"], WEIGHT)
    data = {"x": np.tile(x, (steps, 1)), "u": np.tile(u, (steps, 1))}
    if x.ndim == 3:
        data = {"x": x.reshape(-1, 4), "u": np.tile(u, (len(x), 1))}
        steps = len(x)
    safetensors.save(folder / "data.safetensors", data)
    (folder / "policy.yaml").write_text(
        f"{{extends: fp16-amp, name: p, loss_scale: {{{scaling}}}, "
        "rules: [{match: {op: [mul, add]}, class: deny}]}"
    )
    done = binade(
        "train", model, "--data", folder / "data.safetensors",
        "--order", "sequential", "--steps", steps, "--policy", folder / "policy.yaml",
        "--optimizer", "sgd", "--lr", lr, "--out", folder / "run", "--overwrite", *more,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = (folder / "run" / "metrics.jsonl").read_text().splitlines()
    final = safetensors.load(folder / "run" / "final.safetensors")
    return [json.loads(line) for line in lines], final


def gradients(x=X, u=U):
    """Gradients before rounding, without a loss scale."""
    half = lambda a: a.astype(F16).astype(F32)
    y = half(half(x) @ half(WEIGHT)) + half(half(u) @ half(WEIGHT))
    upstream = half(2 * y / 8)
    return {"large": half(x).T @ upstream, "small": half(u).T @ upstream}


def follow(exact, steps=STEPS):
    """The scale of one tensor, which doubles while over 1 % of its gradient underflows."""
    scale, count = F32(1), 0
    for _ in range(steps):
        rounded = (exact * scale).astype(F16)
        vanished = np.sum((exact != 0) & (rounded == 0)) / np.sum(exact != 0)
        count += 1
        if count % CHECK == 0 and vanished > 0.01:
            scale, count = scale * 2, 0
    return scale, count


def test_each_tensor_has_a_scale_that_adapts(tmp_path):
    metrics, final = train(tmp_path, f"init: 1, per_tensor: true, check: {CHECK}")
    assert {m["loss_scale"] for m in metrics} == {1}
    for name, exact in gradients().items():
        scale, count = follow(exact)
        assert final[f"scaler/scale/{name}"] == scale
        assert final[f"scaler/growth/{name}"] == count
    assert final["scaler/scale/large"] == 1 < final["scaler/scale/small"]


def test_parameters_whose_gradients_would_underflow_are_trained(tmp_path):
    """Checks an update, with and without a scale for the small gradient."""
    exact = gradients()["small"]
    scale = F32(2.0**10)
    safetensors.save(tmp_path / "init.safetensors", {"scaler/scale/small": scale})
    for setting in ("per_tensor: true", ""):
        more = ("--init", tmp_path / "init.safetensors") if setting else ()
        setting = f"init: 1, {setting}" if setting else "init: 1"
        _, final = train(tmp_path, setting, *more, steps=1, lr=1e4)
        found = (WEIGHT - final["small"]) / F32(1e4)
        kept = (exact * (scale if more else 1)).astype(F16).astype(F32)
        expected = kept / (scale if more else 1)
        # The rounding of f32 weights of about 1 limits the accuracy of the difference.
        np.testing.assert_allclose(found, expected, atol=1.2e-11)
        assert np.any(expected == 0) == (not more)


def test_only_the_scale_that_overflowed_is_lowered(tmp_path):
    large = 2.0 ** np.ceil(np.log2(65504 / np.max(np.abs(gradients()["large"]))))
    safetensors.save(
        tmp_path / "init.safetensors",
        {"scaler/scale/large": F32(large), "scaler/scale": F32(2)},
    )
    metrics, final = train(
        tmp_path, "init: 2, per_tensor: true", "--init", tmp_path / "init.safetensors",
        steps=3,
    )  # fmt: skip
    assert [m["skipped"] for m in metrics] == [True, True, False]
    assert {m["loss_scale"] for m in metrics} == {2} and final["scaler/scale"] == 2
    assert final["scaler/scale/large"] == large / 4
    assert final["scaler/scale/small"] == 1


def test_an_infinite_loss_lowers_only_the_loss_scale(tmp_path):
    x = np.stack([X, np.full_like(X, np.inf), X])
    metrics, final = train(tmp_path, "init: 8, per_tensor: true", x=x)
    assert [m["skipped"] for m in metrics] == [False, True, False]
    assert [m["loss_scale"] for m in metrics] == [8, 8, 4]
    assert final["scaler/scale/large"] == final["scaler/scale/small"] == 1
