"""A run gives the same bits with any number of threads, and each time."""

import hashlib

import numpy as np
import pytest
from support.paths import ROOT
from support.reference import binade, safetensors

MINI = ROOT / "examples" / "char-gpt" / "mini.onnx"
STEPS = 3


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("threads") / "data.safetensors"
    tokens = np.random.default_rng(0).integers(0, 94, 16 * 128 * STEPS + 1)
    safetensors.save(path, {"tokens": tokens.astype(np.uint8)})
    return path


@pytest.fixture(scope="module", params=["fp32", "bf16-amp", "fp16-amp"])
def bundle(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("threads") / f"{request.param}.bnd"
    process = binade("compile", MINI, "--policy", request.param, "-o", path)
    assert process.returncode == 0, process.stderr
    return path


def hash_of(bundle, data, out, threads, monkeypatch, contraction):
    """Trains and returns the hash of the final state."""
    monkeypatch.setenv("BINADE_CONTRACTION", contraction)
    process = binade(
        "train", bundle, "--data", data, "--window",
        "input_ids=tokens[0:128],labels=tokens[1:129]", "--steps", STEPS,
        "--threads", threads, "--out", out,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    return hashlib.sha256((out / "final.safetensors").read_bytes()).hexdigest()


def test_bits_do_not_depend_on_threads(bundle, data, tmp_path, monkeypatch):
    """Uses Binade's own contractions, because library calls may depend on threads."""
    hashes = {
        threads: hash_of(
            bundle, data, tmp_path / f"{threads}", threads, monkeypatch, "own"
        )
        for threads in (1, 2, 4)
    }
    assert len(set(hashes.values())) == 1, hashes


def test_two_runs_have_the_same_bits(bundle, data, tmp_path, monkeypatch):
    hashes = {
        hash_of(bundle, data, tmp_path / f"{run}", 2, monkeypatch, "auto")
        for run in (1, 2)
    }
    assert len(hashes) == 1
