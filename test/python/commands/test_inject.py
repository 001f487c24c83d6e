"""`binade train --inject FILE@STEP` trains on batches from a file, starting at a step."""

import json

import numpy as np
import pytest
from support.reference import ONE_WEIGHT, binade, safetensors, write_model

pytest.importorskip("onnx")

F32 = np.float32
WEIGHT = np.linspace(-1, 1, 16, dtype=F32).reshape(4, 4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Six batches of two, three other batches, and the six with the others in their place."""
    folder = tmp_path_factory.mktemp("inject")
    write_model(folder, ONE_WEIGHT, ["weight"], WEIGHT)
    random = np.random.default_rng(9)
    x, others = (random.standard_normal((n, 4)).astype(F32) for n in (12, 6))
    mixed = x.copy()
    mixed[4:10] = others
    for name, data in {"x": x, "others": others, "mixed": mixed}.items():
        safetensors.save(folder / f"{name}.safetensors", {"x": data})
    return folder


def train(folder, data, *more, code=0):
    process = binade(
        "train", folder / "model.onnx", "--data", folder / f"{data}.safetensors",
        "--order", "sequential", "--optimizer", "sgd", "--lr", 0.1, "--steps", 6,
        *more,
    )  # fmt: skip
    assert process.returncode == code, process.stderr
    return process


def final(run):
    return safetensors.load(run / "final.safetensors")["weight"].tobytes()


def test_injected_batches_replace_others(folder, tmp_path):
    file = folder / "others.safetensors"
    train(folder, "mixed", "--out", tmp_path / "mixed")
    train(folder, "x", "--out", tmp_path / "x")
    train(folder, "x", "--inject", f"{file}@3", "--out", tmp_path / "injected")
    assert final(tmp_path / "injected") == final(tmp_path / "mixed")
    assert final(tmp_path / "injected") != final(tmp_path / "x")


def test_a_resumed_run_needs_the_same_injection(folder, tmp_path):
    """The run resumes between injected batches. Without --inject it would be another run."""
    inject = ["--inject", f"{folder / 'others.safetensors'}@3"]
    run = tmp_path / "run"
    train(folder, "mixed", "--out", tmp_path / "mixed")
    train(folder, "x", *inject, "--out", run, "--stop-after", 4)
    process = train(folder, "x", "--resume", run, code=3)
    assert "injection 1 at step 3" in process.stderr
    train(folder, "x", *inject, "--resume", run)
    assert final(run) == final(tmp_path / "mixed")


def test_two_injections_at_one_step_are_recorded(folder, tmp_path):
    """A resume with only the second injection is refused: it would be another run."""
    first, second = (
        ["--inject", f"{folder / name}.safetensors@3"] for name in ("others", "mixed")
    )
    run = tmp_path / "run"
    train(folder, "x", *first, *second, "--out", run, "--stop-after", 4)
    process = train(folder, "x", *second, "--resume", run, code=3)
    assert "injection 2 at step 3" in process.stderr
    about = json.loads((run / "run.json").read_text())
    paths = [file["path"] for file in about["invocations"][0]["files"].values()]
    assert {
        str(folder / f"{name}.safetensors") for name in ("x", "others", "mixed")
    } <= set(paths)


@pytest.mark.parametrize("text", ["others", "@3", "others@0", "others@x"])
def test_invalid_injections_are_rejected(folder, tmp_path, text):
    process = train(folder, "x", "--inject", text, "--out", tmp_path / "run", code=2)
    assert f"--inject expects FILE@N, where N is a step from 1 on, got '{text}'" in (
        process.stderr
    )
