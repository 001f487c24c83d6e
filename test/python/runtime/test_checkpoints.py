"""A run that is stopped, killed or robbed of its files goes on with the bits that it
would have had.

The model draws random numbers in each step, keeps running statistics, and scales its
loss by a rule that grows and overflows every few steps; all of that has to survive.
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
    """A run that has checkpoints of steps 5 and 10."""
    runs.train("--out", tmp_path / "run", steps=10)
    return tmp_path / "run"


@pytest.mark.parametrize("policy", POLICIES)
def test_a_resumed_run_has_the_bits_of_the_unbroken(policy, runs, tmp_path):
    unbroken, run = runs.unbroken(policy), tmp_path / "run"
    # In the middle of an epoch, of an interval of growth and of two checkpoints.
    for steps, resumed in ((8, None), (9, 8), (22, 9), (STEPS, 22)):
        where = "--resume" if resumed else "--out"
        process = runs.train(where, run, policy=policy, steps=steps)
        if resumed:
            assert f"resumed after step {resumed}\n" in process.stdout
    check_equal(run, unbroken)
    lines = metrics(run)
    assert [line["step"] for line in lines] == list(range(1, STEPS + 1))
    if policy == "f16":
        # The test would not see a lost growth counter or a lost scale otherwise.
        assert any(line["skipped"] for line in lines[23:])
        assert len({line["loss_scale"] for line in lines[9:22]}) > 1
    state = safetensors.load(run / "final.safetensors")
    assert list(state["rng"]) == [0, STEPS]
    assert not np.array_equal(state["mean"], np.zeros(32))
    # There is nothing to be done, and nothing changes.
    runs.train("--resume", run, policy=policy)
    check_equal(run, unbroken)


def test_a_model_resumes_as_its_bundle_does(runs, tmp_path):
    """The computation is told by the plan, not by the file that it came from, nor by
    threads."""
    unbroken, run = runs.unbroken(), tmp_path / "run"
    given = ["--policy", runs.folder / "f16.yaml", "--optimizer", "adamw"]
    runs.train("--out", run, steps=12)
    for threads, steps in ((1, 15), (4, 20)):
        more = [*given, "--threads", threads]
        process = runs.train("--resume", run, *more, bundle=False, steps=steps)
    assert "threads was 1 and is 4" in process.stderr
    runs.train("--resume", run)
    check_equal(run, unbroken)


def test_skipped_steps_are_counted_over_the_end_of_a_process(runs, tmp_path):
    run, data = tmp_path / "run", tmp_path / "data.safetensors"
    x = np.full((50, 6), np.inf, np.float32)
    safetensors.save(data, {"x": x, "labels": np.arange(50) % 3})
    given = ["--max-skipped", 5]
    runs.train("--out", run, *given, data=data, steps=3)
    process = runs.train("--resume", run, *given, data=data, steps=10, code=4)
    assert "step 5: error: 5 steps in a row were skipped" in process.stderr


def test_checkpoints_are_kept_as_asked(runs, tmp_path):
    for keep, expected in ((1, ["step-000010"]), (3, ["step-000005", "step-000010"])):
        runs.train("--out", tmp_path / f"{keep}", "--keep", keep, steps=10)
        assert checkpoints(tmp_path / f"{keep}") == expected
    runs.train("--resume", tmp_path / "3", "--keep", 3, steps=22)
    assert checkpoints(tmp_path / "3") == ["step-000015", "step-000020", "step-000022"]
    # Nobody asked for any.
    run = tmp_path / "none"
    runs.train("--out", run, steps=3, every=0)
    assert not (run / "checkpoints").exists()


def test_a_run_without_a_checkpoint_starts_anew(runs, tmp_path):
    run = tmp_path / "run"
    process = runs.train("--resume", run)
    assert "no complete checkpoint" in process.stdout
    check_equal(run, runs.unbroken())


def test_metrics_are_cut_back(runs, tmp_path):
    run = tmp_path / "run"
    runs.train("--out", run, steps=10)
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"step": 11, "loss": 7}\n{"step": 12, "lo')
    runs.train("--resume", run)
    check_equal(run, runs.unbroken())
    # Lines that are missing cannot be made up.
    lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run / "metrics.jsonl").write_text("".join(lines[:30]))
    process = runs.train("--resume", run, steps=STEPS + 2)
    assert "lacks lines of the steps from 31 to 40" in process.stderr
    assert [line["step"] for line in metrics(run)] == [*range(1, 31), 41, 42]


# --- Damage ---------------------------------------------------------------------------


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
def test_a_damaged_checkpoint_is_named_and_left_out(kind, runs, saved):
    damaged = saved / "checkpoints" / "step-000010"
    DAMAGE[kind](damaged)
    assert binade("ckpt", "verify", saved).returncode == 3
    process = runs.train("--resume", saved)
    assert re.search(r"warning: .*step-000010 is damaged", process.stderr)
    assert "resumed after step 5\n" in process.stdout
    check_equal(saved, runs.unbroken())
    assert binade("ckpt", "verify", saved).returncode == 0


def test_a_damaged_checkpoint_takes_no_place_of_a_whole_one(runs, saved):
    """Not even of the only one, when the run stops before it comes to its step."""
    flip(saved / "checkpoints" / "step-000010" / "state.safetensors", 999)
    runs.train("--resume", saved, "--keep", 1, steps=7)
    assert checkpoints(saved) == ["step-000007", "step-000010"]
    process = runs.train("--resume", saved, "--keep", 1)
    assert "is damaged" in process.stderr
    assert "resumed after step 7\n" in process.stdout
    assert checkpoints(saved) == [f"step-{STEPS:06d}"]
    check_equal(saved, runs.unbroken())


def test_every_flipped_bit_is_noticed(saved):
    checkpoint = saved / "checkpoints" / "step-000010"
    draw = random.Random(5)
    for name, count in (("state.safetensors", 60), ("manifest.json", 60)):
        path = checkpoint / name
        good = path.read_bytes()
        for _ in range(count):
            position = draw.randrange(len(good))
            flip(path, position)
            process = binade("ckpt", "verify", checkpoint)
            # White space between the words of a manifest says nothing.
            if chr(good[position]).isspace():
                continue
            assert process.returncode == 3, (name, position)
            assert name in process.stderr
            path.write_bytes(good)
        path.write_bytes(good)
    assert binade("ckpt", "verify", checkpoint).returncode == 0


def test_where_all_are_damaged_a_run_starts_anew(runs, saved):
    for name in checkpoints(saved):
        flip(saved / "checkpoints" / name / "state.safetensors", 999)
    process = runs.train("--resume", saved)
    assert process.stderr.count("is damaged") == 2
    assert "starting from the first step" in process.stdout
    check_equal(saved, runs.unbroken())


# --- Refusal --------------------------------------------------------------------------


def rows(text):
    """The table of an error: key to what the checkpoint and the command say."""
    found = {}
    for line in text.splitlines():
        columns = re.split(r"\s{2,}", line.partition("note: ")[2].strip())
        if len(columns) == 3:
            found[columns[0]] = tuple(columns[1:])
    return found


def test_a_checkpoint_of_another_run_is_refused(runs, saved):
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


def test_another_model_is_refused(runs, saved, tmp_path):
    """Of the same name and the same parameters."""
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


def test_another_program_is_named_where_a_run_is_refused(runs, saved):
    newest = saved / "checkpoints" / "step-000010"

    def change(manifest):
        manifest["machine"]["binade"] = "0.0.9"
        manifest["run"]["computation"] = "a" * 64

    change_manifest(newest, change)
    found = rows(runs.train("--resume", saved, code=3).stderr)
    assert found["binade"][0] == "0.0.9" and found["computation"][0] == "a" * 12


def test_another_format_version_is_refused(runs, saved):
    newest = saved / "checkpoints" / "step-000010"
    change_manifest(newest, lambda manifest: manifest.update(format_version=2))
    process = runs.train("--resume", saved, code=3)
    assert rows(process.stderr) == {"format version": ("2", "1")}
    for command in ("show", "verify"):
        process = binade("ckpt", command, saved)
        assert process.returncode == 3 and "version 2" in process.stderr
    # What a newer program wrote is still there.
    assert checkpoints(saved) == ["step-000005", "step-000010"]


def test_other_machines_are_told(runs, saved):
    newest = saved / "checkpoints" / "step-000010"
    change_manifest(newest, lambda it: it["machine"].update(threads="77"))
    process = runs.train("--resume", saved)
    told = r"warning: threads was 77 and is \d+: the last bits"
    assert re.search(told, process.stderr)
    assert process.stderr.count("last bits") == 1


def test_a_shard_outside_of_its_checkpoint_is_not_read(runs, saved):
    newest = saved / "checkpoints" / "step-000010"

    def change(manifest):
        manifest["shards"][0]["file"] = "../step-000010/state.safetensors"

    change_manifest(newest, change)
    assert binade("ckpt", "verify", newest).returncode == 3
    assert "resumed after step 5\n" in runs.train("--resume", saved).stdout


def test_wrong_commands(runs, saved):
    before = {p: p.read_bytes() for p in saved.rglob("*") if p.is_file()}
    process = runs.train("--out", saved, code=3)
    assert "holds checkpoints" in process.stderr and "--resume" in process.stderr
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


def test_verify_names_each(saved, tmp_path):
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
    """Its state is a file like final.safetensors."""
    state = saved / "checkpoints" / "step-000010" / "state.safetensors"
    assert state.read_bytes() == (saved / "final.safetensors").read_bytes()
    process = runs.train("--out", tmp_path / "new", "--init", state, steps=2)
    assert "start: " in process.stdout
    assert safetensors.load(tmp_path / "new" / "final.safetensors")["rng"][1] == 12
