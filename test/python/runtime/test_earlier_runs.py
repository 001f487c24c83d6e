"""A run does not overwrite an earlier one unless --overwrite is given, and then replaces all of
its files or, if it cannot start, none."""

import json
import shutil
import subprocess

import pytest
from support.checkpoint_runs import Runs
from support.faults import build_shim, make_fault
from support.paths import BUILD
from support.reference import binade

STEPS = 4
# Of a run, what --out DIR would destroy: the options of the run, the files that are kept,
# whether it can be resumed, and words of the error.
RUNS = {
    "finished": ([], None, False, ["4 lines of metrics.jsonl", "final.safetensors"]),
    "saved": (["--save-every", 2], None, True, ["2 checkpoints", "final.safetensors"]),
    "stopped": (["--stop-after", 1], None, True, ["1 line of", "1 checkpoint,"]),
    "killed": ([], ["metrics.jsonl", "run.json"], None, ["4 lines of metrics.jsonl"]),
    "final state": ([], ["final.safetensors"], False, ["a run: final.safetensors"]),
    "gradients": (["--save-grads", 3], ["grads-000002.safetensors"], None,
                  ["a run: gradients of 1 step"]),
}  # fmt: skip

FRESH = ["events", "final.safetensors", "metrics.jsonl", "run.json", "run.yaml"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return Runs(tmp_path_factory.mktemp("runs"))


def read(run):
    """All files except the lock, which names the last process."""
    files = (path for path in run.rglob("*") if path.is_file() and path.name != "lock")
    return {str(path.relative_to(run)): path.read_bytes() for path in files}


def make(runs, run, kind):
    options, kept, *_ = RUNS[kind]
    runs.train("--out", run, *options, steps=STEPS, every=0, bundle=kind != "gradients")
    for path in run.iterdir():
        if kept is not None and path.name not in kept:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return read(run)


def call(program, command):
    command = command if program == "binade" else command[1:]
    return subprocess.run([str(BUILD / "bin" / program), *map(str, command)],
                          capture_output=True, text=True, timeout=300, check=False)  # fmt: skip


@pytest.mark.parametrize("program", ["binade", "binade-run"])
@pytest.mark.parametrize("kind", RUNS)
def test_a_run_is_not_overwritten(kind, program, runs, tmp_path):
    run = tmp_path / "run"
    before = make(runs, run, kind)
    _, _, isResumable, words = RUNS[kind]
    command = runs.command("--out", run, steps=STEPS, every=0)
    process = call(program, command)
    assert process.returncode == 3, process.stderr
    assert process.stderr.startswith(f"{run}: error: contains a run: ")
    assert process.stderr.count("error: ") == 1
    for word in [*words, f"--out {run} --overwrite", "--resume"]:
        assert word in process.stderr
    assert read(run) == before
    # The advice about --resume is right.
    assert ("--resume cannot" in process.stderr) == (isResumable is False)
    process = call(program, runs.command("--resume", run, steps=STEPS, every=0))
    if isResumable is False:
        assert process.returncode == 3 and "--overwrite" in process.stderr
        assert read(run) == before
    else:
        assert process.returncode == 0, process.stderr
        assert ("resumed after step" in process.stdout) == bool(isResumable)


def names(run):
    return sorted("events" if "tfevents" in name else name for name in read(run))


@pytest.mark.parametrize("bundle", [True, False])
def test_overwriting_leaves_no_file_of_the_earlier_run(bundle, runs, tmp_path):
    run, other = tmp_path / "run", tmp_path / "other"
    all_files = ["--save-grads", 3, "--save-every", 2, "--stats", "weight:norm"]
    runs.train("--out", run, *all_files, steps=STEPS, every=0, bundle=False)
    assert {"stats.jsonl", "grads-000003.safetensors"} <= read(run).keys()
    (run / "notes.txt").write_text("of the user")
    for folder in (other, run):
        options = {"steps": 2, "every": 0, "bundle": bundle}
        runs.train("--out", folder, "--overwrite", "--seed", 3, **options)
    assert (run / "notes.txt").read_text() == "of the user"
    (run / "notes.txt").unlink()
    assert names(run) == names(other) == FRESH
    assert read(run)["final.safetensors"] == read(other)["final.safetensors"]
    assert len(json.loads((run / "run.json").read_text())["invocations"]) == 1
    assert len((run / "metrics.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("more", "code"),
    [
        (["--policy", "none"], 2),
        (["--resume", "RUN"], 2),
        (["--eval-data", "none"], 3),
        (["--init", "none"], 3),
        (["--lr", "-1"], 3),
        (["--init", "RUN/final.safetensors"], 2),
        (["--init", "RUN/../run/checkpoints/step-000004/state.safetensors"], 2),
    ],
)
def test_a_command_that_fails_does_not_remove_the_run(more, code, runs, tmp_path):
    run = tmp_path / "run"
    runs.train("--out", run, steps=STEPS, every=2)
    before = read(run)
    more = [word.replace("RUN", str(run)) for word in more]
    command = runs.command("--out", run, "--overwrite", *more, bundle=False)
    process = binade(*command)
    assert process.returncode == code, process.stderr
    assert read(run) == before


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    return build_shim(tmp_path_factory.mktemp("shim"))


@pytest.mark.parametrize("effect", [None, "KILL"])
def test_an_overwritten_run_is_whole_or_gone(effect, runs, shim, tmp_path):
    """Each call that renames, creates or writes a file fails, or ends the process."""
    run, saved = tmp_path / "run", tmp_path / "saved"
    runs.train("--out", saved, "--save-grads", 1, steps=STEPS, every=2, bundle=False)
    before = read(saved)
    command = runs.command("--out", run, "--overwrite", steps=1, every=0)
    seen = set()
    for at in range(100):
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(saved, run)
        fault = make_fault(shim, run, "any", at, effect)
        fault["FAULT_COUNT"] = str(tmp_path / "count")
        process = binade(*command, env=fault)
        if at == 0:
            calls = int((tmp_path / "count").read_text())
        if at > calls:
            break
        # The next command restores what a killed one moved, and then refuses.
        process = binade(*runs.command("--out", run, steps=1, every=0))
        found = read(run)
        is_old = "grads-000001.safetensors" in found
        seen.add(is_old)
        if is_old:
            assert process.returncode == 3, process.stderr
            assert found == before, at
        else:
            assert names(run) == FRESH or process.returncode == 3, (at, names(run))
            assert not found.items() & before.items(), at
    assert seen == {True, False} and calls > 5
    assert names(run) == FRESH
    assert len((run / "metrics.jsonl").read_text().splitlines()) == 1
