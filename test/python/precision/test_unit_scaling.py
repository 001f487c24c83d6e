"""Unit scaling: constant powers of two for operands, from a rule table or recorded ranges."""

import json
import math

import numpy as np
import pytest
from support.explanations import explain
from support.paths import ROOT
from support.reference import binade, safetensors
from support.unit_scaling import expect_exponents

RESNET = ROOT / "examples/resnet/resnet.onnx"
MINI = ROOT / "examples/char-gpt/mini.onnx"
PRODUCTS = "[matmul, conv, conv_input_grad, conv_weight_grad]"
UNIT_F32 = f"""name: unit-f32
narrow: f32
wide: f32
rules:
- match: {{ op: {PRODUCTS} }}
  unit_scale: {{ activation: f32, weight: f32, gradient: f32 }}
"""
MLP = ROOT / "examples/mlp/mlp.onnx"
LOSS = ["--loss", "cross_entropy(prediction, labels)"]


def make_model(name, folder):
    """A model, its data and options of `binade train`: a transformer, a convolution network
    with normalization, and a perceptron without."""
    random = np.random.default_rng(0)
    if name == "transformer":
        # A text with structure: each token follows from the one before in three of four cases.
        tokens = [0]
        for draw in random.random(40000):
            tokens.append(
                (tokens[-1] * 5 + 7) % 94 if draw < 0.75 else int(draw * 376) % 94
            )
        data, model = {"tokens": np.array(tokens, np.uint8)}, MINI
        window = "input_ids=tokens[0:128],labels=tokens[1:129]"
        options = ["--window", window, "--optimizer", "adamw", "--lr", "3e-3"]
    elif name == "convolution":
        digits = np.load(ROOT / "examples/resnet/digits.npz")
        images = digits["images"][:1280, None].astype(np.float32) / 8 - 1
        data, model = (
            {"images": images, "labels": digits["target"][:1280].astype(np.int64)},
            RESNET,
        )
        options = ["--optimizer", "sgd", "--lr", "0.05"]
    else:
        x = random.standard_normal((320, 16)).astype(np.float32)
        labels = (x @ random.standard_normal((16, 4))).argmax(1).astype(np.int64)
        data, model = {"x": x, "labels": labels}, MLP
        options = [*LOSS, "--optimizer", "sgd", "--lr", "0.2"]
    safetensors.save(folder / "data.safetensors", data)
    return model, [
        "--data",
        folder / "data.safetensors",
        "--order",
        "sequential",
        *options,
    ]


def train(model, options, policy, steps, folder):
    """The losses and the final state of a run."""
    done = binade(
        "train", model, *options, "--policy", policy, "--steps", steps, "--seed", 0,
        "--out", folder / "run", "--overwrite",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = (folder / "run/metrics.jsonl").read_text().splitlines()
    losses = np.array([json.loads(line)["loss"] for line in lines])
    return losses, safetensors.load(folder / "run/final.safetensors")


def get_exponents(report):
    found = {}
    for op in report["ops"]:
        scaled = [o for o in op.get("operands") or () if isinstance(o, dict)]
        if scaled:
            key = op["name"].rsplit("/", 1)[0], op["phase"]
            found.setdefault(key, []).append([o["exponent"] for o in scaled])
    return found


def test_exponents_follow_the_rule_table():
    assert get_exponents(explain(MINI, "unit-fp16")) == expect_exponents()


@pytest.mark.parametrize("name", ["perceptron", "convolution", "transformer"])
def test_a_step_in_f32_keeps_every_bit(name, tmp_path):
    model, options = make_model(name, tmp_path)
    (tmp_path / "f32.yaml").write_text(UNIT_F32)
    steps = 2 if name == "transformer" else 8
    wide, expected = train(model, options, "fp32", steps, tmp_path)
    scaled, found = train(model, options, tmp_path / "f32.yaml", steps, tmp_path)
    np.testing.assert_array_equal(wide, scaled)
    assert expected.keys() == found.keys()
    for key, value in expected.items():
        assert value.tobytes() == found[key].tobytes(), key
    report = explain(model, tmp_path / "f32.yaml", *(LOSS if model == MLP else ()))
    flat = [
        e for pairs in get_exponents(report).values() for pair in pairs for e in pair
    ]
    assert max(flat) > 3  # Gradients are scaled.


# Losses differ from f32's by rounding, which grows with the steps; FP8 has 2 to 3 bits.
BOUNDS = {"unit-fp16": 0.01, "unit-fp8": 0.06, "munit-fp8": 0.06}
STEPS = {"perceptron": 40, "convolution": 40, "transformer": 8}


@pytest.mark.parametrize("name", STEPS)
def test_losses_without_a_scaler_follow_f32(name, tmp_path):
    model, options = make_model(name, tmp_path)
    wide, _ = train(model, options, "fp32", STEPS[name], tmp_path)
    assert wide[-4:].mean() < 0.9 * wide[0]
    for policy, bound in BOUNDS.items():
        losses, state = train(model, options, policy, STEPS[name], tmp_path)
        assert abs(losses[-4:].mean() - wide[-4:].mean()) < bound * wide[0], policy
        assert not any(key.startswith("scaler/") for key in state)


def test_recorded_ranges_replace_the_table(tmp_path):
    model, options = make_model("perceptron", tmp_path)
    record = tmp_path / "ranges.json"
    train(model, [*options, "--record", f"ranges={record}"], "fp32", 2, tmp_path)
    report = explain(model, "unit-fp16", "--ranges", record, *LOSS)
    seen = {
        v["value"]: v["exponents"] for v in json.loads(record.read_text())["values"]
    }
    count = 0
    for op in report["ops"]:
        for operand in op.get("operands") or ():
            if isinstance(operand, dict) and operand["rule"] == "recorded":
                numbers = seen[operand["value"]]
                squares = sum(n * 7 / 3 * 4.0 ** int(e) for e, n in numbers.items())
                rms = math.sqrt(squares / sum(numbers.values()))
                assert operand["exponent"] == -round(math.log2(rms))
                count += 1
    assert count >= 7
    losses, _ = train(model, [*options, "--ranges", record], "unit-fp8", 8, tmp_path)
    assert np.isfinite(losses).all()
