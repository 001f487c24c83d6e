"""Plans for CPUs compute attention, and its gradients, by one record each: the runtime's fused
kernels, whose bits do not depend on the number of threads.
docs/decisions/0089-attention-on-cpus.md."""

import json
import os

import numpy as np
import pytest
from support.attention_graphs import MODELS, SHAPE, make_model
from support.paths import ROOT
from support.reference import binade, safetensors

MINI = ROOT / "examples" / "char-gpt" / "mini.onnx"
LAYERS = 4


def run(*arguments, **options):
    process = binade(*arguments, **options)
    assert process.returncode == 0, process.stderr
    return process


def records(plan):
    for record in plan:
        yield record
        yield from records(record.get("body", []))


def list_attention(plan):
    """Lists whether each attention of a plan's step is a gradient, in order."""
    return [
        "gradients" in record
        for record in records(plan["records"])
        if record["kind"] == "attention"
    ]


@pytest.mark.parametrize("policy", ["fp32", "bf16-amp", "fp16-amp"])
def test_each_layer_has_one_record_and_one_for_gradients(policy):
    plan = json.loads(run("inspect", MINI, "--json", "--policy", policy).stdout)
    assert list_attention(plan) == [False] * LAYERS + [True] * LAYERS
    assert not [r for r in plan["records"] if r["kind"] == "loop"]
    matmuls = [r for r in records(plan["records"]) if r["kind"] == "matmul"]
    # Of each layer four, and the head, each with two gradients.
    assert len(matmuls) == 3 * (4 * LAYERS + 1)
    # Query, key and value are read from the matmul's result, and written into its gradient.
    for record in records(plan["records"]):
        if record["kind"] == "attention":
            inputs = [record[name]["buffer"] for name in ("query", "key", "value")]
            assert len(set(inputs)) == 1


def test_no_buffer_contains_the_scores():
    plan = json.loads(run("inspect", MINI, "--json", "--policy", "fp32").stdout)
    scratch = {
        record["scratch"]["buffer"]
        for record in records(plan["records"])
        if record["kind"] == "attention"
    }
    batch, heads, context = 16, 4, 128
    for number in scratch:
        bytes_of_scores = 4 * batch * heads * context**2
        assert plan["buffers"][number]["bytes"] < bytes_of_scores / 4


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "tokens.safetensors"
    tokens = np.random.default_rng(0).integers(0, 65, 4000).astype(np.uint8)
    safetensors.save(path, {"tokens": tokens})
    return path


def train(data, policy, threads, out, **environment):
    """Returns the bytes of the parameters after two steps."""
    run(
        "train", MINI, "--data", data, "--window", "input_ids=tokens[0:128],labels=tokens[1:129]",
        "--policy", policy, "--optimizer", "adamw", "--steps", 2, "--seed", 0,
        "--threads", threads, "--out", out,
        env=dict(os.environ, BINADE_CONTRACTION="own", **environment),
    )  # fmt: skip
    final = safetensors.load(out / "final.safetensors")
    return {name: tensor.tobytes() for name, tensor in final.items()}


@pytest.mark.parametrize("policy", ["fp32", "bf16-amp"])
def test_bits_do_not_depend_on_the_number_of_threads(policy, data, tmp_path):
    one = train(data, policy, 1, tmp_path / "1")
    for threads in (2, 3, 4):
        assert train(data, policy, threads, tmp_path / str(threads)) == one


def test_bits_of_f32_do_not_depend_on_the_width_of_vectors(data, tmp_path):
    wide = train(data, "fp32", 2, tmp_path / "wide")
    narrow = train(data, "fp32", 2, tmp_path / "narrow", BINADE_ISA="x86-64-v3")
    assert wide == narrow


@pytest.mark.parametrize("name", MODELS)
def test_what_changes_scores_stays_in_one_kernel(name, tmp_path):
    make_model(tmp_path / "model.onnx", MODELS[name])
    options = ["--policy", "bf16-amp", "--loss", "mse(y, target)", "--optimizer", "sgd"]
    compiled = run(
        "compile", tmp_path / "model.onnx", *options, "-o", tmp_path / "a.bnd"
    )
    text = run("inspect", tmp_path / "model.onnx", *options, "--json").stdout
    assert list_attention(json.loads(text)) == [False, True]
    assert "in pieces" not in compiled.stderr


