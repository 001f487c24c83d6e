"""Event files for TensorBoard contain the same metrics as metrics.jsonl."""

import pathlib
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest
from support.paths import BUILD
from support.run_folders import Folder, read_metrics

pytestmark = pytest.mark.skipif(
    not (BUILD / "bin/binade-runs").exists(), reason="the tools are not built"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = Folder(tmp_path_factory.mktemp("runs"))
    for policy, seed in (("fp32", 0), ("fp32", 1), (made.policy, 0), (made.policy, 1)):
        name = f"{pathlib.Path(policy).stem}-{seed}"
        made.train(policy, "--out", made.path / "all" / name, seed=seed)
    return made


@pytest.fixture
def run(folder):
    return folder.path / "all" / "own-0"


def read_events(run, **options):
    """Returns (step, value) of each event by tag, as TensorBoard reads them."""
    accumulators = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    )
    events = accumulators.EventAccumulator(
        str(run), size_guidance={accumulators.SCALARS: 0}, **options
    )
    events.Reload()
    tags = events.Tags()["scalars"]
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in tags}


def events_of(metrics):
    """Converts metrics.jsonl to TensorBoard's tags and f32 values."""
    names = {"train/loss": "loss", "train/grad_norm": "grad_norm",
             "train/loss_scale": "loss_scale", "train/lr": "lr",
             "train/skipped": "skipped", "eval/loss": "eval_loss"}  # fmt: skip
    found = {
        tag: [
            (s["step"], float(np.float32(s[key])))
            for s in metrics
            if s[key] is not None and (s["step"] > 0 or key == "eval_loss")
        ]
        for tag, key in names.items()
    }
    return {tag: events for tag, events in found.items() if events}


def test_events_equal_the_metrics(folder, run):
    metrics = read_metrics(run)
    # The loss scale changes, and steps with a non-finite norm are skipped.
    assert len({step["loss_scale"] for step in metrics}) > 2
    assert {step["lr"] for step in metrics[1:]} == {0.01}
    found = {
        tag: [(step, value) for step, value in events if np.isfinite(value)]
        for tag, events in read_events(run).items()
        if not tag.startswith("train-alarm/")
    }
    assert found == events_of(metrics)
    assert {value for _, value in found["train/skipped"]} == {0.0, 1.0}
    assert [step for step, _ in found["eval/loss"]] == [0, 20, 40, 60]
    plain = folder.path / "all/fp32-0"
    assert read_events(plain) == events_of(read_metrics(plain))
    assert "train/loss_scale" not in read_events(plain)


def test_events_contain_the_learning_rate_of_each_step(folder, tmp_path):
    run, schedule = tmp_path / "run", ["--schedule", "lr=base / (step + 1)"]
    folder.train("fp32", "--out", run, *schedule, "--save-every", 10, steps=10)
    folder.train("fp32", "--resume", run, *schedule, steps=20)
    rates = [step["lr"] for step in read_metrics(run)[1:]]
    np.testing.assert_allclose(rates, 0.01 / np.arange(1, 21), rtol=1e-15)
    assert read_events(run)["train/lr"] == events_of(read_metrics(run))["train/lr"]


def test_events_contain_their_time(folder, tmp_path):
    accumulators = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    )
    begun = time.time()
    folder.train("fp32", "--out", tmp_path / "run")
    events = accumulators.EventAccumulator(str(tmp_path / "run"))
    events.Reload()
    times = [event.wall_time for event in events.Scalars("train/loss")]
    assert times == sorted(times) and begun <= times[0] and times[-1] <= time.time()


def test_a_resumed_run_has_each_step_once(folder, tmp_path):
    """Steps after the checkpoint are recomputed; readers discard their first events."""
    run = tmp_path / "run"
    folder.train("fp32", "--out", run, "--save-every", 15, "--keep", 9, steps=40)
    for step in (30, 40):
        shutil.rmtree(run / f"checkpoints/step-{step:06d}")
    # File names sort correctly even if created within one second.
    folder.train("fp32", "--resume", run, "--save-every", 100, steps=20)
    folder.train("fp32", "--resume", run)
    assert len(list(run.glob("events.out.tfevents.*"))) == 3
    assert read_events(run)["train/loss"] == events_of(read_metrics(run))["train/loss"]
    everything = read_events(run, purge_orphaned_data=False)["train/loss"]
    assert len(everything) == 40 + (20 - 15) + (60 - 20)
    # A new run in the same directory does not keep the old run's events.
    shutil.rmtree(run / "checkpoints")
    folder.train("fp32", "--out", run, "--overwrite", steps=5)
    assert [step for step, _ in read_events(run)["train/loss"]] == [1, 2, 3, 4, 5]


def test_a_killed_run_leaves_readable_events(folder, tmp_path):
    run = tmp_path / "run"
    command = [BUILD / "bin/binade", *folder.command("fp32", "--out", run, steps=10**8)]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 600
    # The file header is written at once, events about every second.
    while not any(p.stat().st_size > 1000 for p in run.glob("events.*")):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    events = read_events(run)["train/loss"]
    metrics = read_metrics(run)
    assert 10 < len(events) <= len(metrics)
    assert events == events_of(metrics)["train/loss"][: len(events)]
