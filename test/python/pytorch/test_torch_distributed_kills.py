"""A rank that is killed at a random moment ends all ranks; the run resumes with equal bits."""

import json
import os
import signal
import subprocess
import sys

import binade
import binade.torch
import pytest
from binade.torch.distributed.identity import hash_state
from support import distributed_kills, distributed_models

STEPS, RANKS = 24, 3


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    """The file of a compiled step, and the hash of its state after all steps."""
    folder = tmp_path_factory.mktemp("bundle")
    model, _ = distributed_models.export_char_gpt(folder, layers=1, dropout=0.1)
    step = binade.compile(
        model, accumulate=6, optimizer="adamw", states="dyn8:stochastic", threads=1,
        exchange="exact",
    )  # fmt: skip
    step.write(folder / "step.bnd")
    step = binade.torch.distribute(step)
    for _ in range(STEPS):
        step(step.take(lambda n: distributed_models.make_batch(step.batch, n)))
    return folder / "step.bnd", hash_state(step)


def kill(bundle, folder, first, count, signal="SIGKILL", timeout=50.0):
    given = {"bundle": str(bundle), "folder": str(folder), "ranks": RANKS,
             "steps": STEPS, "first": first, "count": count, "seconds": 1.0,
             "signal": signal, "timeout": timeout}  # fmt: skip
    done = subprocess.run(
        [sys.executable, distributed_kills.__file__, json.dumps(given)],
        env={**os.environ, "OMP_NUM_THREADS": "1",
             "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        check=False, capture_output=True, text=True, timeout=60 + 60 * count,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def check(bundle, folder, first, count):
    path, expected = bundle
    found = kill(path, folder, first, count)
    assert len(found) == count
    for one in found:
        for rank, code in enumerate(one["codes"]):
            # The run may have ended before.
            expected_code = -signal.SIGKILL if rank == one["victim"] else 9
            assert code in (expected_code, 0), one
        assert one["seconds"] < 60
        assert one["again"] == [0] * RANKS
        assert one["hash"] == expected
    assert sum(9 in one["codes"] for one in found) >= count // 2, found


@pytest.mark.slow
def test_four_kills(bundle, tmp_path):
    check(bundle, tmp_path, 0, 4)


def test_a_rank_that_does_not_answer_ends_the_run(bundle, tmp_path):
    """It is stopped, so that its connections stay open."""
    path, expected = bundle
    [one] = kill(path, tmp_path, 1, 1, signal="SIGSTOP", timeout=4.0)
    assert one["codes"] == [9, -signal.SIGKILL, 9]
    assert 3 < one["seconds"] < 60
    assert one["hash"] == expected


@pytest.mark.nightly
def test_a_hundred_kills(bundle, tmp_path):
    check(bundle, tmp_path, 4, 100)
