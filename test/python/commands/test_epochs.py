"""`--epochs N` trains N passes over the training samples."""

import json

import numpy as np
import pytest
from support.checkpoint_runs import Runs, check_equal
from support.paths import BUILD
from support.reference import binade, safetensors

onnx = pytest.importorskip("onnx")

SAMPLES, BATCH, EVERY = 50, 8, 5
BATCHES = SAMPLES // BATCH
# The sum of a window of three elements of a stream.
STREAM = """
<ir_version: 10, opset_import: ["" : 18]>
g (float[1, 3] x) => (float loss) <float[1, 3] a = {2.0, 1.0, 3.0}> {
  y = Mul(x, a)
  loss = ReduceMean <keepdims = 0> (y)
}
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return Runs(tmp_path_factory.mktemp("epochs"))


def train(runs, *more):
    """Trains without --steps."""
    command = runs.command(*more, policy="bf16", every=EVERY)
    at = command.index("--steps")
    return binade(*command[:at], *command[at + 2 :])


def describe(run):
    return json.loads((run / "run.json").read_text())


def count_steps(run):
    return len((run / "metrics.jsonl").read_text().splitlines())


def test_a_run_of_epochs_equals_one_of_steps(runs, tmp_path):
    process = train(runs, "--epochs", 3, "--out", tmp_path / "epochs")
    assert process.returncode == 0, process.stderr
    assert f"length: 3 epochs of {BATCHES} batches, {3 * BATCHES} steps\n" in (
        process.stdout
    )
    process = train(runs, "--steps", 3 * BATCHES, "--out", tmp_path / "steps")
    assert process.returncode == 0, process.stderr
    check_equal(tmp_path / "epochs", tmp_path / "steps")
    [last] = describe(tmp_path / "epochs")["invocations"]
    assert last["epochs"] == 3 and last["steps"] == 3 * BATCHES
    [last] = describe(tmp_path / "steps")["invocations"]
    assert last["epochs"] is None


def test_a_resumed_run_of_epochs_continues(runs, tmp_path):
    process = train(runs, "--epochs", 4, "--out", tmp_path / "whole")
    assert process.returncode == 0, process.stderr
    run = tmp_path / "run"
    process = train(runs, "--epochs", 1, "--stop-after", 4, "--resume", run)
    assert process.returncode == 0, process.stderr
    # The recorded --epochs.
    process = binade("train", "--resume", run)
    assert process.returncode == 0, process.stderr
    assert "resumed after step 4\n" in process.stdout
    assert count_steps(run) == BATCHES
    # More of them, steps instead, and epochs again.
    for words, steps in (
        (["--epochs", 2], 2 * BATCHES),
        (["--steps", 20], 20),
        (["--epochs", 4], 4 * BATCHES),
    ):
        process = binade("train", "--resume", run, *words)
        assert process.returncode == 0, process.stderr
        assert count_steps(run) == steps
    check_equal(run, tmp_path / "whole")
    epochs = [call["epochs"] for call in describe(run)["invocations"]]
    assert epochs == [1, 1, 2, None, 4]
    process = binade("train", "--resume", run, "--epochs", 3)
    assert process.returncode == 2, process.stderr
    assert "--epochs: error: the run has done 24 steps, more than 18" in process.stderr


def test_a_schedule_depends_on_the_number_of_epochs(runs, tmp_path):
    run = tmp_path / "run"
    process = train(runs, "--epochs", 1, "--schedule", "cosine", "--out", run)
    assert process.returncode == 0, process.stderr
    process = binade("train", "--resume", run, "--epochs", 2)
    assert process.returncode == 3, process.stderr
    assert "the schedule depends on --steps (or --epochs)" in process.stderr


@pytest.mark.skipif(
    not (BUILD / "bin/binade-replay").exists(), reason="the tools are not built"
)
def test_a_step_of_a_run_of_epochs_is_replayed(runs, tmp_path):
    process = train(runs, "--epochs", 1, "--out", tmp_path / "run")
    assert process.returncode == 0, process.stderr
    words = ["--step", 3, "--out", tmp_path / "again"]
    process = binade("replay", tmp_path / "run", *words)
    assert process.returncode == 0, process.stderr
    assert "step 3 has the bits that it had" in process.stdout


def test_held_out_samples_are_not_counted(runs, tmp_path):
    words = ["--eval-fraction", 0.2, "--epochs", 2]
    process = train(runs, *words, "--out", tmp_path / "run")
    assert process.returncode == 0, process.stderr
    assert count_steps(tmp_path / "run") == 1 + 2 * (40 // BATCH)


def test_windows_that_overlap_held_out_ones_are_not_counted(tmp_path):
    model = onnx.parser.parse_model(STREAM)
    model.metadata_props.add(key="binade.trainable", value='["a"]')
    onnx.save(model, tmp_path / "model.onnx")
    stream = np.linspace(0, 1, 20, dtype=np.float32)
    safetensors.save(tmp_path / "data.safetensors", {"s": stream})
    windows = [set(range(start, start + 3)) for start in range(len(stream) - 2)]
    held_out = windows[-len(windows) // 3 :]
    training = [w for w in windows if not any(w & other for other in held_out)]
    assert 0 < len(training) < len(windows) - len(held_out)
    for words, samples in (
        ([], len(windows)),
        (["--eval-fraction", 1 / 3], len(training)),
    ):
        run = tmp_path / str(samples)
        process = binade(
            "train", tmp_path / "model.onnx", "--data", tmp_path / "data.safetensors",
            "--window", "x=s[0:3]", "--stride", 1, "--epochs", 2, "--out", run,
            *words, "--optimizer", "sgd", "--lr", 0.01,
        )  # fmt: skip
        assert process.returncode == 0, process.stderr
        assert describe(run)["samples"] == samples
        assert count_steps(run) == 2 * samples + bool(words)


def test_batches_of_several_epochs_fill_steps(runs, tmp_path):
    """3 epochs of 6 batches are 4 steps of 4 batches."""
    command = runs.command("--accumulate", 4, "--epochs", 3, "--out", tmp_path / "run",
                           bundle=False)  # fmt: skip
    at = command.index("--steps")
    process = binade(*command[:at], *command[at + 2 :])
    assert process.returncode == 0, process.stderr
    assert count_steps(tmp_path / "run") == 3 * BATCHES // 4
    command[command.index("--accumulate") + 1] = 3 * BATCHES + 1
    process = binade(*command[:at], *command[at + 2 :], "--overwrite")
    assert process.returncode == 2, process.stderr
    assert (
        f"--epochs: error: 3 epochs of {BATCHES} batches from {runs.data} fill no step, "
        f"which reads {3 * BATCHES + 1} batches of {BATCH} samples"
    ) in process.stderr
    assert f"there are {SAMPLES} samples to train on" in process.stderr


@pytest.mark.parametrize(
    ("words", "texts"),
    [
        ([], ["--steps or --epochs is required"]),
        (["--epochs", 2, "--steps", 3], ["--steps cannot be used with --epochs"]),
        (["--epochs", 0], ["--epochs", "0"]),
        (["--epochs", 1.5], ["--epochs", "1.5"]),
        (["--epochs", 2**62], ["--epochs: error: too many"]),
    ],
)
def test_invalid_lengths(words, texts, runs, tmp_path):
    process = train(runs, *words, "--out", tmp_path / "run")
    assert process.returncode == 2, process.stderr
    for text in texts:
        assert text in process.stderr
    assert not (tmp_path / "run").exists()
