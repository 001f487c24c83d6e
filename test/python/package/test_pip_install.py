"""`pip install .` in a clean clone gives a package that trains outside of it."""

import json
import subprocess

import numpy as np
import pytest
from support.paths import ROOT
from support.reference import safetensors

pytestmark = pytest.mark.nightly  # It compiles Binade: six minutes on two cores.


def call(*command, **options):
    done = subprocess.run(
        [*map(str, command)], capture_output=True, text=True, check=False, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    place = tmp_path_factory.mktemp("installed")
    call("git", "clone", "--quiet", ROOT, place / "clone")
    call("/usr/bin/python3", "-m", "venv", place / "venv")
    call(place / "venv/bin/pip", "install", "--quiet", ".", cwd=place / "clone")
    return place / "venv/bin"


def test_the_program_names_the_commit(installed, tmp_path):
    commit = call("git", "rev-parse", "HEAD", cwd=ROOT).strip()
    printed = call(installed / "binade", "--version", cwd=tmp_path)
    (named,) = [
        line.split()[1] for line in printed.splitlines() if line.startswith("commit ")
    ]
    assert commit.startswith(named)


def test_program_and_package_train_alike(installed, tmp_path):
    x = np.random.default_rng(0).standard_normal((64, 16), np.float32)
    safetensors.save(tmp_path / "d.safetensors", {"x": x, "labels": (x > 0).sum(1) % 4})
    model = ROOT / "examples/mlp/mlp.onnx"
    settings = [
        "--loss",
        "cross_entropy(prediction, labels)",
        "--data",
        "d.safetensors",
    ]
    losses = []
    for run, start in (
        ("program", [installed / "binade"]),
        ("package", [installed / "python", "-m", "binade"]),
    ):
        call(*start, "train", model, *settings, "--steps", "3", "--threads", "1",
             "--out", run, cwd=tmp_path)  # fmt: skip
        lines = (tmp_path / run / "metrics.jsonl").read_text().splitlines()
        losses.append([json.loads(line)["loss"] for line in lines])
    assert len(losses[0]) == 3 and losses[0] == losses[1]
