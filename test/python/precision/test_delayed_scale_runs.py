"""Training with delayed scales: checkpoints contain the amax histories, accumulated batches
update them, and explain names them."""

import json
import re

import numpy as np
import pytest
from support.paths import ROOT
from support.reference import binade, safetensors


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    pytest.importorskip("torch")
    pytest.importorskip("onnxscript", reason="PyTorch's exporter needs onnxscript")
    from support.accumulated_runs import Files

    return Files("gpt", tmp_path_factory.mktemp("delayed"))


def train(model, out, *more, policy="fp8-delayed", steps=4, begin="--out"):
    process = binade(
        "train", model.model, "--data", model.path, "--order", "sequential",
        "--policy", policy, "--lr", 1e-3, "--steps", steps, begin, out, *more,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    lines = (out / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line)["loss"] for line in lines]


def test_checkpoints_contain_amax_histories(model, tmp_path):
    whole = train(model, tmp_path / "whole")
    train(model, tmp_path / "parts", "--save-every", 2, steps=2)
    assert train(model, tmp_path / "parts", begin="--resume") == whole
    ends = [
        (tmp_path / n / "final.safetensors").read_bytes() for n in ("whole", "parts")
    ]
    assert ends[0] == ends[1]
    final = safetensors.load(tmp_path / "whole/final.safetensors")
    kept = {name: v for name, v in final.items() if name.startswith("amax_history/")}
    weights = {n: v for n, v in kept.items() if "parameter" in n}
    assert weights and len(kept) > len(weights)
    # The first of four steps read the initial weights of the model.
    start = {n: p.detach().numpy() for n, p in model.net.named_parameters()}
    for name, history in weights.items():
        assert history.shape == (1023,) and not history[:-4].any()
        parameter = re.search(r"parameter '?(.*?)'? in ", name)[1]
        assert history[-4] == np.abs(start[parameter]).max()


def test_losses_are_close_to_those_of_current_scales(model, tmp_path):
    delayed = train(model, tmp_path / "run")
    current = train(model, tmp_path / "current", policy="fp8-current")
    np.testing.assert_allclose(delayed, current, rtol=2e-2)


def test_accumulated_batches_enter_the_history(model, tmp_path):
    """Each accumulated batch adds an entry to the history; evaluation adds none."""
    train(model, tmp_path / "run", "--accumulate", 2, "--eval-data", model.path,
          "--eval-every", 1, steps=2)  # fmt: skip
    final = safetensors.load(tmp_path / "run/final.safetensors")
    kept = [v for name, v in final.items() if name.startswith("amax_history/")]
    assert kept and all(np.count_nonzero(v) == 4 for v in kept)


def test_explain_names_delayed_scales(model):
    process = binade("explain", model.model, "--policy", "fp8-delayed")
    assert process.returncode == 0, process.stderr
    operands = "operands f8E5M2 per tensor delayed x f8E4M3FN per tensor delayed"
    assert operands in process.stdout


def test_a_history_with_a_scale_per_group_is_rejected(tmp_path):
    (tmp_path / "f.yaml").write_text(
        "summary: s\nelement: f8E4M3FN\ngroup: 128\nhistory: 16\n"
    )
    process = binade(
        "compile", ROOT / "examples/char-gpt/mini.onnx", "--states",
        tmp_path / "f.yaml", "-o", tmp_path / "m.bnd",
    )  # fmt: skip
    assert process.returncode == 3
    assert (
        "a history needs at least one step, and one scale per tensor" in process.stderr
    )
