"""Small language models whose states are in 8 bits with a linear code book: Muon learns from
the text, AdamW does not. Character counts of the text give the losses to compare with."""

import json
import subprocess
import sys

import numpy as np
import pytest
from support.paths import ROOT
from support.reference import binade, safetensors
from support.train_commands import MINI, WINDOW

SCHEDULE = "lr=base * warmup(step, 20) * cosine(step - 20, steps - 20)"
RATES = {"muon": 2e-2, "adamw": 2e-3}
NAMES = ("train", "train.held-out")


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    prepare = ROOT / "examples/char-gpt/prepare.py"
    command = [sys.executable, prepare, "--out", folder, "--held-out", "0.035"]
    subprocess.run(command, check=True, capture_output=True)
    return {name: folder / f"{name}.safetensors" for name in NAMES}


def train(optimizer, text, out, *flags):
    process = binade(
        "train", MINI, "--data", text["train"], "--eval-data", text["train.held-out"],
        "--window", WINDOW, "--schedule", SCHEDULE, "--policy", "bf16-amp", "--optimizer",
        optimizer, "--lr", RATES[optimizer], "--steps", 60, "--out", out, *flags,
    )  # fmt: skip
    assert process.returncode in (0, 4), process.stderr
    return process


def measure_frequencies(text):
    """Returns the loss of a model that only knows the frequencies of characters."""
    tokens, held_out = (safetensors.load(text[name])["tokens"] for name in NAMES)
    counts = np.bincount(tokens, minlength=94) + 1
    return -np.log(counts / counts.sum())[held_out].mean()


@pytest.mark.parametrize("optimizer, states", [
    ("muon", "linear8"), ("adamw", "f32"), ("adamw", "linear8")
])  # fmt: skip
def test_only_adamw_needs_more_than_a_linear_code_book(
    optimizer, states, text, tmp_path
):
    process = train(optimizer, text, tmp_path / "run", "--states", f"*:{states}")
    frequencies = measure_frequencies(text)
    if (optimizer, states) != ("adamw", "linear8"):
        loss = float(process.stdout.rpartition("eval_loss ")[2].split()[0])
        assert process.returncode == 0 and loss < frequencies - 0.5
        return
    # Some seeds end with a loss that is not finite, the others learn nothing.
    log = (tmp_path / "run/metrics.jsonl").read_text().splitlines()
    losses = [json.loads(line)["loss"] for line in log[-5:]]
    assert process.returncode == 4 or np.median(losses) > frequencies
