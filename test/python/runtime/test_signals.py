"""A run that is stopped by a signal or a time limit saves its state and resumes with the bits
of an unbroken run; a run directory has only one writer."""

import os
import signal
import time

import pytest
from support.checkpoint_runs import (
    STEPS,
    Runs,
    check_equal,
    checkpoints,
    metrics,
    start,
)
from support.faults import build_shim, check_is_clean, make_fault
from support.reference import safetensors


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return Runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    return build_shim(tmp_path_factory.mktemp("shim"))


def finish(process):
    process.stdout.read()
    return process.wait(600)


def check_resumes(runs, run):
    """Checks that the last step has a checkpoint, and that resuming gives the same bits."""
    step = len(metrics(run))
    assert checkpoints(run)[-1] == f"step-{step:06d}"
    assert safetensors.load(run / "final.safetensors")["rng"][1] == step
    unbroken = run.with_name("unbroken")
    runs.train("--out", unbroken, steps=step + STEPS)
    process = runs.train("--resume", run, steps=step + STEPS)
    assert f"resumed after step {step}\n" in process.stdout
    check_equal(run, unbroken)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_the_state(number, runs, tmp_path):
    run = tmp_path / "run"
    process = start(runs, "--out", run)
    process.send_signal(number)
    assert "--resume" in process.stdout.read()
    assert process.wait(600) == 128 + number
    check_resumes(runs, run)


def test_a_second_signal_ends_the_run_immediately(runs, shim, tmp_path):
    """Even if saving after the first signal hangs."""
    run = tmp_path / "run"
    fault = make_fault(shim, run / "final.safetensors", "fsync", 1, "HANG")
    process = start(runs, "--out", run, env=fault)
    process.send_signal(signal.SIGINT)
    while not list(run.glob("final.safetensors.tmp-*")):
        assert process.poll() is None
        time.sleep(0.01)
    time.sleep(0.2)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert finish(process) == -signal.SIGINT
    assert "resumed after" in runs.train("--resume", run, "--max-seconds", 1,
                                         steps=10**6).stdout  # fmt: skip
    check_is_clean(run)


def test_a_closed_output_pipe_does_not_end_a_run(runs, tmp_path):
    run = tmp_path / "run"
    process = start(runs, "--out", run, steps=5000, every=0)
    process.stdout.close()
    # The last step is always printed, although the pipe is closed.
    assert process.wait(600) == 0
    assert len(metrics(run)) == 5000


def test_a_time_limit_saves_the_state(runs, tmp_path):
    run = tmp_path / "run"
    begun = time.monotonic()
    process = runs.train("--out", run, "--max-seconds", 0.5, steps=1000000)
    assert time.monotonic() - begun < 600
    assert "stopped after step" in process.stdout
    check_resumes(runs, run)


def test_a_run_has_one_writer(runs, tmp_path):
    run = tmp_path / "run"
    first = start(runs, "--out", run)
    while not list(run.glob("checkpoints/step-??????")):
        time.sleep(0.01)
    for where in ("--out", "--resume"):
        process = runs.train(where, run, code=8)
        assert f"in use by process {first.pid} on {os.uname().nodename}" in (
            process.stderr
        )
    assert first.poll() is None
    # The lock ends with its process, even if that is killed.
    first.kill()
    finish(first)
    step = len((run / "metrics.jsonl").read_text().splitlines())
    assert "resumed after" in runs.train("--resume", run, steps=step + 10).stdout