@pytest.mark.parametrize("name", ["dropout", "trained", "all_trained"])
@pytest.mark.parametrize("policy", ["fp32", "bf16-amp"])
def test_bits_of_gradients_do_not_depend_on_the_number_of_threads(
    name, policy, tmp_path
):
    """One or two threads compute the gradient of a bias of two heads together with those of keys;
    four threads, for which there are too few heads, compute it in a second pass."""
    make_model(tmp_path / "model.onnx", MODELS[name])
    x = np.random.default_rng(2).standard_normal(SHAPE).astype(np.float32)
    safetensors.save(
        tmp_path / "data.safetensors", {"x": x, "target": np.zeros_like(x)}
    )
    found = []
    for threads in (1, 2, 4):
        run(
            "train", tmp_path / "model.onnx", "--loss", "mse(y, target)", "--policy", policy,
            "--data", tmp_path / "data.safetensors", "--optimizer", "sgd", "--steps", 1,
            "--threads", threads, "--save-grads", 1, "--out", tmp_path / str(threads),
        )  # fmt: skip
        path = tmp_path / str(threads) / "grads-000001.safetensors"
        found.append({n: g.tobytes() for n, g in safetensors.load(path).items()})
    assert found[0] == found[1] == found[2]
    assert any(any(gradient) for gradient in found[0].values())


def exact(x, weights, has):
    """The loss and the gradients of the weights, in float64."""
    query, key, value = (x @ w for w in weights)
    scores = query @ key.transpose(0, 1, 3, 2) * SHAPE[3] ** -0.5
    if "biases" in has:
        scores += x[..., :1].transpose(0, 1, 3, 2)
    if "mask" in has:
        visible = x[:, :1, :, :1].transpose(0, 1, 3, 2) > -0.5
        scores = np.where(visible, scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    y = p @ value
    dy = 2 * y / y.size  # The target is 0.
    dp = dy @ value.transpose(0, 1, 3, 2)
    ds = p * (dp - (dy * y).sum(-1, keepdims=True)) * SHAPE[3] ** -0.5
    sides = [ds @ key, ds.transpose(0, 1, 3, 2) @ query, p.transpose(0, 1, 3, 2) @ dy]
    rows = x.reshape(-1, SHAPE[3])
    return (y**2).mean(), [rows.T @ side.reshape(rows.shape) for side in sides]


@pytest.mark.parametrize(("policy", "allowed"), [("fp32", 1e-5), ("bf16-amp", 3e-2)])
@pytest.mark.parametrize("name", ["mask", "bias"])
def test_masks_and_biases(name, policy, allowed, tmp_path):
    make_model(tmp_path / "model.onnx", MODELS[name])
    x = np.random.default_rng(2).standard_normal(SHAPE).astype(np.float32)
    safetensors.save(
        tmp_path / "data.safetensors", {"x": x, "target": np.zeros_like(x)}
    )
    run(
        "train", tmp_path / "model.onnx", "--loss", "mse(y, target)", "--policy", policy,
        "--data", tmp_path / "data.safetensors", "--optimizer", "sgd", "--steps", 1,
        "--save-grads", 1, "--out", tmp_path / "run",
    )  # fmt: skip
    found = safetensors.load(tmp_path / "run" / "grads-000001.safetensors")
    draw = np.random.default_rng(5)
    weights = [
        (draw.standard_normal((16, 16), np.float32) / 4).astype(float) for _ in "qkv"
    ]
    loss, gradients = exact(x.astype(float), weights, MODELS[name])
    line = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[0]
    assert json.loads(line)["loss"] == pytest.approx(loss, rel=allowed)
    for side, gradient in zip("qkv", gradients, strict=True):
        error = np.abs(found[f"w.{side}"] - gradient).max()
        assert error <= allowed * np.abs(gradient).max(), side
