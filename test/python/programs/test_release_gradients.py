"""Steps that update each parameter as soon as its gradient is complete."""

import json

import numpy as np
import pytest
from support.message_models import write
from support.paths import ROOT
from support.reference import binade, safetensors

MINI = ROOT / "examples/char-gpt/mini.onnx"
LAYERS, WIDTH = 24, 96
RELEASE = "--release-gradients"


def write_stack(path):
    """Writes a stack of square layers, whose gradients take as many bytes as they do."""
    names = [f"w{index}" for index in range(LAYERS)]
    layers = "".join(
        f"h{i + 1} = MatMul(h{i}, {name})\n" for i, name in enumerate(names)
    )
    draw = np.random.default_rng(0)
    return write(
        path,
        f"h0 = Identity(x)\n{layers}loss = SoftmaxCrossEntropyLoss(h{LAYERS}, labels)",
        inputs=f"float[4, {WIDTH}] x, int64[4] labels",
        weights={
            name: draw.standard_normal((WIDTH, WIDTH)).astype(np.float32) / 10
            for name in names
        },
        trainable=names,
    )


def compile_plan(model, folder, *options):
    path = folder / "plan.json"
    process = binade("compile", model, "--to", "plan", *options, "-o", path)
    assert process.returncode == 0, process.stderr
    return json.loads(path.read_text())


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    draw = np.random.default_rng(0)
    drawn = draw.integers(0, 65, (64, 129))
    path = tmp_path_factory.mktemp("tokens") / "data.safetensors"
    safetensors.save(
        path,
        {
            "input_ids": np.ascontiguousarray(drawn[:, :-1]),
            "labels": np.ascontiguousarray(drawn[:, 1:]),
        },
    )
    return path


def train(tokens, out, *options, lr=0.01, status=0):
    process = binade(
        "train", MINI, "--data", tokens, "--steps", 3, "--lr", lr, *options,
        "--out", out,
    )  # fmt: skip
    assert process.returncode == status, process.stderr
    return process


def read_lines(run, *keys):
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [tuple(json.loads(line)[key] for key in keys) for line in lines]


RUNS = [
    [],
    ["--policy", "bf16-amp", "--states", "dyn8"],
    ["--policy", "coat", "--optimizer", "lamb"],
    [
        "--optimizer",
        "muon",
        "--stats",
        "gradient:norm",
        "--stats",
        "weight:update_ratio",
    ],
    ["--accumulate", "2", "--accumulate-in-momentum", "--optimizer", "signum"],
]


@pytest.mark.parametrize("options", RUNS, ids=" ".join)
def test_a_run_has_the_same_bits(options, tokens, tmp_path):
    train(tokens, tmp_path / "all", *options, "--on-nonfinite", "continue")
    train(tokens, tmp_path / "released", *options, RELEASE)
    whole, released = (
        safetensors.load(tmp_path / run / "final.safetensors")
        for run in ("all", "released")
    )
    assert whole.keys() == released.keys() and any("state/" in k for k in whole)
    for name, value in whole.items():
        assert value.tobytes() == released[name].tobytes(), name
    losses = [read_lines(tmp_path / run, "loss") for run in ("all", "released")]
    assert losses[0] == losses[1]
    norms = [read_lines(tmp_path / run, "grad_norm") for run in ("all", "released")]
    np.testing.assert_allclose(*norms, rtol=2.0**-23)


@pytest.mark.parametrize("target", [[], ["--target", "cuda:sm_90"]])
def test_gradients_are_not_in_memory_together(target, tmp_path):
    """Of 24 equal layers, only the gradients of two need memory at a time."""
    model = write_stack(tmp_path / "stack.onnx")
    plans = [compile_plan(model, tmp_path, *target, *more) for more in ([], [RELEASE])]
    layer = 4 * WIDTH * WIDTH
    assert plans[0]["ledger"]["gradient"] == LAYERS * layer
    assert plans[1]["ledger"]["gradient"] <= 2 * layer
    saved = plans[0]["arena_bytes"] - plans[1]["arena_bytes"]
    assert saved >= (LAYERS - 3) * layer


def test_an_update_follows_the_last_read_of_its_parameter(tmp_path):
    """Parameters and states are updated in place, without copies at the end."""
    plan = compile_plan(write_stack(tmp_path / "stack.onnx"), tmp_path, RELEASE)
    labels = [record["label"] for record in plan["records"]]
    updates = [i for i, label in enumerate(labels) if "optimizer_update" in label]
    assert len(updates) == LAYERS // 2 and not any("copy" in label for label in labels)
    assert any("matmul" in label for label in labels[updates[0] :])


REFUSED = {
    "--clip": ["--clip", "1"],
    "--on-nonfinite skip": ["--on-nonfinite", "skip"],
    "adapts its loss scale": ["--policy", "fp16-amp"],
    "--accumulate-in-momentum": ["--accumulate", "2"],
    "--exchange": ["--exchange", "f32"],
    "--save-grads": ["--save-grads", "1"],
}


@pytest.mark.parametrize("message", REFUSED)
def test_settings_that_need_all_gradients_are_named(message, tokens, tmp_path):
    process = train(tokens, tmp_path / "run", *REFUSED[message], RELEASE, status=3)
    assert "--release-gradients" in process.stderr and message in process.stderr


def test_a_run_stops_after_a_step_that_is_not_finite(tokens, tmp_path):
    """The state of that step is not saved: the run continues from a checkpoint."""
    process = train(
        tokens, tmp_path / "run", RELEASE, "--optimizer", "sgd", "--save-every", 1,
        lr=1e18, status=4,
    )  # fmt: skip
    assert "the gradients are not finite" in process.stderr
    assert "without --release-gradients" in process.stderr
    assert not (tmp_path / "run" / "final.safetensors").exists()
    [checkpoint] = sorted((tmp_path / "run" / "checkpoints").iterdir())[-1:]
    state = safetensors.load(checkpoint / "state.safetensors")
    assert all(np.isfinite(v).all() for v in state.values() if v.dtype == np.float32)


def test_fit_counts_released_gradients(tmp_path):
    model = write_stack(tmp_path / "stack.onnx")
    options = ["--policy", "fp32", "--policy", "fp16-amp", "--states", "f32"]
    process = binade("fit", model, "--memory", "4MiB", *options, "--format", "json")
    every, scaled = json.loads(process.stdout)["variants"]
    released = compile_plan(model, tmp_path, RELEASE)["arena_bytes"]
    assert every["released_bytes"] == released < every["bytes"]
    assert scaled["released_bytes"] is None
    process = binade("fit", model, "--memory", "4MiB", *options)
    assert "fp32, f32: --release-gradients saves" in process.stdout
    process = binade("fit", model, "--memory", "4MiB", *options, RELEASE)
    assert "fp16-amp, f32: without --release-gradients, because" in process.stdout
    process = binade(
        "fit", model, "--memory", "4MiB", *options, RELEASE, "--format", "json"
    )
    kept = json.loads(process.stdout)["variants"]
    assert [one["release_gradients"] for one in kept] == [True, False]
    assert [one["bytes"] for one in kept] == [released, scaled["bytes"]]
    process = binade("fit", model, "--memory", "4MiB", RELEASE, "--ranks", 2)
    assert process.returncode == 2 and "for one process" in process.stderr
