"""Healthy runs with all rules raise no alarm."""

import os
import subprocess
import sys

import numpy as np
import pytest
from support.paths import MODELS, ROOT
from support.reference import binade, safetensors

SECONDS = 3600  # Timeout of the longest run, on a busy machine.
DATA = {
    "mlp-digits": (1000, 3e-3), "detector-tiny": (150, 1e-3),
    # The gradient of a key's bias is 0 up to rounding, and most rows of an embedding
    # have no gradient.
    "gpt2-tiny": (300, 1e-3), "lstm-char": (150, 1e-3),
}  # fmt: skip


def train(model, data, policy, out, steps, lr, *more):
    process = binade(
        "train", model, "--data", data, "--policy", policy, "--lr", lr, "--steps",
        steps, "--out", out, "--alarms", "all", *more, timeout=SECONDS,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    assert "alarm" not in process.stderr
    assert not (out / "alarms.jsonl").exists()
    # The rules had statistics to evaluate.
    assert binade("alarms", out, "--alarms", "all").stdout == "no alarm\n"
    assert (out / "stats.jsonl").stat().st_size > 0


@pytest.mark.parametrize(
    "name, policy",
    [
        *(
            ("mlp-digits", policy)
            for policy in ("fp32", "bf16-amp", "fp16-amp", "coat")
        ),
        pytest.param("detector-tiny", "fp16-amp", marks=pytest.mark.nightly),
        pytest.param("detector-tiny", "bf16-amp", marks=pytest.mark.nightly),
        pytest.param("gpt2-tiny", "fp16-amp", marks=pytest.mark.nightly),
        pytest.param("lstm-char", "fp16-amp", marks=pytest.mark.nightly),
    ],
)
def test_shared_models(tmp_path, name, policy):
    if not (MODELS / name).is_dir():
        pytest.skip(f"no {name} in $BINADE_MODELS")
    inputs = np.load(MODELS / name / "inputs.npz")
    # Ten batches become the samples of one file.
    samples = {k: v.reshape(-1, *v.shape[2:]) for k, v in inputs.items()}
    safetensors.save(tmp_path / "data.safetensors", samples)
    steps, lr = DATA[name]
    model = MODELS / name / "loss.onnx"
    train(model, tmp_path / "data.safetensors", policy, tmp_path / "run", steps, lr)


@pytest.mark.nightly
@pytest.mark.parametrize("policy", ["fp32", "bf16-amp", "fp16-amp"])
def test_a_char_gpt(tmp_path, policy):
    example = ROOT / "examples" / "char-gpt"
    subprocess.run(
        [sys.executable, example / "prepare.py", "--out", tmp_path],
        check=True, env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
    )  # fmt: skip
    train(example / "mini.onnx", tmp_path / "train.safetensors", policy,
          tmp_path / "run", 300, 3e-3,
          "--window", "input_ids=tokens[0:128],labels=tokens[1:129]")  # fmt: skip
