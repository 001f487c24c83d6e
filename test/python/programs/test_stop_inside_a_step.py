"""A signal or the end of `--max-seconds` inside a step of many batches: the current batch
is finished and the incomplete step is dropped. The run resumes after the last complete
step with the bits of an uninterrupted run."""

import os
import signal
import subprocess
import time

import pytest
from support.checkpoint_runs import Runs, check_equal, checkpoints, metrics
from support.paths import BUILD
from support.reference import binade, safetensors

BATCHES = 2000  # So many that the signal arrives inside a step.
METHODS = {
    "sums": [],
    "states": [
        "--optimizer",
        "sgd",
        "--set",
        "momentum=0.9",
        "--accumulate-in-momentum",
    ],
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs of a model with running statistics and dropout, which change with each batch."""
    return Runs(tmp_path_factory.mktemp("stop"))


def command(runs, policy, method, *more, batches=BATCHES, steps=2):
    return ["train", runs.model, "--data", runs.data, "--policy",
            runs.folder / f"{policy}.yaml", "--accumulate", batches, "--steps", steps,
            "--threads", 1, *METHODS[method], *more]  # fmt: skip


def interrupt(arguments, run, number):
    """Sends a signal after the first step, and returns the exit code."""
    words = [str(word) for word in [BUILD / "bin" / "binade", *arguments]]
    process = subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    lines = run / "metrics.jsonl"
    while not (lines.exists() and lines.read_text().count("\n")):
        assert process.poll() is None
        time.sleep(0.02)
    os.kill(process.pid, number)
    return process.wait(120)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("policy", ["f16", "bf16"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_incomplete_step_is_dropped(number, policy, method, runs, tmp_path):
    run, whole = tmp_path / "run", tmp_path / "whole"
    code = interrupt(
        command(runs, policy, method, "--out", run, steps=1000), run, number
    )
    assert code == 128 + number
    done = len(metrics(run))
    assert 1 <= done < 1000
    assert checkpoints(run)[-1] == f"step-{done:06d}"
    # The state equals that of a run that stopped after this step.
    process = binade(*command(runs, policy, method, "--stop-after", done, "--out", whole,
                              steps=1000))  # fmt: skip
    assert process.returncode == 0, process.stderr
    check_equal(run, whole)
    for one in (run, whole):
        process = binade(
            *command(runs, policy, method, "--resume", one, steps=done + 1)
        )
        assert process.returncode == 0, process.stderr
    check_equal(run, whole)
    assert safetensors.load(run / "final.safetensors")["step"] <= done + 1


@pytest.mark.parametrize("method", METHODS)
def test_a_signal_ends_a_very_long_step_at_once(method, runs, tmp_path):
    """No step is complete, so that the state is the initial one."""
    run, at_start = tmp_path / "run", tmp_path / "start"
    words = command(runs, "f16", method, "--out", run, batches=10**9)
    process = subprocess.Popen(
        [str(word) for word in [BUILD / "bin" / "binade", *words]],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while not (run / "metrics.jsonl").exists():
        assert process.poll() is None
        time.sleep(0.02)
    time.sleep(1)  # Some batches.
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert "stopped after step 0; " in out
    assert "one step reads the data more than once" in err and "has 6 batches" in err
    binade(*command(runs, "f16", method, "--out", at_start, batches=2, steps=0))
    ends = [safetensors.load(one / "final.safetensors") for one in (run, at_start)]
    assert all(ends[0][name].tobytes() == ends[1][name].tobytes() for name in ends[1])


@pytest.mark.parametrize("method", METHODS)
def test_a_time_limit_ends_a_very_long_step(method, runs, tmp_path):
    run, at_start = tmp_path / "run", tmp_path / "start"
    words = command(runs, "f16", method, "--out", run, batches=10**9)
    process = binade(*words, "--max-seconds", 0.5)
    assert process.returncode == 0, process.stderr
    assert "stopped after step 0; " in process.stdout
    assert metrics(run) == []
    binade(*command(runs, "f16", method, "--out", at_start, batches=2, steps=0))
    ends = [safetensors.load(one / "final.safetensors") for one in (run, at_start)]
    assert all(ends[0][name].tobytes() == ends[1][name].tobytes() for name in ends[1])


def test_sufficient_data_cause_no_warning(runs, tmp_path):
    process = binade(
        *command(runs, "f16", "sums", "--out", tmp_path / "run", batches=6)
    )
    assert process.returncode == 0 and "more than once" not in process.stderr
