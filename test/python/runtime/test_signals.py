"""A run that meets a signal, a time limit or another process loses nothing that it has
saved, and resumes with the bits that it would have had."""

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
    """The run stopped after a step that has a checkpoint; forty more are the same."""
    step = len(metrics(run))
    assert checkpoints(run)[-1] == f"step-{step:06d}"
    assert safetensors.load(run / "final.safetensors")["rng"][1] == step
    unbroken = run.with_name("unbroken")
    runs.train("--out", unbroken, steps=step + STEPS)
    process = runs.train("--resume", run, steps=step + STEPS)
    assert f"resumed after step {step}\n" in process.stdout
    check_equal(run, unbroken)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves(number, runs, tmp_path):
    run = tmp_path / "run"
    process = start(runs, "--out", run)
    process.send_signal(number)
    assert "--resume" in process.stdout.read()
    assert process.wait(600) == 128 + number
    check_resumes(runs, run)


def test_the_second_signal_ends_at_once(runs, shim, tmp_path):
    """Also where what follows the first does not end."""
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


def test_a_reader_that_goes_away_ends_nothing(runs, tmp_path):
    run = tmp_path / "run"
    process = start(runs, "--out", run, steps=5000, every=0)
    process.stdout.close()
    # The last step is always shown.
    assert process.wait(600) == 0
    assert len(metrics(run)) == 5000


def test_time_ends_a_run_as_a_signal_does(runs, tmp_path):
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
    # The lock dies with its process, even so.
    first.kill()
    finish(first)
    step = len((run / "metrics.jsonl").read_text().splitlines())
    assert "resumed after" in runs.train("--resume", run, steps=step + 10).stdout
