"""A run whose system calls fail or whose process is killed loses no checkpoint, and resumes
with the bits of an unbroken run."""

import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import time

import pytest
from support.checkpoint_runs import (
    EVERY,
    Runs,
    check_equal,
    checkpoints,
    start,
)
from support.faults import build_shim, check_is_clean, make_fault
from support.paths import BUILD
from support.reference import binade


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return Runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    return build_shim(tmp_path_factory.mktemp("shim"))


def run_with_fault(command, fault):
    """Returns the process and the number of calls of the fault's kind."""
    count = pathlib.Path(fault["FAULT_COUNT"])
    count.unlink(missing_ok=True)
    process = binade(*command, env=fault)
    return process, int(count.read_text()) if count.exists() else None


@pytest.mark.parametrize(
    "call", [pytest.param("write", marks=pytest.mark.slow), "fsync", "rename", "mkdir"]
)
def test_a_failing_system_call_loses_no_checkpoint(call, runs, shim, tmp_path):
    """The run ends with exit code 5, and earlier checkpoints are complete."""
    steps, unbroken = 6, tmp_path / "unbroken"
    runs.train("--out", unbroken, steps=steps)
    run = tmp_path / "run"
    command = runs.command("--out", run, "--keep", 1, steps=steps)
    whole, count = run_with_fault(
        command, make_fault(shim, run / "checkpoints", call, 0)
    )
    assert whole.returncode == 0 and count > 2, whole.stderr
    failed = 0
    for at in range(1, count + 1):
        shutil.rmtree(run)
        fault = make_fault(shim, run / "checkpoints", call, at)
        process, _ = run_with_fault(command, fault)
        if process.returncode == 0:
            # The deletion of an older checkpoint failed, which is only a warning.
            assert "warning: " in process.stderr, (call, at)
        else:
            failed += 1
            assert process.returncode == 5, (call, at, process.stderr)
            assert process.stderr.count("error: ") == 1
            assert "checkpoints" in process.stderr
            # The run resumes from the existing checkpoints and removes temporary files.
            for name in checkpoints(run) if (run / "checkpoints").exists() else []:
                verified = binade("ckpt", "verify", run / "checkpoints" / name)
                assert verified.returncode == 0, (call, at, verified.stderr)
        runs.train("--resume", run, steps=steps)
        check_equal(run, unbroken)
        check_is_clean(run)
    assert failed >= count / 2


def test_a_limit_of_the_file_size(runs, tmp_path):
    """The operating system limits the size, without a preloaded library."""
    run, limit = tmp_path / "run", 4096
    process = start(runs, "--out", run)
    while not list(run.glob("checkpoints/step-??????")):
        time.sleep(0.01)
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (limit, limit))
    process.stdout.read()
    assert process.wait(600) == 5
    assert "too large" in process.stderr.read()
    (newest,) = checkpoints(run)[-1:]
    assert (run / "checkpoints" / newest / "state.safetensors").stat().st_size > limit
    step = int(newest.removeprefix("step-"))
    assert f"resumed after step {step}\n" in (
        runs.train("--resume", run, steps=step + 10).stdout
    )
    check_is_clean(run)


