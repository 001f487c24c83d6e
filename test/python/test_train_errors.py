"""Whatever is wrong with a command, a model or its data is said before the first step,
with the exit code of docs/ExitCodes.md and without leaving anything behind."""

import json
import pathlib
import signal
import subprocess

import numpy as np
import pytest
from reference import BUILD, ROOT, safetensors

MINI = ROOT / "examples" / "char-gpt" / "mini.onnx"
WINDOW = "input_ids=tokens[0:128],labels=tokens[1:129]"


def binade(*arguments):
    return subprocess.run(
        [str(BUILD / "bin" / "binade"), *map(str, arguments)],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip


@pytest.fixture(scope="session")
def step(tmp_path_factory) -> pathlib.Path:
    """The small example, compiled."""
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


def train(model, data, *more, out):
    return binade("train", model, "--data", data, "--steps", 1, "--out", out, *more)


def test_the_fixture_is_right(step, data, tmp_path):
    process = train(step, data, "--window", WINDOW, out=tmp_path / "run")
    assert process.returncode == 0, process.stderr
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        "final.safetensors",
        "metrics.jsonl",
        "run.json",
    }
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert sum(about["ledger"].values()) == about["arena_bytes"]
    assert "memory " in process.stdout and "step 1/1" in process.stdout


def refuse(process, code, *words, out):
    """`process` ended with `code`, said `words` in one error and wrote nothing."""
    assert process.returncode == code, process.stderr
    for word in words:
        assert word in process.stderr
    assert process.stderr.count("error:") == 1
    assert not out.exists()


BATCH = {
    "input_ids": np.zeros((16, 128), np.int64),
    "labels": np.zeros((16, 128), np.int64),
}


def with_one(number):
    """Zeros for a batch, but for one element."""
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
def test_wrong_data(kind, step, tmp_path):
    tensors, words = WRONG_DATA[kind]
    path, out = tmp_path / "wrong.safetensors", tmp_path / "run"
    safetensors.save(path, tensors)
    refuse(train(step, path, out=out), 3, "wrong.safetensors", *words, out=out)


def test_missing_and_damaged_files(step, data, tmp_path):
    out = tmp_path / "run"
    absent = tmp_path / "absent.safetensors"
    refuse(train(step, absent, out=out), 3, "absent.safetensors", out=out)
    cut = tmp_path / "cut.safetensors"
    cut.write_bytes(data.read_bytes()[:-1])
    refuse(train(step, cut, out=out), 3, "cut.safetensors", out=out)
    bundle = tmp_path / "cut.bnd"
    bundle.write_bytes(step.read_bytes()[:-1])
    refuse(train(bundle, data, out=out), 3, "cut.bnd", out=out)
    missing = tmp_path / "none.onnx"
    refuse(train(missing, data, out=out), 3, "none.onnx", out=out)


WRONG_COMMANDS = {
    "window": (["--window", "input_ids=tokens[5:"], ["--window"]),
    "policy": (["--policy", "fp17"], ["fp17", "bf16-amp"]),
    "optimizer": (["--optimizer", "adam"], ["'adam'", "adamw"]),
    "setting": (["--set", "lr=fast"], ["--set", "lr=fast"]),
    "dim": (["--dim", "batch"], ["--dim", "NAME=N"]),
    "clip": (["--clip", "-1"], ["--clip"]),
    "group": (["--group", "lr=1"], ["--group"]),
    "steps": (["--steps", "-1"], ["--steps"]),
    "const": (["--const", "x"], ["--const"]),
}


@pytest.mark.parametrize("kind", WRONG_COMMANDS)
def test_wrong_commands(kind, data, tmp_path):
    arguments, words = WRONG_COMMANDS[kind]
    out = tmp_path / "run"
    command = ["train", MINI, "--data", data, "--out", out]
    command += [] if "--steps" in arguments else ["--steps", 1]
    refuse(binade(*command, *arguments), 2, *words, out=out)


def test_options_that_come_too_late_for_a_bundle(step, data, tmp_path):
    out = tmp_path / "run"
    for option in (["--policy", "fp32"], ["--clip", "1"], ["--dim", "a=1"]):
        process = train(step, data, "--window", WINDOW, *option, out=out)
        refuse(process, 2, option[0], "a bundle", out=out)
    process = train(step, data, "--window", WINDOW, "--save-grads", 1, out=out)
    assert process.returncode == 2 and "--save-grads" in process.stderr


def test_unknown_settings_name_the_known_ones(data, tmp_path):
    out = tmp_path / "run"
    process = train(MINI, data, "--set", "momentum=0.9", out=out)
    refuse(process, 3, "momentum", "beta1", out=out)
    process = train(MINI, data, "--group", "*.nothing:lr=1", out=out)
    refuse(process, 3, "*.nothing", out=out)


def test_wrong_batch_and_symbolic_dimensions(step, data, tmp_path):
    out = tmp_path / "run"
    process = train(step, data, "--window", WINDOW, "--batch", 4, out=out)
    refuse(process, 3, "4", "16", out=out)
    refuse(train(MINI, data, "--dim", "time=3", out=out), 3, "time", out=out)


def test_init_file_without_a_known_name(step, data, tmp_path):
    other, out = tmp_path / "other.safetensors", tmp_path / "run"
    safetensors.save(other, {"nothing": np.zeros(3, np.float32)})
    process = train(step, data, "--window", WINDOW, "--init", other, out=out)
    refuse(process, 3, "other.safetensors", out=out)


def test_numbers_stop_a_run(step, data, tmp_path):
    """Exit code 4, and the last good state is kept."""
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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_run_after_its_step(number, step, data, tmp_path):
    out = tmp_path / "run"
    command = [BUILD / "bin" / "binade", "train", step, "--data", data, "--window",
               WINDOW, "--steps", "100000", "--out", out]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if line.startswith("step 1/"):
                break
        process.send_signal(number)
        process.stdout.read()
        assert process.wait(60) == 128 + number
    steps = len((out / "metrics.jsonl").read_text().splitlines())
    assert 0 < steps < 100000
    assert safetensors.load(out / "final.safetensors")["step"] == steps


def test_errors_as_json(tmp_path):
    process = binade("import", tmp_path / "none.onnx", "--diag", "json")
    record = json.loads(process.stderr)
    assert process.returncode == 3 and record["severity"] == "error"
    assert record["file"].endswith("none.onnx")


def test_a_directory_that_cannot_be_made(step, data, tmp_path):
    (tmp_path / "file").write_text("")
    out = tmp_path / "file" / "run"
    process = train(step, data, "--window", WINDOW, out=out)
    assert process.returncode in (3, 5) and "run" in process.stderr


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


def test_an_input_without_samples_is_constant(tmp_path):
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
