"""A run that is resumed from a checkpoint has the same bits as an unbroken run.

The model draws random values in each step, keeps running statistics, and has a dynamic loss
scale that grows and overflows every few steps. Checkpoints contain all of this state.
"""

import hashlib
import json
import re

import numpy as np
import pytest
from support.reference import binade, safetensors

onnx = pytest.importorskip("onnx")

from support.checkpoint_runs import (
    POLICIES,
    STEPS,
    Runs,
    check_equal,
    checkpoints,
    metrics,
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return Runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture
def saved(runs, tmp_path):
    """A run with checkpoints of steps 5 and 10."""
    runs.train("--out", tmp_path / "run", steps=10)
    return tmp_path / "run"


@pytest.mark.parametrize("policy", POLICIES)
def test_a_resumed_run_has_the_bits_of_an_unbroken_run(policy, runs, tmp_path):
    unbroken, run = runs.unbroken(policy), tmp_path / "run"
    # Stops within an epoch, between two growths of the scale and between two checkpoints.
    for steps, resumed in ((8, None), (9, 8), (22, 9), (STEPS, 22)):
        where = "--resume" if resumed else "--out"
        process = runs.train(where, run, policy=policy, steps=steps)
        if resumed:
            assert f"resumed after step {resumed}\n" in process.stdout
    check_equal(run, unbroken)
    lines = metrics(run)
    assert [line["step"] for line in lines] == list(range(1, STEPS + 1))
    if policy == "f16":
        # Otherwise the test would not detect a lost growth counter or a lost scale.
        assert any(line["skipped"] for line in lines[23:])
        assert len({line["loss_scale"] for line in lines[9:22]}) > 1
    state = safetensors.load(run / "final.safetensors")
    assert list(state["rng"]) == [0, STEPS]
    assert not np.array_equal(state["mean"], np.zeros(32))
    # Resuming a finished run changes nothing.
    runs.train("--resume", run, policy=policy)
    check_equal(run, unbroken)


def test_a_run_resumes_from_a_model_or_its_bundle(runs, tmp_path):
    """The plan identifies the computation, not the source file or the number of threads."""
    unbroken, run = runs.unbroken(), tmp_path / "run"
    given = ["--policy", runs.folder / "f16.yaml", "--optimizer", "adamw"]
    runs.train("--out", run, steps=12)
    for threads, steps in ((1, 15), (4, 20)):
        more = [*given, "--threads", threads]
        process = runs.train("--resume", run, *more, bundle=False, steps=steps)
    assert "threads was 1 and is 4" in process.stderr
    runs.train("--resume", run)
    check_equal(run, unbroken)


def test_skipped_steps_are_counted_across_processes(runs, tmp_path):
    run, data = tmp_path / "run", tmp_path / "data.safetensors"
    x = np.full((50, 6), np.inf, np.float32)
    safetensors.save(data, {"x": x, "labels": np.arange(50) % 3})
    given = ["--max-skipped", 5]
    runs.train("--out", run, *given, data=data, steps=3)
    process = runs.train("--resume", run, *given, data=data, steps=10, code=4)
    assert "step 5: error: 5 steps in a row were skipped" in process.stderr


def test_keep_limits_the_number_of_checkpoints(runs, tmp_path):
    for keep, expected in ((1, ["step-000010"]), (3, ["step-000005", "step-000010"])):
        runs.train("--out", tmp_path / f"{keep}", "--keep", keep, steps=10)
        assert checkpoints(tmp_path / f"{keep}") == expected
    runs.train("--resume", tmp_path / "3", "--keep", 3, steps=22)
    assert checkpoints(tmp_path / "3") == ["step-000015", "step-000020", "step-000022"]
    # `--save-every 0` writes no checkpoints.
    run = tmp_path / "none"
    runs.train("--out", run, steps=3, every=0)
    assert not (run / "checkpoints").exists()


def test_a_run_without_a_checkpoint_restarts(runs, tmp_path):
    run = tmp_path / "run"
    process = runs.train("--resume", run)
    assert "no complete checkpoint" in process.stdout
    check_equal(run, runs.unbroken())


def test_metrics_after_the_checkpoint_are_removed(runs, tmp_path):
    run = tmp_path / "run"
    runs.train("--out", run, steps=10)
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"step": 11, "loss": 7}\n{"step": 12, "lo')
    runs.train("--resume", run)
    check_equal(run, runs.unbroken())
    # Missing lines cannot be restored.
    lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run / "metrics.jsonl").write_text("".join(lines[:30]))
    process = runs.train("--resume", run, steps=STEPS + 2)
    assert "lacks lines of the steps from 31 to 40" in process.stderr
    assert [line["step"] for line in metrics(run)] == [*range(1, 31), 41, 42]


