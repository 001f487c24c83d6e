"""`binade replay` recomputes a step of a run and compares its bits."""

import json
import shutil

import pytest
from binade.replay import find_difference
from binade.run import read_run, read_statistics
from support.paths import BUILD
from support.reference import binade, safetensors
from support.statistics_runs import train, write_inputs

pytestmark = pytest.mark.skipif(
    not (BUILD / "bin/binade-replay").exists(), reason="the tools are not built"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("statistics")
    write_inputs(folder)
    return folder


@pytest.fixture(scope="module")
def run(folder):
    return train(folder, folder / "original", "--save-every", 2, "--keep", 9)


def replay(run, step, out, *more):
    return binade("replay", run, "--step", step, "--out", out, *more)


@pytest.mark.parametrize("step", [1, 4, 5, 6])
def test_a_replayed_step_has_the_same_bits(run, tmp_path, step):
    """Replays from the start or from a checkpoint, with additional statistics."""
    out = tmp_path / "again"
    process = replay(run, step, out, "--stats", "weight,gradient:norm")
    assert process.returncode == 0, process.stderr
    last = f"step {step} has the bits that it had in {run}"
    assert process.stdout.splitlines()[-1] == last
    begin = (step - 1) // 2 * 2
    steps = [line["step"] for line in read_statistics(out)]
    assert sorted(set(steps)) == list(range(begin + 1, step + 1))
    if step % 2 == 0:
        name = f"checkpoints/step-{step:06d}/state.safetensors"
        old, new = (safetensors.load(r / name) for r in (run, out))
        assert {k: v.tobytes() for k, v in old.items()} == {
            k: v.tobytes() for k, v in new.items()
        }


def test_a_difference_is_an_error(run, tmp_path):
    """The test changes the recorded loss of the step."""
    out, lines = tmp_path / "again", (run / "metrics.jsonl").read_text().splitlines()
    kept = "\n".join(lines) + "\n"
    changed = json.loads(lines[2]) | {"loss": 1.5}
    lines[2] = json.dumps(changed)
    (run / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    try:
        process = replay(run, 3, out)
    finally:
        (run / "metrics.jsonl").write_text(kept)
    assert process.returncode == 1 and process.stderr == ""
    last = process.stdout.splitlines()[-1]
    assert last.startswith(f"step 3 is not what it was in {run}: metrics were")


def test_a_missing_state_is_a_difference(run, tmp_path):
    again = tmp_path / "again"
    shutil.copytree(run, again)
    path = again / "checkpoints/step-000004/state.safetensors"
    kept = safetensors.load(path)
    del kept["weight"]
    safetensors.save(path, kept)
    difference = find_difference(read_run(run), read_run(again), 4)
    assert difference == "only one checkpoint has weight"


def test_a_failed_training_is_reported(run, tmp_path):
    """The replay returns its exit code and error, and removes the directory."""
    out = tmp_path / "again"
    process = replay(run, 3, out, "--stats", "weight:nrom")
    assert process.returncode == 2
    assert process.stderr.count("error: ") == 1 and "did you mean" in process.stderr
    assert not out.exists()


def test_invalid_replays_are_errors(run, tmp_path):
    process = replay(run, 7, tmp_path / "again")
    assert process.returncode == 3
    assert "has done steps 1 to 6, not 7" in process.stderr
    assert not (tmp_path / "again").exists()
    process = replay(run, 3, tmp_path)
    assert process.returncode == 3 and "is there; --out names" in process.stderr
    process = replay(tmp_path, 3, tmp_path / "again")
    assert process.returncode == 3 and "no run: expected run.json" in process.stderr
