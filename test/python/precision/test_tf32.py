"""TF32: contractions round their operands to 10 bits of mantissa and accumulate in f32."""

import json
import math
import subprocess

import numpy as np
import pytest
from support.paths import BUILD, MODELS
from support.reference import ELEMENTS, EVAL, binade, evaluate, random, safetensors

# Lower halves of words; the low 13 bits are dropped: 0, half, a little less or more, all.
LOW_HALVES = (0, 0x0FFF, 0x1000, 0x1001, 0x2FFF, 0x3000, 0x3001, 0xEFFF, 0xF000, 0xFFFF)
STEPS, LR = 10, 0.05


def to_tf32(x):
    """Rounds to 11 significant bits, to nearest even."""
    with np.errstate(all="ignore"):
        x = np.asarray(x, np.float32).astype(np.float64)
        step = np.ldexp(1.0, np.maximum(np.frexp(x)[1] - 1, -126) - 10)
        return np.where(np.isfinite(x), np.rint(x / step) * step, x)


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_rounding_of_every_sign_exponent_and_kept_mantissa(backend):
    high = np.arange(1 << 16, dtype=np.uint32) << 16
    x = (high[:, None] | np.array(LOW_HALVES, np.uint32)).view(np.float32)
    tensor = f"tensor<{x.shape[0]}x{x.shape[1]}xf32>"
    module = f"""
func.func @f(%x: {tensor}) -> {tensor} {{
  %y = binade.round_to %x {{format = tf32}} : {tensor}
  return %y : {tensor}
}}"""
    y = evaluate(module, {"arg0": x}, "--backend", backend)["result0"]
    with np.errstate(over="ignore"):
        expected = to_tf32(x).astype(np.float32)
    number = ~np.isnan(x)
    assert np.isnan(y[~number]).all()
    np.testing.assert_array_equal(
        y.view(np.uint32)[number], expected.view(np.uint32)[number]
    )
    # The dropped bits are 0 in NaN, too.
    assert not (y.view(np.uint32) & 0x1FFF).any()
    # Ties go to even, not away from zero as cvt.rna.tf32 sends them.
    assert to_tf32(1 + 2**-11) == 1 and to_tf32(1 + 3 * 2**-11) == 1 + 2**-9


@pytest.mark.parametrize("source", ["f8E4M3FN", "f8E5M2", "f16", "bf16", "f64"])
def test_rounding_that_changes_no_value_is_removed(source):
    """Of these formats, only f64 has values that TF32 does not represent, so only the rounding
    of casts from f64 stays."""
    module = f"""
func.func @f(%x: tensor<4x{source}>) -> tensor<4xf32> {{
  %0 = binade.cast %x : (tensor<4x{source}>) -> tensor<4xf32>
  %1 = binade.round_to %0 {{format = tf32}} : tensor<4xf32>
  return %1 : tensor<4xf32>
}}"""
    simplified = subprocess.run(
        [BUILD / "bin" / "binade-opt", "-", "--binade-simplify-casts"],
        input=module, capture_output=True, text=True, check=True, timeout=600,
    ).stdout  # fmt: skip
    dtype = np.dtype(ELEMENTS[source])
    if source == "f64":
        x = random(1000, np.float64)
    else:
        unsigned = np.dtype(f"u{dtype.itemsize}")
        x = np.arange(1 << 8 * dtype.itemsize).astype(unsigned).view(dtype)
    with np.errstate(all="ignore"):
        x = x.astype(np.float32)
    rounds = not np.array_equal(x, to_tf32(x), equal_nan=True)
    assert rounds == (source == "f64") == ("round_to" in simplified)


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_attention_rounds_its_probabilities(backend):
    """They are an operand of the second matmul."""
    q, k, v = (random((2, 16, 8), seed=seed) for seed in range(3))
    tensor, lse = "tensor<2x16x8xf32>", "tensor<2x16xf32>"
    module = f"""
func.func @step(%q: {tensor}, %k: {tensor}, %v: {tensor}) -> {tensor} {{
  %y, %l = binade.attention %q, %k, %v {{scale = 0.5}} : ({tensor}, {tensor}, {tensor}) -> ({tensor}, {lse})
  return %y : {tensor}
}}"""
    rounded = subprocess.run(
        [BUILD / "bin" / "binade-opt", "-", "--binade-assign-precision=policy=tf32",
         "--binade-materialize-precision"],
        input=module, capture_output=True, text=True, check=True, timeout=600,
    ).stdout  # fmt: skip
    inputs = {"arg0": q, "arg1": k, "arg2": v}
    y = evaluate(rounded, inputs, "--backend", backend)["result0"]
    e = np.exp(0.5 * to_tf32(q) @ to_tf32(k).swapaxes(1, 2))
    p = e / e.sum(-1, keepdims=True)
    # In f32, a probability near a tie may round to the other neighbor.
    kept = np.linalg.norm(y - to_tf32(p) @ to_tf32(v))
    assert kept < 0.1 * np.linalg.norm(y - p @ to_tf32(v))


# ===----------------------------------------------------------------------------===
# A network of three linear layers in numpy
# ===----------------------------------------------------------------------------===


