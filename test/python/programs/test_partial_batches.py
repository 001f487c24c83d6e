"""Held-out samples that do not fill a batch are evaluated where the loss of a batch is the mean
over its samples, and are otherwise reported. NumPy computes the expected losses."""

import json
import subprocess

import numpy as np
import pytest
from support.checkpoint_runs import change_manifest
from support.paths import BUILD
from support.reference import binade, safetensors

onnx = pytest.importorskip("onnx")

F32 = np.float32
DRAW = np.random.default_rng(2)
WEIGHT = DRAW.standard_normal((5, 3)).astype(F32)
BODIES = {
    "mean": "loss = SoftmaxCrossEntropyLoss(p, y)",
    "sum": 'loss = SoftmaxCrossEntropyLoss<reduction = "sum">(p, y)',
    "ignored": "loss = SoftmaxCrossEntropyLoss<ignore_index = 2>(p, y)",
    "root": "s = Mul(p, p)\nm = ReduceMean<keepdims = 0>(s)\nloss = Sqrt(m)",
    # Each sample has to recognize itself among the samples of its batch.
    "contrast": "t = Transpose<perm = [1, 0]>(p)\nq = MatMul(p, t)\n"
    "i = Constant<value_ints = [INDICES]>()\nloss = SoftmaxCrossEntropyLoss(q, i)",
}


def write(folder, kind, batch):
    body = BODIES[kind].replace("INDICES", ", ".join(map(str, range(batch))))
    labels = "" if kind in ("root", "contrast") else f", int64[{batch}] y"
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 20]>\n'
        f"net (float[{batch}, 5] x{labels}) => (float loss) <float[5, 3] w> {{\n"
        f"p = MatMul(x, w)\n{body}\n}}"
    )
    model.graph.initializer.append(onnx.numpy_helper.from_array(WEIGHT, "w"))
    entry = model.metadata_props.add()
    entry.key, entry.value = "binade.trainable", json.dumps(["w"])
    onnx.save(model, folder / "net.onnx")
    return folder / "net.onnx"


def log_softmax(x):
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def compute_loss(kind, x, y):
    """The loss of one batch, in f64."""
    p = x.astype(np.float64) @ WEIGHT.astype(np.float64)
    if kind == "root":
        return np.sqrt((p * p).mean())
    if kind == "contrast":
        return -np.diagonal(log_softmax(p @ p.T)).mean()
    losses = -log_softmax(p)[np.arange(len(y)), y]
    if kind == "sum":
        return losses.sum()
    return losses[y != 2].mean() if kind == "ignored" else losses.mean()


def evaluate(folder, kind, batch, count, *more, policy="fp32", steps=0, run="run"):
    """Evaluates `count` held-out samples; returns the process, the samples and the metrics."""
    model = write(folder, kind, batch)
    draw = np.random.default_rng(count)
    data = {
        "x": draw.standard_normal((count, 5)).astype(F32),
        "y": draw.integers(0, 3, count),
    }
    safetensors.save(folder / "held.safetensors", data)
    process = binade("train", model, "--data", folder / "held.safetensors", "--eval-data",
                     folder / "held.safetensors", "--policy", policy, "--steps", steps,
                     *(more or ["--out", folder / run]))  # fmt: skip
    assert process.returncode == 0, process.stderr
    lines = (folder / run / "metrics.jsonl").read_text().splitlines()
    return process, data, [json.loads(line) for line in lines]


@pytest.mark.parametrize("policy", ["fp32", "bf16-amp"])
@pytest.mark.parametrize("batch", [4, 6, 7])
@pytest.mark.parametrize("kind", ["mean", "sum"])
def test_the_loss_is_the_mean_over_all_samples(kind, batch, policy, tmp_path):
    for count in range(batch, 2 * batch + 1):
        process, data, (line,) = evaluate(
            tmp_path, kind, batch, count, policy=policy, run=f"run{count}"
        )
        whole = compute_loss("mean", data["x"], data["y"])
        expected = whole * batch if kind == "sum" else whole
        tolerance = 1e-5 if policy == "fp32" else 2e-2
        assert line["eval_loss"] == pytest.approx(expected, rel=tolerance), count
        assert f"held out: {count} samples of " in process.stdout
        assert "unused:" not in process.stdout


@pytest.mark.parametrize("kind", ["ignored", "root", "contrast"])
def test_other_losses_use_full_batches(kind, tmp_path):
    """What such a loss is for part of a batch does not follow from its value for batches."""
    process, data, (line,) = evaluate(tmp_path, kind, batch := 8, count := 22)
    parts = [slice(i, i + batch) for i in range(0, count - batch + 1, batch)]
    losses = [compute_loss(kind, data["x"][part], data["y"][part]) for part in parts]
    assert len(losses) == 2
    assert line["eval_loss"] == pytest.approx(np.mean(losses), rel=1e-5)
    assert (
        "held out: 16 samples of " in process.stdout
        and "(6 unused: no full batch of 8, and the loss of a batch is not the mean over "
        "its samples); 22 to train on\n"
        in process.stdout
    )
    about = json.loads((tmp_path / "run/run.json").read_text())
    assert about["eval_samples"] == 16


def test_a_bundle_evaluates_the_same_samples(tmp_path):
    _, _, (line,) = evaluate(tmp_path, "mean", 8, 29)
    bundle, data = tmp_path / "net.bnd", tmp_path / "held.safetensors"
    assert binade("compile", tmp_path / "net.onnx", "-o", bundle).returncode == 0
    command = [BUILD / "bin/binade-run", bundle, "--data", data, "--eval-data", data,
               "--steps", "0", "--out", tmp_path / "again"]  # fmt: skip
    subprocess.run(list(map(str, command)), check=True, capture_output=True)
    again = json.loads((tmp_path / "again/metrics.jsonl").read_text())
    assert again["eval_loss"] == line["eval_loss"]


def test_a_resumed_run_evaluates_the_samples_of_its_start(tmp_path):
    run, out = tmp_path / "run", ["--save-every", 1, "--eval-every", 1]
    _, _, lines = evaluate(tmp_path, "mean", 8, 29, "--out", run, *out, steps=2)
    _, _, resumed = evaluate(tmp_path, "mean", 8, 29, "--out", tmp_path / "parts", *out,
                             steps=1, run="parts")  # fmt: skip
    checkpoint = tmp_path / "parts/checkpoints/step-000001"
    for count, kept in ((29, 29), (24, 24)):
        change_manifest(checkpoint, lambda manifest: manifest["run"].update(
            {"evaluated samples": str(count)}))  # fmt: skip
        _, _, resumed = evaluate(tmp_path, "mean", 8, 29, "--resume", tmp_path / "parts",
                                 *out, steps=2, run="parts")  # fmt: skip
        about = json.loads((tmp_path / "parts/run.json").read_text())
        assert about["eval_samples"] == kept
        losses = [[line["eval_loss"] for line in one] for one in (lines, resumed)]
        assert (losses[0] == losses[1]) == (count == 29)
        for later in (tmp_path / "parts/checkpoints").glob("step-000002"):
            for path in later.iterdir():
                path.unlink()
            later.rmdir()
