"""A run that is killed while it switches its policy resumes with the same bits."""

import os
import signal
import subprocess
import time

import pytest
from support.alarm_runs import (
    COLLAPSE,
    STEPS,
    lose_time,
    train,
    train_switched,
    write_inputs,
)
from support.faults import build_shim, check_is_clean, make_fault
from support.paths import BUILD

pytest.importorskip("onnx")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alarms")
    write_inputs(folder)
    return folder


@pytest.fixture(scope="module")
def switched(folder, tmp_path_factory):
    run = tmp_path_factory.mktemp("switched") / "run"
    train_switched(folder, run)
    return run


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    return build_shim(tmp_path_factory.mktemp("shim"))


def make_command(folder, run, *more):
    words = [
        BUILD / "bin/binade", "train", folder / "model.onnx",
        "--data", folder / "data.safetensors", "--order", "sequential",
        "--optimizer", "adamw", "--lr", 0.01, "--steps", STEPS, "--policy", "fp16-amp",
        "--on-alarm", f"switch:{folder / 'other.yaml'}", "--save-every", 2, "--out", run,
        *more,
    ]  # fmt: skip
    return [str(word) for word in words]


def execute(command, fault):
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=300, env=fault
    )
    return done.returncode


def resume(folder, run):
    """Runs the same command with --resume, which must succeed."""
    words = ["--on-alarm", f"switch:{folder / 'other.yaml'}", "--save-every", 2]
    train(folder, run, *words, resume=True)


def check_same(run, unbroken):
    assert lose_time(run) == lose_time(unbroken)
    for name in ("final.safetensors", "alarms.jsonl"):
        assert (run / name).read_bytes() == (unbroken / name).read_bytes()
    check_is_clean(run)


@pytest.fixture(scope="module")
def moments(folder, switched, shim, tmp_path_factory):
    """Returns the numbers of two file-system calls: the first on alarms.jsonl, and the
    one that records the next step."""
    place = tmp_path_factory.mktemp("moments")
    run, trace = place / "runs" / "run", place / "trace"
    run.parent.mkdir()
    fault = make_fault(shim, run, "any", 0) | {"FAULT_TRACE": str(trace)}
    assert execute(make_command(folder, run), fault) == 0
    check_same(run, switched)
    calls = [line.split(" ", 1) for line in trace.read_text().splitlines()]
    alarmed = next(
        i for i, (_, path) in enumerate(calls) if path.endswith("alarms.jsonl")
    )
    steps = [i for i, (_, path) in enumerate(calls) if path.endswith("metrics.jsonl")]
    after = next(i for i in steps if i > alarmed and calls[i][0] == "write")
    inside = calls[alarmed:after]
    # Two checkpoints: one of the old policy, and the same one converted.
    assert sum(path.endswith("manifest.json") for _, path in inside) == 2
    return alarmed + 1, after + 1


def kill_at(at, folder, shim, run):
    """Kills a run in its file-system call number `at`, and resumes it."""
    fault = make_fault(shim, run, "any", at, "KILL")
    assert execute(make_command(folder, run), fault) == -signal.SIGKILL
    resume(folder, run)


@pytest.mark.parametrize("share", [0.0, 0.35, 0.7, 1.0])
def test_a_run_killed_in_a_switch(share, moments, folder, switched, shim, tmp_path):
    first, last = moments
    run = tmp_path / "runs" / "run"
    run.parent.mkdir()
    kill_at(first + round(share * (last - first)), folder, shim, run)
    check_same(run, switched)


@pytest.mark.nightly
def test_a_run_killed_in_each_call_of_a_switch(
    moments, folder, switched, shim, tmp_path
):  # fmt: skip
    for at in range(moments[0], moments[1] + 1):
        run = tmp_path / f"at-{at}" / "run"
        run.parent.mkdir()
        kill_at(at, folder, shim, run)
        check_same(run, switched)


def test_a_run_killed_while_it_compiles_for_the_other_policy(
    folder, switched, tmp_path
):
    """Kills the process as soon as the checkpoint that starts the switch exists."""
    run = tmp_path / "run"
    process = subprocess.Popen(
        make_command(folder, run), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while not (run / f"checkpoints/step-{COLLAPSE:06d}/manifest.json").exists():
        assert process.poll() is None
        time.sleep(0.001)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait(600) == -signal.SIGKILL
    resume(folder, run)
    check_same(run, switched)
