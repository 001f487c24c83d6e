"""Runs on several processes: checkpoints for other numbers of ranks, files, signals, and
restarts by torchrun.
"""

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time

import binade
import binade.torch
import numpy as np
import pytest
from binade import safetensors
from binade.errors import RejectedError
from binade.run import describe, read_run
from binade.torch.distributed.identity import hash_state
from support import distributed_models, distributed_steps
from support.paths import ROOT
from support.process_groups import run_processes
from support.run_folders import read_metrics

pytestmark = pytest.mark.slow  # Twenty processes import PyTorch.

STEPS = 12
WINDOW = "input_ids=tokens[0:32],labels=tokens[1:33]"
EXAMPLE = ROOT / "examples" / "distributed" / "train.py"
# Kills its own rank 1 in the first attempt, after the step of the last checkpoint.
FAILING = f"""
import os, runpy, signal, sys
import binade.torch
take = binade.torch.DistributedStep.take
def fail(step, batches):
    isFirst = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    if isFirst and step.rank == 1 and step.calls == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return take(step, batches)
binade.torch.DistributedStep.take = fail
sys.argv[0] = {str(EXAMPLE)!r}
runpy.run_path({str(EXAMPLE)!r}, run_name="__main__")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    model, _ = distributed_models.export_char_gpt(folder, layers=1, dropout=0.1)
    step = binade.compile(
        model, accumulate=distributed_models.BATCHES, optimizer="adamw", threads=1,
        states="dyn8:stochastic", exchange="exact", policy="fp16-amp",
    )  # fmt: skip
    step.write(folder / "step.bnd")
    tokens = np.random.default_rng(0).integers(0, 94, 33 * 50, np.uint8)
    safetensors.save(folder / "train.safetensors", {"tokens": tokens})
    return folder


@pytest.fixture(scope="module")
def expected(folder):
    """The hashes of an uninterrupted run of one process, by step."""
    step = binade.torch.distribute(binade.load(folder / "step.bnd", threads=1))
    batches = open_batches(step, folder)
    found = {}
    for _ in range(STEPS):
        step(step.take(batches))
        found[step.calls] = hash_state(step)
    return found


def open_batches(step, folder):
    return binade.torch.Batches(step, folder / "train.safetensors", window=WINDOW)


def run_torchrun(
    folder, out, *options, script=EXAMPLE, ranks=2, steps=STEPS, shard="none"
):
    return subprocess.Popen(
        [
            sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks),
            "--standalone", *options, script, folder / "step.bnd", "--data",
            folder / "train.safetensors", "--window", WINDOW, "--out", out,
            "--steps", str(steps), "--save-every", "5", "--shard", shard,
        ],
        env={**os.environ, "OMP_NUM_THREADS": "1",
             # Or restarted ranks may read addresses of the ranks before (PyTorch 2.13).
             "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
             "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def load_hash(folder, out):
    step = binade.load(folder / "step.bnd", threads=1)
    step.restore(out / "final.safetensors")
    return step.updates, hash_state(step)


def test_a_checkpoint_of_four_ranks_resumes_on_any_number(folder, tmp_path):
    base = {"model": str(folder / "step.bnd"), "distribute": {}}
    script, saved = distributed_steps.__file__, str(tmp_path / "saved")
    runs = [base | {"steps": 6}, base | {"steps": 3, "save": saved}]
    first = run_processes(script, 4, {"runs": runs}, tmp_path / "4")
    whole = first[0][0]["hashes"]
    for world in (1, 2, 3, 4):
        runs = [base | {"load": saved, "steps": 3}]
        again = run_processes(script, world, {"runs": runs}, tmp_path / f"from{world}")
        for found in again:
            assert found[0]["hashes"] == whole[3:], world


@pytest.mark.parametrize(
    "shard", ["none", pytest.param("zero1", marks=pytest.mark.nightly)]
)
def test_torchrun_restarts_a_run_whose_rank_was_killed(
    shard, folder, expected, tmp_path
):
    script = tmp_path / "failing.py"
    script.write_text(FAILING)
    out = tmp_path / "run"
    run = run_torchrun(folder, out, "--max-restarts", "1", script=script, shard=shard)
    text, errors = run.communicate(timeout=120)
    assert run.returncode == 0, errors
    assert f"ranks: 2, step {STEPS}" in text
    assert load_hash(folder, out) == (STEPS, expected[STEPS])
    # Each step once, although steps 6 and 7 were trained twice.
    assert [line["step"] for line in read_metrics(out)] == list(range(1, STEPS + 1))
    assert sorted(p.name for p in (out / "checkpoints").iterdir()) == [
        "step-000010", "step-000012",
    ]  # fmt: skip


def test_sigterm_saves_the_last_step_of_all_ranks(folder, expected, tmp_path):
    out = tmp_path / "run"
    run = run_torchrun(folder, out, steps=1_000_000)
    deadline = time.monotonic() + 60
    while not (out / "metrics.jsonl").exists() or not read_metrics(out):
        assert time.monotonic() < deadline and run.poll() is None
        time.sleep(0.05)
    begin = time.monotonic()
    run.send_signal(signal.SIGTERM)
    _, errors = run.communicate(timeout=120)
    assert time.monotonic() - begin < 60
    assert run.returncode != 0
    steps = len(read_metrics(out))
    [newest] = sorted((out / "checkpoints").iterdir())[-1:]
    assert newest.name == f"step-{steps:06d}"
    # Continues here with another number of ranks: one.
    step = binade.torch.distribute(binade.load(folder / "step.bnd", threads=1))
    binade.torch.train(step, open_batches(step, folder), out, steps=steps + 2)
    assert len(read_metrics(out)) == steps + 2
    run = read_run(out)  # As ``binade runs`` does.
    assert [call["ranks"] for call in run.about["invocations"]] == [2, 1]
    assert [call["after_step"] for call in run.about["invocations"]] == [0, steps]
    data = (folder / "train.safetensors").read_bytes()
    cells = describe(run)
    assert cells["file data"] == hashlib.sha256(data).hexdigest()[:12]
    assert (cells["policy"], cells["batches"]) == ("fp16-amp", "12")
    assert run.about["samples"] == (33 * 50 - 33) // 32 + 1  # A window every 32 tokens.


def test_a_run_of_another_computation_is_refused(folder, tmp_path):
    step = binade.torch.distribute(binade.load(folder / "step.bnd", threads=1))
    binade.torch.train(step, open_batches(step, folder), tmp_path, steps=1)
    model = distributed_models.export_mlp(tmp_path)
    other = binade.compile(model, optimizer="sgd", settings={"lr": 1.0}, exchange="f32")
    other = binade.torch.distribute(other)
    shutil.rmtree(tmp_path / "checkpoints")
    with pytest.raises(RejectedError, match="another run: its model is gpt, .* mlp;"):
        binade.torch.train(other, lambda number: {}, tmp_path, steps=1)
