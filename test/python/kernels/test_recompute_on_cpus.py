"""Values that a CPU recomputes in the backward pass, without a budget."""

import json

import numpy as np
import pytest
from support.message_models import write
from support.reference import binade, safetensors

LAYERS, MIB = 24, 1 << 20


def write_model(path, rows, width):
    """Writes a stack of norms and square layers with residual connections."""
    draw = np.random.default_rng(0)
    weights = {"ones": np.ones(width, np.float32), "zeros": np.zeros(width, np.float32)}
    body = "h0 = Identity(x)\n"
    for i in range(LAYERS):
        weights[f"w{i}"] = draw.standard_normal((width, width)).astype(np.float32) / 100
        body += (
            f"n{i} = LayerNormalization(h{i}, ones, zeros)\n"
            f"m{i} = MatMul(n{i}, w{i})\n"
            f"h{i + 1} = Add(h{i}, m{i})\n"
        )
    return write(
        path,
        body + f"loss = SoftmaxCrossEntropyLoss(h{LAYERS}, labels)",
        inputs=f"float[{rows}, {width}] x, int64[{rows}] labels",
        weights=weights,
        trainable=[name for name in weights if name.startswith("w")],
    )


def train(model, rows, width, out, *options):
    draw = np.random.default_rng(1)
    data = {
        "x": draw.standard_normal((rows, width)).astype(np.float32),
        "labels": draw.integers(0, width, rows),
    }
    safetensors.save(out.with_suffix(".safetensors"), data)
    process = binade(
        "train", model, "--data", out.with_suffix(".safetensors"), "--steps", 2,
        *options, "--out", out,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    ledger = json.loads((out / "run.json").read_text())["ledger"]
    return safetensors.load(out / "final.safetensors"), ledger["saved"]


# Of norms, the results take memory; of layers in bf16, the copies of their weights.
CASES = {
    "norms": (2048, 160, "fp32", 4 * 2048 * 160),
    "weights": (16, 768, "bf16-amp", 2 * 768 * 768),
}


@pytest.mark.parametrize("case", CASES)
def test_a_run_has_the_same_bits_in_less_memory(case, tmp_path):
    """With a budget of 100 %, nothing is recomputed."""
    rows, width, policy, size = CASES[case]
    assert size > MIB  # Smaller values are kept.
    model = write_model(tmp_path / "model.onnx", rows, width)
    kept, most = train(
        model, rows, width, tmp_path / "kept", "--policy", policy,
        "--activation-memory", "100%",
    )  # fmt: skip
    again, least = train(model, rows, width, tmp_path / "again", "--policy", policy)
    assert most - least >= LAYERS // 2 * size
    assert kept.keys() == again.keys()
    for name, value in kept.items():
        assert value.tobytes() == again[name].tobytes(), name


def test_values_that_are_needed_soon_are_kept(tmp_path):
    """The backward pass begins with the last layers, whose values exist anyway."""
    rows, width, policy, size = CASES["norms"]
    model = write_model(tmp_path / "model.onnx", rows, width)
    _, saved = train(model, rows, width, tmp_path / "run", "--policy", policy)
    inputs = LAYERS * size  # The operands of the norms are saved in any case.
    assert inputs + size <= saved <= inputs + LAYERS // 2 * size
