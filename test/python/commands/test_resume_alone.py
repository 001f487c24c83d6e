"""`binade train --resume RUN` continues a run with the command in its run.json."""

import json
import os
import shutil
import subprocess

import pytest
from support.checkpoint_runs import Runs, check_equal, metrics
from support.paths import BUILD

STEPS = 12


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return Runs(tmp_path_factory.mktemp("runs"))


def call(*words, program="binade", cwd=None):
    command = [str(BUILD / "bin" / program), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=cwd,
                          check=False)  # fmt: skip


def commands(run):
    about = json.loads((run / "run.json").read_text())
    return [invocation["command"] for invocation in about["invocations"]]


@pytest.fixture(scope="module")
def whole(runs, tmp_path_factory):
    run = tmp_path_factory.mktemp("whole") / "run"
    runs.train("--out", run, "--seed", 5, "--set", "weight_decay=0.1", steps=STEPS)
    return run


@pytest.fixture
def stopped(runs, tmp_path):
    """A run that was stopped after a third of its steps, with outputs of its own."""
    run = tmp_path / "run"
    runs.train("--out", run, "--overwrite", "--seed", 5, "--stop-after", STEPS // 3,
               "--set=weight_decay=0.1", "--save-inputs", tmp_path / "inputs",
               "--profile", tmp_path / "profile", steps=STEPS)  # fmt: skip
    return run


@pytest.mark.parametrize("program", ["binade", "binade-run"])
def test_a_run_continues_without_other_options(program, runs, whole, stopped):
    if program == "binade-run":
        shutil.rmtree(stopped)
        words = runs.command("--out", stopped, "--seed", 5, "--set", "weight_decay=0.1",
                             "--stop-after", 4, steps=STEPS)  # fmt: skip
        process = call(*words[1:], program=program)
        assert process.returncode == 0, process.stderr
        assert f"'binade-run --resume {stopped}' resumes the run" in process.stdout
    before = set(stopped.parent.iterdir())
    name = ["train"] if program == "binade" else []
    process = call(*name, "--resume", stopped, program=program)
    assert process.returncode == 0, process.stderr
    assert f"resumed after step {STEPS // 3}\n" in process.stdout
    assert process.stdout.startswith(f"command: {program} ")
    check_equal(stopped, whole)
    assert set(stopped.parent.iterdir()) == before
    # The whole command is recorded, so that the run can be resumed again and replayed.
    # A file of the run names it, too, but the directory is recorded.
    for named in (stopped / "run.json", stopped):
        last = commands(stopped)[-1]
        assert last[-2:] == ["--resume", str(stopped)] and "--seed" in last
        assert not {"--out", "--stop-after", "--save-inputs", "--overwrite"} & set(last)
        process = call(*name, "--resume", named, program=program)
        assert process.returncode == 0, process.stderr
        done = f"resumed after step {STEPS}, the last one; a larger --steps trains on\n"
        assert done in process.stdout
    check_equal(stopped, whole)


# Options that are given again, the exit code, and words of the output.
AGAIN = {
    "more steps": (["--steps", 20], 0, "step 20/20"),
    "the same": (["--seed", 5, "--set", "weight_decay=0.1"], 0, "step 12/12"),
    "another form": (["--seed=5"], 0, "step 12/12"),
    "stop": (["--stop-after", 6], 0, "stopped after step 6"),
    "another seed": (["--seed", 6], 3, "belongs to another run"),
    "another setting": (["--set", "weight_decay=0.2"], 3, "belongs to another run"),
    "another rate": (["--lr", 0.5], 3, "belongs to another run"),
    "fewer steps": (["--steps", 2], 2, "the run has done 4 steps, more than 2"),
    "unknown": (["--sede", 5], 2, "no option is called '--sede'; did you mean '--seed'?"),
    "no value": (["--seed"], 2, "--seed"),
    "out": (["--out", "other"], 2, "--out"),
    "help": (["--help"], 0, "Usage: binade train"),
}  # fmt: skip


@pytest.mark.parametrize("kind", AGAIN)
def test_options_that_are_given_again(kind, stopped):
    options, code, words = AGAIN[kind]
    process = call("train", "--resume", stopped, *options)
    assert process.returncode == code, process.stderr
    assert words in process.stdout + process.stderr


def test_paths_are_relative_to_the_directory_of_the_command(runs, whole, tmp_path):
    work, other = tmp_path / "work", tmp_path / "elsewhere"
    work.mkdir()
    other.mkdir()
    shutil.copy(runs.compile("f16"), work / "net.bnd")
    shutil.copy(runs.data, work / "data.safetensors")
    process = call("train", "net.bnd", "--data", "data.safetensors", "--steps", STEPS,
                   "--save-every", 5, "--stop-after", 4, "--out", "run", "--seed", 5,
                   "--set", "weight_decay=0.1", cwd=work)  # fmt: skip
    assert process.returncode == 0, process.stderr
    relative = os.path.relpath(work / "run", other)
    process = call("train", "--resume", relative, "--data", "x.safetensors", cwd=other)
    assert process.returncode == 2 and "expected an absolute path" in process.stderr
    process = call("train", "--resume", relative, cwd=other)
    assert process.returncode == 0, process.stderr
    check_equal(work / "run", whole)
    assert not list(other.iterdir())


def test_runs_without_a_command_are_refused(runs, stopped, tmp_path):
    for program, name in (("binade", ["train"]), ("binade-run", [])):
        process = call(*name, "--resume", tmp_path / "none", program=program)
        assert process.returncode == 3 and "run.json" in process.stderr
    process = call("--resume", stopped, program="binade-run")
    assert process.returncode == 2
    assert "was not trained by 'binade-run' but by 'binade'" in process.stderr
    for text in (
        "{",
        "{}",
        '{"invocations": [{"command": [1], "directory": ""}]}',
        '{"invocations": []}',
        '{"invocations": [{"command": ["x"]}]}',
    ):
        (stopped / "run.json").write_text(text)
        process = call("train", "--resume", stopped)
        assert process.returncode == 3 and "run.json" in process.stderr
        assert len(metrics(stopped)) == STEPS // 3


def test_a_replayed_step_can_be_resumed(runs, whole, stopped, tmp_path):
    replayed = tmp_path / "replayed"
    process = call("replay", stopped, "--step", 3, "--out", replayed)
    assert process.returncode == 0, process.stderr
    assert f"'binade train --resume {replayed}' resumes the run" in process.stdout
    process = call("train", "--resume", replayed)
    assert process.returncode == 0, process.stderr
    check_equal(replayed, whole)
