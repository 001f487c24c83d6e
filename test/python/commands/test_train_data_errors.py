"""Data, batches and initial values that do not fit a model end `binade train` before the
first step, with the exit code of docs/ExitCodes.md."""

import json
import pathlib
import re

import numpy as np
import pytest
from support.reference import binade, safetensors
from support.train_commands import MINI, WINDOW, refuse, train


@pytest.fixture(scope="session")
def step(tmp_path_factory) -> pathlib.Path:
    """Compiles the small example."""
    bundle = tmp_path_factory.mktemp("bundle") / "mini.bnd"
    process = binade("compile", MINI, "-o", bundle)
    assert process.returncode == 0, process.stderr
    return bundle


@pytest.fixture
def data(tmp_path) -> pathlib.Path:
    path = tmp_path / "data.safetensors"
    tokens = np.arange(16 * 128 + 1, dtype=np.uint8) % 94
    safetensors.save(path, {"tokens": tokens})
    return path


def test_valid_data_are_accepted(step, data, tmp_path):
    process = train(step, data, "--window", WINDOW, out=tmp_path / "run")
    assert process.returncode == 0, process.stderr
    assert {re.sub(r"\d+", "N", p.name) for p in (tmp_path / "run").iterdir()} == {
        "events.out.tfevents.N.binade",
        "final.safetensors",
        "lock",
        "metrics.jsonl",
        "run.json",
        "run.yaml",
    }
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert sum(about["ledger"].values()) == about["arena_bytes"]
    assert "memory " in process.stdout and "step 1/1" in process.stdout


BATCH = {
    "input_ids": np.zeros((16, 128), np.int64),
    "labels": np.zeros((16, 128), np.int64),
}


def with_one(number):
    """Returns a batch of zeros with one other element."""
    values = np.zeros((16, 128), np.int64)
    values[5, 7] = number
    return values


WRONG_DATA = {
    "name": ({"ids": BATCH["input_ids"], "labels": BATCH["labels"]}, ["input_ids"]),
    "shape": (BATCH | {"labels": np.zeros((16, 127), np.int64)}, ["127", "128"]),
    "dtype": (BATCH | {"labels": np.zeros((16, 128), np.float32)}, ["F32", "I64"]),
    "too few samples": ({n: a[:15] for n, a in BATCH.items()}, ["15", "16"]),
    "different counts": (
        BATCH | {"labels": np.zeros((32, 128), np.int64)},
        ["16", "32"],
    ),
    "label": (
        BATCH | {"labels": with_one(94)},
        ["sample 5, element 7 is 94", "'labels' allows 0 to 93 and -100"],
    ),
    "token": (
        BATCH | {"input_ids": with_one(-1)},
        ["sample 5, element 7 is -1", "'input_ids' allows 0 to 93"],
    ),
}


@pytest.mark.parametrize("kind", WRONG_DATA)
def test_invalid_data_are_refused(kind, step, tmp_path):
    tensors, words = WRONG_DATA[kind]
    path, out = tmp_path / "wrong.safetensors", tmp_path / "run"
    safetensors.save(path, tensors)
    refuse(train(step, path, out=out), 3, "wrong.safetensors", *words, out=out)


def test_missing_and_damaged_files_are_refused(step, data, tmp_path):
    out = tmp_path / "run"
    files = {
        "absent": None,
        "folder": None,
        "empty": b"",
        "text": b"hello, world\n",
        "short": data.read_bytes()[:20],
        "cut": data.read_bytes()[:-1],
    }
    (tmp_path / "folder").mkdir()
    for name, content in files.items():
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        refuse(train(step, path, out=out), 3, f"{name}: error: ", out=out) if (
            name != "cut"
        ) else refuse(train(step, path, out=out), 3, "cut:tensor 'tokens'", out=out)
        refuse(
            train(step, data, "--window", WINDOW, "--init", path, out=out),
            3,
            name,
            out=out,
        )
    for name, content in files.items():
        if name not in ("short", "cut"):  # These two are safetensors files.
            refuse(
                train(tmp_path / name, data, out=out), 3, f"{name}: error: ", out=out
            )
    for name, source in (("cut.bnd", step), ("cut.onnx", MINI)):
        path = tmp_path / name
        path.write_bytes(source.read_bytes()[:-1])
        refuse(train(path, data, out=out), 3, name, out=out)