def test_checkpoints_survive_a_power_failure(runs, shim, tmp_path):
    """The files of a checkpoint are synced to disk before it gets its final name, and its
    name is synced before older checkpoints are deleted."""
    run, trace = tmp_path / "run", tmp_path / "trace"
    fault = make_fault(shim, run, "any", 0) | {"FAULT_TRACE": str(trace)}
    process, _ = run_with_fault(runs.command("--out", run, steps=22), fault)
    assert process.returncode == 0
    lines = [line.split(" ", 1) for line in trace.read_text().splitlines()]
    dirty, complete = set(), []
    for call, path in lines:
        step, _, is_temporary = os.path.basename(path).partition(".")
        if call == "rename" and step.startswith("step-"):
            if not is_temporary:
                assert not {p for p in dirty if "/step-" in p or "metrics" in p}, path
                complete.append(step)
            elif step in complete:
                # An older one is deleted after the name of the newer one is on disk.
                assert step < complete[-1] and str(run / "checkpoints") not in dirty
        if call == "fsync":
            dirty.discard(path)
        elif call == "write":
            dirty.add(path)
        elif call == "rename":
            # Renaming writes to the directory.
            dirty.add(os.path.dirname(path))
    assert complete == [f"step-{step:06d}" for step in (5, 10, 15, 20, 22)]
    assert {call for call, _ in lines} == {"write", "fsync", "rename", "mkdir"}
    assert sum(path.endswith("manifest.json") for _, path in lines) == len(complete)
    assert not {path for path in dirty if path.endswith((".json", ".safetensors"))}


def test_a_failing_write_of_other_files_of_a_run(runs, shim, tmp_path):
    """Covers metrics, the final state, settings and events."""
    run = tmp_path / "run"
    for call, name in (("write", "metrics.jsonl"), ("fsync", "final.safetensors"),
                       ("rename", "run.json"), ("write", "run.json"),
                       ("write", "events.out.tfevents.")):  # fmt: skip
        shutil.rmtree(run, ignore_errors=True)
        command = runs.command("--out", run, steps=7)
        process, _ = run_with_fault(command, make_fault(shim, run / name, call, 1))
        assert process.returncode == 5 and name in process.stderr
        runs.train("--resume", run)
        check_equal(run, runs.unbroken())
        check_is_clean(run)


@pytest.mark.parametrize(
    "trials",
    [
        pytest.param(20, marks=pytest.mark.slow),
        pytest.param(200, marks=pytest.mark.nightly),
    ],
)
def test_a_killed_run_loses_no_checkpoint(trials, runs, shim, tmp_path):
    """Kills runs at random times, half of them while they save."""
    draw = random.Random(trials)
    unbroken, run = tmp_path / "unbroken", tmp_path / "run"
    steps = 60
    begun = time.monotonic()
    command = runs.command("--out", run, steps=steps)
    # Measures the time of a run and the number of calls that save.
    fault = make_fault(shim, run / "checkpoints", "any", 0)
    process, count = run_with_fault(command, fault)
    seconds = time.monotonic() - begun
    assert process.returncode == 0, process.stderr
    run.rename(unbroken)
    kills, in_saves, resumed = 0, 0, 0
    while kills < trials:
        shutil.rmtree(run, ignore_errors=True)
        where = "--out"
        # A run may be killed more than once.
        for _ in range(draw.randrange(1, 4)):
            command = runs.command(where, run, steps=steps)
            before = len(checkpoints(run)) if (run / "checkpoints").exists() else 0
            if in_saves <= kills // 2:
                at = draw.randrange(1, count)
                fault = make_fault(shim, run / "checkpoints", "any", at, "KILL")
                process, _ = run_with_fault(command, fault)
                killed = process.returncode == -signal.SIGKILL
                in_saves += killed
            else:
                words = [str(word) for word in (BUILD / "bin" / "binade", *command)]
                process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
                time.sleep(draw.uniform(0, seconds))
                process.kill()
                killed = process.wait() == -signal.SIGKILL
            kills += killed
            where = "--resume"
            if before:
                assert checkpoints(run), "a checkpoint is lost"
        reached = len((run / "metrics.jsonl").read_bytes().split(b"\n")) - 1 if (
            run / "metrics.jsonl"
        ).exists() else 0  # fmt: skip
        process = runs.train("--resume", run, steps=steps)
        assert "damaged" not in process.stderr
        if found := re.search(r"resumed after step (\d+)", process.stdout):
            resumed += 1
            assert reached - int(found[1]) <= EVERY
        check_equal(run, unbroken)
        check_is_clean(run)
    assert resumed > 0 and in_saves >= trials // 2 - 1
