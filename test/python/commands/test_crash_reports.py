"""Programs report a bug before a crash signal ends them: see docs/ExitCodes.md."""

import json
import re
import resource
import shlex
import signal
import subprocess
import time

import numpy as np
import pytest
from support.paths import BUILD
from support.reference import ONE_WEIGHT, binade, safetensors, write_model

SIGNALS = [signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT]
BIN = BUILD / "bin"
# Arguments with which tools wait for input from a pipe.
READS_STDIN = {
    "binade-opt": ["-"],
    "binade-translate": ["--import-onnx", "-"],
    "binade-lsp-server": [],
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    safetensors.save(folder / "data.safetensors", {"x": np.ones((8, 4), np.float32)})
    return write_model(folder, ONE_WEIGHT, ["weight"], np.eye(4))


@pytest.fixture(scope="module")
def bundle(model):
    path = model.with_name("step.bnd")
    done = binade("compile", model, "-o", path)
    assert done.returncode == 0, done.stderr
    return path


def start(*command):
    return subprocess.Popen(
        list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def start_training(program, model, folder, *flags):
    """Starts a long run; returns once its first steps are done."""
    run = folder / "run"
    process = start(
        *program, model, "--data", model.with_name("data.safetensors"), "--steps",
        10**8, "--out", run, *flags,
    )  # fmt: skip
    metrics = run / "metrics.jsonl"
    deadline = time.monotonic() + 60
    while not (metrics.exists() and metrics.stat().st_size):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    return process


def stop(process, number):
    process.send_signal(number)
    _, text = process.communicate(timeout=60)
    assert process.returncode == -number
    return text


def check(text, program, number):
    name = signal.Signals(number).name
    assert f"{program}: error: signal {int(number)} ({name}, " in text
    assert "which is a bug in Binade" in text
    assert f"{program}: note: please report it with the command and its files: " in text


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_crash_reports_of_training_name_the_model(number, model, tmp_path):
    process = start_training([BIN / "binade", "train"], model, tmp_path)
    text = stop(process, number)
    check(text, "binade", number)
    (line,) = [line for line in text.splitlines() if "files: " in line]
    assert str(model) in shlex.split(line.split("files: ")[1])


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_crash_reports_of_binade_run(number, bundle, tmp_path):
    process = start_training([BIN / "binade-run"], bundle, tmp_path)
    check(stop(process, number), "binade-run", number)


def test_crash_reports_as_json(bundle, tmp_path):
    process = start_training([BIN / "binade-run"], bundle, tmp_path, "--diag=json")
    lines = stop(process, signal.SIGSEGV).splitlines()
    (found,) = [json.loads(line) for line in lines if '"error"' in line]
    assert found["file"] == "binade-run" and "signal 11" in found["message"]
    assert found["exit_code"] == 128 + signal.SIGSEGV
    # A report of a signal in JSON has ASCII characters only.
    path = re.sub(rb"[^ -~]", b"?", str(bundle).encode()).decode()
    assert path in shlex.split(found["notes"][-1].split("files: ")[1])


@pytest.mark.parametrize("tool", READS_STDIN)
def test_crash_reports_of_llvm_tools(tool):
    process = start(BIN / tool, *READS_STDIN[tool])
    time.sleep(1.0)  # The tool prints nothing before it reads.
    check(stop(process, signal.SIGSEGV), tool, signal.SIGSEGV)


def test_crash_reports_of_a_stack_overflow(tmp_path):
    """The handler uses a separate stack and names the input file. MLIR's recursive parser
    overflows a stack of 64 KiB on deep input."""
    module = tmp_path / "deep.mlir"
    depth = 250
    module.write_text(f"module attributes {{a = {'[' * depth}{']' * depth}}} {{}}")

    def limit():
        resource.setrlimit(resource.RLIMIT_STACK, (64 << 10, resource.RLIM_INFINITY))

    done = subprocess.run(
        [BIN / "binade", "compile", module, "--from=optimizer", "-o", tmp_path / "out"],
        capture_output=True, text=True, check=False, preexec_fn=limit,
    )  # fmt: skip
    assert done.returncode == -signal.SIGSEGV
    check(done.stderr, "binade", signal.SIGSEGV)
    assert f"note: while in file '{module}'" in done.stderr
    assert not (tmp_path / "out").exists()


def test_bugs_are_one_class_of_errors_in_python():
    from binade.errors import InternalError, make_error

    error = make_error("a plan is wrong", 70, "model.onnx", "", "a plan is wrong", [])
    assert isinstance(error, InternalError) and error.exit_code == 70