def test_a_wrong_batch_size_is_refused(step, data, tmp_path):
    out = tmp_path / "run"
    process = train(step, data, "--window", WINDOW, "--batch", 4, out=out)
    refuse(process, 3, "4", "16", out=out)


def test_invalid_init_files_are_refused(step, data, tmp_path):
    other, out = tmp_path / "other.safetensors", tmp_path / "run"
    for tensors, words in (
        ({"nothing": np.zeros(3, np.float32)}, ["lacks 53 of the model's 53"]),
        ({"token.weight": np.zeros((94, 3), np.float32)}, ["F32 [94, 3]", "[94, 128]"]),
        (
            {"token.weight": np.zeros((94, 128), np.int32)},
            ["I32 [94, 128]", "F32 [94, 128]"],
        ),
        (
            {
                "head.weight": np.zeros((2, 3), np.float32),
                "token.weight": np.zeros((94, 3), np.float32),
            },
            [
                "'token.weight': error: F32 [94, 3]",
                "also tensor 'head.weight': F32 [2, 3]",
            ],
        ),
    ):
        safetensors.save(other, tensors)
        process = train(step, data, "--window", WINDOW, "--init", other, out=out)
        refuse(process, 3, "other.safetensors", *words, out=out)


def test_a_non_finite_loss_stops_a_run(step, data, tmp_path):
    """The exit code is 4, and the last finite state is kept."""
    final = tmp_path / "run" / "final.safetensors"
    train(step, data, "--window", WINDOW, out=tmp_path / "run")
    state = safetensors.load(final)
    state["head.weight"][0, 0] = np.inf
    broken = tmp_path / "broken.safetensors"
    safetensors.save(broken, state)
    out = tmp_path / "second"
    process = train(step, data, "--window", WINDOW, "--init", broken, out=out)
    assert process.returncode == 4, process.stderr
    assert "step 1" in process.stderr and "final.safetensors" in process.stderr
    kept = safetensors.load(out / "final.safetensors")
    np.testing.assert_array_equal(kept["head.weight"], state["head.weight"])
    np.testing.assert_array_equal(kept["token.weight"], state["token.weight"])


SCALAR_INPUT = """
func.func @forward(
    %w: tensor<3x4xf32> {binade.role = #binade.role<parameter>, binade.name = "w",
                         binade.init = dense<2.0> : tensor<3x4xf32>},
    %x: tensor<3x4xf32> {binade.role = #binade.role<batch>, binade.name = "x"},
    %t: tensor<f32> {binade.role = #binade.role<batch>, binade.name = "scale"})
    -> (tensor<f32> {binade.role = #binade.role<metric>, binade.name = "loss"}) {
  %y = binade.mul %x, %w : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %s = binade.reduce_sum %y {axes = array<i64: 0, 1>}
     : (tensor<3x4xf32>) -> tensor<f32>
  %loss = binade.mul %s, %t : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %loss : tensor<f32>
}
"""


def test_a_scalar_input_needs_a_constant(tmp_path):
    """A scalar cannot come from a data file, whose tensors have one row per sample."""
    module, bundle, out = (tmp_path / n for n in ("step.mlir", "step.bnd", "run"))
    module.write_text(SCALAR_INPUT)
    arguments = ["--from=import", "--optimizer", "sgd", "-o", bundle]
    process = binade("compile", module, *arguments)
    assert process.returncode == 0, process.stderr
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    data, constant = tmp_path / "data.safetensors", tmp_path / "scale.safetensors"
    safetensors.save(data, {"x": x, "scale": np.float32(3)})
    process = train(bundle, data, out=out)
    refuse(process, 3, "data.safetensors", "'scale' []", "--const", out=out)
    safetensors.save(constant, {"scale": np.ones(1, np.float32)})
    given = ["--const", f"scale={constant}"]
    process = train(bundle, data, *given, out=out)
    refuse(process, 3, "scale.safetensors", "shape [1]", "is []", out=out)
    safetensors.save(constant, {"scale": np.float32(3)})
    process = train(bundle, data, *given, out=out)
    assert process.returncode == 0, process.stderr
    metrics = json.loads((out / "metrics.jsonl").read_text())
    assert metrics["loss"] == 3 * (2 * x).sum()