def test_invalid_options_change_nothing(runs, saved):
    before = {p: p.read_bytes() for p in saved.rglob("*") if p.is_file()}
    process = runs.train("--out", saved, code=3)
    assert "2 checkpoints" in process.stderr and "--resume" in process.stderr
    process = runs.train("--resume", saved, code=2, steps=7)
    assert "has done 10 steps, more than 7" in process.stderr
    process = runs.train("--resume", saved, "--out", saved, code=2)
    assert "--out" in process.stderr and "--resume" in process.stderr
    process = runs.train("--resume", saved, "--record", "ranges=r.json", code=2)
    assert "--record" in process.stderr
    process = runs.train("--out", saved, "--keep", 0, code=2)
    assert "--keep" in process.stderr
    for where in ("--out", "--resume"):
        one = saved / "checkpoints" / "step-000010"
        assert "is a checkpoint" in runs.train(where, one, code=3).stderr
    assert {p for p in saved.rglob("*") if p.is_file()} == before.keys()
    for path, content in before.items():
        assert path.name == "lock" or path.read_bytes() == content


def test_show_prints_the_manifest(saved):
    process = binade("ckpt", "show", saved)
    assert process.returncode == 0, process.stderr
    lines = process.stdout.splitlines()
    newest = saved / "checkpoints" / "step-000010"
    assert lines[0] == str(newest)
    shown = dict(re.split(r"\s{2,}", line.strip(), maxsplit=1) for line in lines[1:])
    manifest = json.loads((newest / "manifest.json").read_text())
    shard = newest / "state.safetensors"
    expected = {"format version": "1", "step": "10", "seed": "0", "batch": "8",
                "samples": "50", "policy": "f16", "setting lr": "0.001"}  # fmt: skip
    assert expected.items() <= shown.items()
    assert manifest["run"].items() <= shown.items()
    assert hashlib.sha256(shard.read_bytes()).hexdigest() in shown[shard.name]
    skipped = sum(line["skipped"] for line in metrics(saved))
    assert shown["skipped"] == str(skipped)
    older = binade("ckpt", "show", saved / "checkpoints" / "step-000005")
    assert "step                     5\n" in older.stdout


def test_verify_lists_every_checkpoint(saved, tmp_path):
    process = binade("ckpt", "verify", saved)
    assert process.returncode == 0
    assert [line.split(":")[0][-6:] for line in process.stdout.splitlines()] == [
        "000005",
        "000010",
    ]
    assert "whole, step 10" in process.stdout
    for path in (tmp_path / "nothing", tmp_path):
        for command in ("show", "verify"):
            process = binade("ckpt", command, path)
            assert process.returncode == 3 and str(path) in process.stderr


def test_a_checkpoint_starts_another_run(runs, saved, tmp_path):
    """The state of a checkpoint has the format of final.safetensors."""
    state = saved / "checkpoints" / "step-000010" / "state.safetensors"
    assert state.read_bytes() == (saved / "final.safetensors").read_bytes()
    process = runs.train("--out", tmp_path / "new", "--init", state, steps=2)
    assert "start: " in process.stdout
    assert safetensors.load(tmp_path / "new" / "final.safetensors")["rng"][1] == 12
