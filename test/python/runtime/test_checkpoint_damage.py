"""Damaged checkpoints are skipped with a warning, and checkpoints of another run, model or
format version are rejected."""

import random
import re
import shutil

import pytest
from support.reference import binade

onnx = pytest.importorskip("onnx")

from support.checkpoint_runs import (
    STEPS,
    Runs,
    change_manifest,
    check_equal,
    checkpoints,
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return Runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture
def saved(runs, tmp_path):
    """A run with checkpoints of steps 5 and 10."""
    runs.train("--out", tmp_path / "run", steps=10)
    return tmp_path / "run"


def flip(path, position):
    data = bytearray(path.read_bytes())
    data[position % len(data)] ^= 1 << position % 8
    path.write_bytes(data)


def cut(path):
    path.write_bytes(path.read_bytes()[:-2])


def other_name(checkpoint):
    older = checkpoint.with_name("step-000005")
    shutil.copy(older / "manifest.json", checkpoint)
    shutil.copy(older / "state.safetensors", checkpoint)


DAMAGE = {
    "no manifest": lambda c: (c / "manifest.json").unlink(),
    "no shard": lambda c: (c / "state.safetensors").unlink(),
    "empty manifest": lambda c: (c / "manifest.json").write_text(""),
    "short manifest": lambda c: cut(c / "manifest.json"),
    "short shard": lambda c: cut(c / "state.safetensors"),
    "long shard": lambda c: (c / "state.safetensors").open("ab").write(b"\0"),
    "another's files": other_name,
    "a step changed": lambda c: (c / "manifest.json").write_text(
        (c / "manifest.json").read_text().replace('"skipped": ', '"skipped": 1')
    ),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_checkpoint_is_named_and_skipped(kind, runs, saved):
    damaged = saved / "checkpoints" / "step-000010"
    DAMAGE[kind](damaged)
    assert binade("ckpt", "verify", saved).returncode == 3
    process = runs.train("--resume", saved)
    assert re.search(r"warning: .*step-000010 is damaged", process.stderr)
    assert "resumed after step 5\n" in process.stdout
    check_equal(saved, runs.unbroken())
    assert binade("ckpt", "verify", saved).returncode == 0


def test_a_damaged_checkpoint_does_not_count_for_keep(runs, saved):
    """With `--keep 1`, a newer damaged checkpoint does not cause the deletion of the only
    valid one."""
    flip(saved / "checkpoints" / "step-000010" / "state.safetensors", 999)
    runs.train("--resume", saved, "--keep", 1, steps=7)
    assert checkpoints(saved) == ["step-000007", "step-000010"]
    process = runs.train("--resume", saved, "--keep", 1)
    assert "is damaged" in process.stderr
    assert "resumed after step 7\n" in process.stdout
    assert checkpoints(saved) == [f"step-{STEPS:06d}"]
    check_equal(saved, runs.unbroken())


def test_every_flipped_bit_is_detected(saved):
    checkpoint = saved / "checkpoints" / "step-000010"
    draw = random.Random(5)
    for name, count in (("state.safetensors", 60), ("manifest.json", 60)):
        path = checkpoint / name
        good = path.read_bytes()
        for _ in range(count):
            position = draw.randrange(len(good))
            flip(path, position)
            process = binade("ckpt", "verify", checkpoint)
            # A change of white space may leave a manifest valid.
            if chr(good[position]).isspace():
                continue
            assert process.returncode == 3, (name, position)
            assert name in process.stderr
            path.write_bytes(good)
        path.write_bytes(good)
    assert binade("ckpt", "verify", checkpoint).returncode == 0


def test_a_run_restarts_if_all_checkpoints_are_damaged(runs, saved):
    for name in checkpoints(saved):
        flip(saved / "checkpoints" / name / "state.safetensors", 999)
    # The final state would be lost.
    process = runs.train("--resume", saved, code=3)
    assert process.stderr.count("is damaged") == 2
    assert "contains a run: " in process.stderr and "--overwrite" in process.stderr
    (saved / "final.safetensors").unlink()
    process = runs.train("--resume", saved)
    assert process.stderr.count("is damaged") == 2
    assert "starting from the first step" in process.stdout
    check_equal(saved, runs.unbroken())


def rows(text):
    """Maps keys to the values in the checkpoint and of the command, from an error's table."""
    found = {}
    for line in text.splitlines():
        columns = re.split(r"\s{2,}", line.partition("note: ")[2].strip())
        if len(columns) == 3:
            found[columns[0]] = tuple(columns[1:])
    return found


def test_a_checkpoint_of_another_run_is_rejected(runs, saved):
    before = sorted(saved.rglob("*"))
    for given, expected in (
        (["--lr", "0.5"], {"setting lr": ("0.001", "0.5")}),
        (["--seed", 4], {"seed": ("0", "4")}),
        (["--order", "sequential"], {"order": ("shuffle", "sequential")}),
    ):
        process = runs.train("--resume", saved, *given, code=3)
        assert "belongs to another run" in process.stderr
        assert "step-000010" in process.stderr
        assert rows(process.stderr) == expected
        assert "--init" in process.stderr
    process = runs.train("--resume", saved, policy="watched", code=3)
    found = rows(process.stderr)
    assert found["policy"] == ("f16", "watched")
    assert {"policy hash", "computation"} <= found.keys()
    assert "model" not in found
    assert sorted(saved.rglob("*")) == before


def test_a_checkpoint_of_another_model_is_rejected(runs, saved, tmp_path):
    """The other model has the same name and the same parameters."""
    other = tmp_path / "net.onnx"
    model = onnx.load(runs.model)
    for node in model.graph.node:
        if node.op_type == "Relu":
            node.op_type = "Tanh"
    onnx.save(model, other)
    command = runs.command("--resume", saved, bundle=False)
    command[1] = other
    given = ["--policy", runs.folder / "f16.yaml", "--optimizer", "adamw"]
    process = binade(*command, *given)
    assert process.returncode == 3
    assert rows(process.stderr).keys() == {"computation"}


def test_a_rejection_names_another_version_of_binade(runs, saved):
    newest = saved / "checkpoints" / "step-000010"

    def change(manifest):
        manifest["machine"]["binade"] = "0.0.9"
        manifest["run"]["computation"] = "a" * 64

    change_manifest(newest, change)
    found = rows(runs.train("--resume", saved, code=3).stderr)
    assert found["binade"][0] == "0.0.9" and found["computation"][0] == "a" * 12


def test_another_format_version_is_rejected(runs, saved):
    newest = saved / "checkpoints" / "step-000010"
    change_manifest(newest, lambda manifest: manifest.update(format_version=2))
    process = runs.train("--resume", saved, code=3)
    assert rows(process.stderr) == {"format version": ("2", "1")}
    for command in ("show", "verify"):
        process = binade("ckpt", command, saved)
        assert process.returncode == 3 and "version 2" in process.stderr
    # The checkpoints of the newer version are kept.
    assert checkpoints(saved) == ["step-000005", "step-000010"]


def test_checkpoints_of_other_machines_cause_a_warning(runs, saved):
    newest = saved / "checkpoints" / "step-000010"
    change_manifest(newest, lambda it: it["machine"].update(threads="77"))
    process = runs.train("--resume", saved)
    warning = r"warning: threads was 77 and is \d+: the last bits"
    assert re.search(warning, process.stderr)
    assert process.stderr.count("last bits") == 1


def test_a_shard_outside_of_its_checkpoint_is_not_read(runs, saved):
    newest = saved / "checkpoints" / "step-000010"

    def change(manifest):
        manifest["shards"][0]["file"] = "../step-000010/state.safetensors"

    change_manifest(newest, change)
    assert binade("ckpt", "verify", newest).returncode == 3
    assert "resumed after step 5\n" in runs.train("--resume", saved).stdout
