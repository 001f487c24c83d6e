"""A sweep resumes after the sweep or one of its training processes was killed.

Its runs must equal those of a sweep that was not interrupted.
"""

import os
import re
import signal
import subprocess
import time

import numpy as np
import pytest
from support.checkpoint_runs import check_equal, checkpoints
from support.faults import build_shim, make_fault
from support.paths import BUILD
from support.reference import binade
from support.traced_models import F32, TWO_LAYERS, options, write

pytest.importorskip("onnx")
pytestmark = pytest.mark.skipif(
    not (BUILD / "bin/binade-sweep").exists(), reason="the tools are not built"
)
RANDOM = np.random.default_rng(6)
STEPS, POLICIES = 40, ("fp32", "bf16-amp")
# A training process saves four times and is killed during the third save.
SAVED, EVERY = 2, 10


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep")
    x = RANDOM.standard_normal((32, 8)).astype(F32)
    first, second = (RANDOM.standard_normal((8, 8)).astype(F32) for _ in range(2))
    write(folder, TWO_LAYERS, x, first=first, second=second)
    return folder


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    return build_shim(tmp_path_factory.mktemp("shim"))


@pytest.fixture(scope="module")
def unbroken(folder):
    assert sweep(folder, folder / "unbroken").returncode == 0
    return folder / "unbroken/runs"


def make_words(folder, out):
    return ["sweep", folder / "model.onnx", *options(folder, "")[:-2], "--policies",
            ",".join(POLICIES), "--steps", STEPS, "--out", out]  # fmt: skip


def sweep(folder, out, **how):
    return binade(*make_words(folder, out), **how)


def third_save(run):
    """Returns the point of the fault: the third checkpoint, before it is complete."""
    return run / f"checkpoints/step-{(SAVED + 1) * EVERY:06d}", "fsync", 1


def check_resumes(folder, out, unbroken):
    """The same command trains only the unfinished runs."""
    done = {path: path.stat().st_mtime_ns for path in out.glob("runs/*/done")}
    again = sweep(folder, out)
    assert again.returncode == 0, again.stderr
    for path, when in done.items():
        assert path.stat().st_mtime_ns == when
    killed = out / "runs/fp32.0"
    said = (killed / "log.txt").read_text()
    assert re.search(rf"resumed after step {SAVED * EVERY}\b", said), said
    for policy in POLICIES:
        check_equal(out / f"runs/{policy}.0", unbroken / f"{policy}.0")
        assert not list((out / f"runs/{policy}.0").rglob("*.tmp-*"))


def test_a_sweep_resumes_after_a_training_was_killed(folder, shim, unbroken, tmp_path):
    out, run = tmp_path / "out", tmp_path / "out/runs/fp32.0"
    process = sweep(folder, out, env=make_fault(shim, *third_save(run), "KILL"))
    assert process.returncode == 1, process.stderr
    assert f"fp32, seed 0: exit code {128 + signal.SIGKILL}" in process.stdout
    assert len([name for name in checkpoints(run) if ".tmp-" not in name]) == SAVED
    assert not (run / "done").exists()
    # The other runs are not affected.
    check_equal(out / "runs/bf16-amp.0", unbroken / "bf16-amp.0")
    check_resumes(folder, out, unbroken)


def test_a_sweep_resumes_after_it_was_killed(folder, shim, unbroken, tmp_path):
    out, run = tmp_path / "out", tmp_path / "out/runs/fp32.0"
    command = [BUILD / "bin/binade", *map(str, make_words(folder, out))]
    process = subprocess.Popen(
        command, env=make_fault(shim, *third_save(run), "HANG"), start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + 600
    while not (
        len(list(run.glob("checkpoints/step-??????"))) == SAVED
        and list(run.glob("checkpoints/*.tmp-*"))
    ):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not list(out.glob("runs/*/done"))
    check_resumes(folder, out, unbroken)
