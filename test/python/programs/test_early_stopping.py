"""A run with --patience ends where the rule ends that NumPy applies to its losses; --keep-best
keeps the state with the lowest one. Both are the same for a run that is interrupted anywhere."""

import json
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest
from support.checkpoint_runs import Runs, checkpoints, metrics
from support.faults import build_shim, check_is_clean, make_fault
from support.paths import BUILD
from support.reference import binade, safetensors

STEPS = 40
HELD_OUT = ["--eval-fraction", 0.32, "--eval-every", 2]  # Two batches of 8.


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Samples with random labels: the held-out loss falls first and then rises."""
    return Runs(tmp_path_factory.mktemp("runs"))


def train(runs, *more, steps=STEPS, every=0, lr=0.05, **options):
    held_out = [*HELD_OUT, "--lr", lr]
    return runs.train(*held_out, *more, steps=steps, every=every, **options)


@pytest.fixture(scope="module")
def losses(runs):
    """The held-out losses of a run to its last step, by step."""
    train(runs, "--out", runs.folder / "whole")
    lines = metrics(runs.folder / "whole")
    return {x["step"]: x["eval_loss"] for x in lines if x["eval_loss"] is not None}


def find_end(losses, patience, delta):
    """Returns the step after which a run ends, and that of the last improvement."""
    best, best_step, waited = np.inf, None, 0
    for step, loss in losses.items():
        waited += 1
        if loss < best - delta:
            best, best_step, waited = loss, step, 0
        if waited == patience:
            return step, best_step
    raise AssertionError("the losses keep improving")


def read_outcome(run):
    return json.loads((run / "run.json").read_text())["invocations"][-1]["outcome"]


def check_same(run, other):
    for name in ("final.safetensors", "best.safetensors"):
        assert (run / name).read_bytes() == (other / name).read_bytes()
    assert metrics(run) == metrics(other)
    assert checkpoints(run) == checkpoints(other)


def check_best(runs, run, losses, tmp_path):
    """Checks that best.safetensors has the state that a run to that step ends with."""
    step = min(losses, key=losses.get)
    train(runs, "--out", tmp_path / "until", steps=step)
    expected = (tmp_path / "until" / "final.safetensors").read_bytes()
    assert (run / "best.safetensors").read_bytes() == expected
    kept = run / "checkpoints" / f"step-{step:06d}" / "state.safetensors"
    assert kept.read_bytes() == expected
    return step


@pytest.mark.parametrize(("patience", "delta"), [(1, 0), (3, 0), (3, 0.05), (2, 10)])
def test_patience_ends_a_run(patience, delta, runs, losses, tmp_path):
    end, best = find_end(losses, patience, delta)
    assert end < STEPS
    given = ["--patience", patience, *(["--min-delta", delta] if delta else [])]
    process = train(runs, "--out", tmp_path / "run", *given)
    than = f"more than {delta:g} " if delta else ""
    count = f"{patience} evaluation{'s' if patience > 1 else ''}"
    assert (
        f"stopped early after step {end}: eval_loss was not {than}below "
        f"{losses[best]:.4f}, that of step {best}, in {count};" in process.stdout
    )
    assert metrics(tmp_path / "run")[-1]["step"] == end
    lowest = min((step for step in losses if step <= end), key=losses.get)
    assert read_outcome(tmp_path / "run") == {
        "steps": end, "stopped_early": True, "best_step": lowest,
        "best_eval_loss": losses[lowest],
    }  # fmt: skip
    assert (
        f"best: eval_loss {losses[lowest]:.4f} after step {lowest}," in process.stdout
    )
    state = safetensors.load(tmp_path / "run" / "final.safetensors")
    assert state["rng"][1] == end
    # The same command changes nothing; more patience continues the run.
    again = train(runs, "--resume", tmp_path / "run", *given)
    assert f"stopped early after step {end}:" in again.stdout
    train(runs, "--resume", tmp_path / "run", "--patience", STEPS)
    whole = runs.folder / "whole"
    assert metrics(tmp_path / "run") == metrics(whole)


def test_the_best_state_is_kept(runs, losses, tmp_path):
    run = tmp_path / "run"
    process = train(runs, "--out", run, "--keep-best", "--keep", 1)
    best = check_best(runs, run, losses, tmp_path)
    assert 0 < best < STEPS - 2
    assert f"best: eval_loss {losses[best]:.4f} after step {best}," in process.stdout
    # Those of the best and the last step.
    assert checkpoints(run) == [f"step-{best:06d}", f"step-{STEPS:06d}"]
    assert metrics(run) == metrics(runs.folder / "whole")
    shown = binade("ckpt", "show", run).stdout
    assert f"{losses[best]!r} after step {best}" in shown
    # A new run replaces the file.
    train(runs, "--out", run, "--overwrite", steps=2)
    assert not (run / "best.safetensors").exists()


def test_the_initial_state_may_be_the_best(runs, tmp_path):
    """It is evaluated like the others, and patience counts from there."""
    run = tmp_path / "run"
    process = train(runs, "--out", run, "--patience", 2, lr=5, policy="bf16")
    assert "that of step 0, in 2 evaluations" in process.stdout
    train(runs, "--out", tmp_path / "initial", steps=0, policy="bf16")
    assert (run / "best.safetensors").read_bytes() == (
        tmp_path / "initial" / "final.safetensors"
    ).read_bytes()
    assert checkpoints(run) == ["step-000000", "step-000004"]


@pytest.mark.parametrize("every", [0, 3])
def test_an_interrupted_run_decides_the_same(every, runs, losses, tmp_path):
    given = ["--keep-best", "--patience", 3, "--keep", 1]
    whole, run = tmp_path / "whole", tmp_path / "run"
    process = train(runs, "--out", whole, *given, every=every)
    end, _ = find_end(losses, 3, 0)
    assert f"stopped early after step {end}:" in process.stdout
    for stop in range(1, STEPS, 3):
        ended = train(runs, "--resume", run, *given, "--stop-after", stop, every=every)
    assert f"stopped early after step {end}:" in ended.stdout
    check_same(run, whole)


def read_call_count(fault):
    with open(fault["FAULT_COUNT"]) as file:
        return int(file.read())


@pytest.mark.parametrize("call", ["rename", "fsync"])
def test_a_killed_run_decides_the_same(call, runs, tmp_path):
    """The process is killed at each renaming and sync of a file in turn."""
    shim = build_shim(tmp_path)
    (tmp_path / "in").mkdir()
    given = ["--keep-best", "--patience", 2, "--keep", 1]
    whole, run = tmp_path / "whole", tmp_path / "in" / "run"
    command = [*HELD_OUT, "--lr", 0.05, *given]
    runs.train("--out", whole, *command, steps=STEPS, every=3)
    words = runs.command("--resume", run, *command, steps=STEPS, every=3)
    fault = make_fault(shim, run, call, 0)
    assert binade(*words, env=fault).returncode == 0
    check_same(run, whole)
    calls = read_call_count(fault)
    assert calls > 10
    for at in range(1, calls + 1, calls // 10):
        for path in sorted(run.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        killed = binade(*words, env=make_fault(shim, run, call, at, "KILL"))
        assert killed.returncode == -signal.SIGKILL
        assert binade(*words).returncode == 0
        check_same(run, whole)
        check_is_clean(run)


def interrupt(command, run):
    """Starts a run with an evaluation after each step, and ends it after the second one, in the
    middle of what follows."""
    process = subprocess.Popen(
        [str(word) for word in [BUILD / "bin" / "binade", *command, "--out", run]],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    lines = run / "metrics.jsonl"
    times = []
    for count in (1, 2):
        while not lines.exists() or lines.read_text().count("\n") < count:
            assert process.poll() is None
            time.sleep(0.001)
        times.append(time.monotonic())
    time.sleep((times[1] - times[0]) / 2)
    process.send_signal(signal.SIGTERM)
    assert process.wait(600) in (0, 128 + signal.SIGTERM)


def test_an_interrupted_evaluation_is_repeated(runs, tmp_path):
    """The evaluation takes far longer than a step, so that most signals arrive inside it."""
    draw = np.random.default_rng(1)
    count = 8 * 4000
    x = draw.standard_normal((count, 6), np.float32)
    held = tmp_path / "held.safetensors"
    safetensors.save(held, {"x": x, "labels": np.arange(count) % 3})
    given = ["--eval-data", held, "--eval-every", 1, "--keep-best", "--keep", 1,
             "--patience", 5, "--stats", "weight:norm"]  # fmt: skip
    words = ["--steps", 3, *given]
    whole, run = tmp_path / "whole", tmp_path / "run"
    command = ["train", runs.model, "--data", runs.data, *words]
    assert binade(*command, "--out", whole).returncode == 0
    for _ in range(20):
        interrupt(command, run)
        last = metrics(run)[-1]
        if last["step"] < 3 and last["eval_loss"] is None:
            break
        shutil.rmtree(run)  # The signal arrived outside of an evaluation.
    else:
        pytest.fail("no signal arrived inside an evaluation")
    assert binade(*command, "--resume", run).returncode == 0
    check_same(run, whole)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--patience", 2], "--patience needs --eval-data or --eval-fraction"),
        (["--keep-best"], "--keep-best needs --eval-data or --eval-fraction"),
        (["--patience", 2, "--eval-fraction", 0.3], "--patience needs --eval-every"),
        (["--min-delta", 0.1, *HELD_OUT], "--min-delta needs --patience"),
        (["--patience", -1], "--patience: expected an integer, 0 or more, got '-1'"),
    ],
)
def test_options_that_need_others(options, message, runs, tmp_path):
    process = runs.train("--out", tmp_path / "run", *options, every=0, code=2)
    assert message in process.stderr
    assert not (tmp_path / "run").exists()


def test_a_best_state_that_was_not_kept(runs, losses, tmp_path):
    """A resumed run keeps the next state with a lower loss."""
    best = min(losses, key=losses.get)
    run = tmp_path / "run"
    train(runs, "--out", run, steps=best + 2, every=best + 2)
    again = train(runs, "--resume", run, "--keep-best", steps=best + 4)
    assert f"the state of step {best}, which has the lowest eval_loss" in again.stderr
    assert not (run / "best.safetensors").exists()


def test_an_alarm_may_read_the_held_out_loss(runs, losses, tmp_path):
    """The series has an entry for each evaluation."""
    rule = {"name": "overfitting", "about": "the held-out loss rises", "value": "eval_loss",
            "window": 1000, "when": f"n == {len(losses) - 2} && value < usual",
            "says": "eval_loss is {value}"}  # fmt: skip
    path = tmp_path / "rule.yaml"
    path.write_text(json.dumps([rule]))
    process = train(runs, "--out", tmp_path / "run", "--alarms", path)
    # Step 0 is not a step of training.
    step = sorted(losses)[len(losses) - 2]
    line = f"step {step}: alarm overfitting: eval_loss is {losses[step]:.4g}"
    assert line in process.stderr
    assert line in binade("alarms", tmp_path / "run", "--alarms", path).stdout