def run_network(weights, x, labels, factor):
    """Loss and gradients. `factor` rounds the operands of matmuls."""

    def matmul(a, b):
        return (factor(a) @ factor(b)).astype(np.float32)

    def layer(h, name):
        w, b = weights[f"{name}.weight"], weights[f"{name}.bias"]
        return (factor(h) @ factor(w.T) + b).astype(np.float32)

    z1 = layer(x, "fc1")
    h1 = np.maximum(z1, 0)
    z2 = layer(h1, "fc2")
    cdf = 0.5 * (1 + np.vectorize(math.erf)(z2 / math.sqrt(2)))
    h2 = (z2 * cdf).astype(np.float32)
    logits = layer(h2, "fc3").astype(np.float64)
    rows = np.arange(len(labels))
    lse = np.log(np.exp(logits).sum(-1))
    loss = np.mean(lse - logits[rows, labels])

    d3 = np.exp(logits - lse[:, None])
    d3[rows, labels] -= 1
    d3 = (d3 / len(labels)).astype(np.float32)
    slope = cdf + z2 * np.exp(-0.5 * z2.astype(np.float64) ** 2) / math.sqrt(
        2 * math.pi
    )
    d2 = (matmul(d3, weights["fc3.weight"]) * slope).astype(np.float32)
    d1 = matmul(d2, weights["fc2.weight"]) * (z1 > 0)
    gradients = {}
    for name, d, h in (("fc1", d1, x), ("fc2", d2, h1), ("fc3", d3, h2)):
        gradients[f"{name}.weight"] = matmul(d.T, h)
        gradients[f"{name}.bias"] = d.sum(0)
    return loss, gradients


def train_network(weights, batches, factor):
    """The losses of gradient descent, and the gradients of the first step."""
    weights = dict(weights)
    losses, first = [], None
    for x, labels in zip(batches["x"], batches["labels"]):
        loss, gradients = run_network(weights, x, labels, factor)
        losses.append(loss)
        first = first or gradients
        for name, g in gradients.items():
            weights[name] = (weights[name] - LR * g).astype(np.float32)
    return np.array(losses), first


def get_distance(some, others):
    assert some.keys() == others.keys()
    return math.sqrt(sum(np.sum((some[n] - others[n]) ** 2.0) for n in some))


@pytest.fixture
def model(tmp_path):
    folder = MODELS / "mlp-digits"
    if not folder.is_dir():
        pytest.skip(f"{folder} is absent; BINADE_MODELS names its folder")
    return folder


def test_training_rounds_the_operands_of_matmuls(model, tmp_path):
    """Losses and gradients match the numpy network that rounds operands, not an exact one."""
    weights = safetensors.load(model / "weights.safetensors")
    batches = np.load(model / "inputs.npz")
    data = tmp_path / "data.safetensors"
    safetensors.save(
        data, {n: batches[n].reshape(-1, *batches[n].shape[2:]) for n in batches}
    )
    done = binade(
        "train", model / "loss.onnx", "--data", data, "--order", "sequential",
        "--policy", "tf32", "--steps", STEPS, "--optimizer", "sgd", "--lr", LR,
        "--save-grads", 1, "--out", tmp_path / "run",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "run/metrics.jsonl").read_text().splitlines()
    losses = np.array([json.loads(line)["loss"] for line in lines])
    gradients = safetensors.load(tmp_path / "run/grads-000001.safetensors")
    # Three forward matmuls, three for gradients of weights, two for gradients of inputs.
    assert json.loads((tmp_path / "run/run.json").read_text())["ops"]["tf32"] == 8

    expected, first = train_network(weights, batches, to_tf32)
    exact, unrounded = train_network(weights, batches, lambda a: a.astype(np.float64))
    # Another order of f32 additions makes some values round to the other neighbor.
    assert get_distance(gradients, first) < 0.1 * get_distance(gradients, unrounded)
    assert np.abs(losses - expected).max() < 0.1 * np.abs(losses - exact).max()
    # The gradient of the last layer is one matmul away from equal values.
    last = "fc3.weight"
    np.testing.assert_allclose(
        gradients[last], first[last], rtol=0, atol=1e-6 * np.abs(first[last]).max()
    )


def test_the_reference_computes_the_same_gradients(model, tmp_path):
    step, given = tmp_path / "step.mlir", tmp_path / "in.safetensors"
    done = binade(
        "compile", model / "loss.onnx", "--policy", "tf32", "--optimizer", "sgd",
        "--lr", 1, "--to", "materialize", "-o", step,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    weights = safetensors.load(model / "weights.safetensors")
    batches = np.load(model / "inputs.npz")
    batch = {n: np.ascontiguousarray(batches[n][0]) for n in batches}
    safetensors.save(given, weights | batch)
    gradients = []
    for backend in ("reference", "cpu"):
        out = tmp_path / f"{backend}.safetensors"
        command = [EVAL, step, "--inputs", given, "--backend", backend, "--out", out]
        subprocess.run(command, check=True, timeout=600)
        updated = safetensors.load(out)
        gradients.append({n: w - updated[n] for n, w in weights.items()})
    _, exact = run_network(weights, batch["x"], batch["labels"], np.asarray)
    distance = get_distance(*gradients)
    assert distance < 0.1 * get_distance(gradients[0], exact)
