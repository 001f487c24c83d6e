"""Alarms of runs: they are printed and recorded, and may stop a run or switch its policy."""

import json
import shutil

import ml_dtypes
import numpy as np
import pytest
from support.alarm_runs import (
    COLLAPSE,
    HARD,
    STEPS,
    lose_time,
    read_alarms,
    read_lines,
    train,
    train_switched,
    write_inputs,
)
from support.reference import binade, safetensors

pytest.importorskip("onnx")

F32 = np.float32


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alarms")
    write_inputs(folder)
    return folder


@pytest.fixture(scope="module")
def switched(folder, tmp_path_factory):
    run = tmp_path_factory.mktemp("switched") / "run"
    train_switched(folder, run)
    return run


def test_an_alarm_is_printed_and_recorded(folder, tmp_path):
    process = train(folder, tmp_path / "run")
    assert [(s, rule) for s, rule, _ in read_alarms(
        process.stderr.replace("binade: warning: ", ""))] == [(COLLAPSE, "scale-collapse")]  # fmt: skip
    (line,) = read_lines(tmp_path / "run" / "alarms.jsonl")
    message = line.pop("message")
    assert "fell by 2^3 within 100 steps, to 2^13" in message
    assert "loss_scale" in line.pop("policy") and line.pop("remedy")
    assert line == {"step": COLLAPSE, "rule": "scale-collapse", "where": "",
                    "since": HARD[0] + 1, "value": 13, "forecast": None,
                    "action": "warn"}  # fmt: skip
    again = binade("alarms", tmp_path / "run")
    assert message in again.stdout
    accumulators = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    )
    events = accumulators.EventAccumulator(str(tmp_path / "run"))
    events.Reload()
    found = [(e.step, e.value) for e in events.Scalars("train-alarm/scale-collapse")]
    assert found == [(COLLAPSE, 13)]


def test_rules_change_no_bit_and_compute_only_what_they_watch(folder, tmp_path):
    runs = {}
    for name, words in {"off": ["off"], "metrics": [], "all": ["all"],
                        "one": ["zero-gradient"]}.items():  # fmt: skip
        runs[name] = tmp_path / name
        train(folder, runs[name], *(w for x in words for w in ("--alarms", x)))
    assert not (runs["off"] / "alarms.jsonl").exists()
    for name in ("off", "metrics"):
        assert not (runs[name] / "stats.jsonl").exists()
    lines = read_lines(runs["one"] / "stats.jsonl")
    assert {tuple(line) for line in lines} == {("step", "kind", "layer", "zeros")}
    assert [line["step"] for line in lines] == [10, 20, 30, 40, 50, 60]
    assert {tuple(sorted(x)) for x in read_lines(runs["all"] / "stats.jsonl")} > {
        ("kind", "layer", "saturated", "step")
    }
    states = [
        safetensors.load(r / "final.safetensors")["weight"] for r in runs.values()
    ]
    assert len({state.tobytes() for state in states}) == 1


def test_a_run_stops_with_a_checkpoint(folder, tmp_path):
    run = tmp_path / "run"
    process = train(folder, run, "--on-alarm", "stop", code=4)
    assert f"stopped after step {COLLAPSE}" in process.stdout
    assert (run / "checkpoints" / f"step-{COLLAPSE:06d}").is_dir()
    (line,) = read_lines(run / "alarms.jsonl")
    assert line["action"] == "stop"
    # A user who resumes accepts the alarm: the same condition does not stop the run again.
    train(folder, run, "--on-alarm", "stop", resume=True)
    assert len(read_lines(run / "metrics.jsonl")) == STEPS
    whole = tmp_path / "whole"
    train(folder, whole)
    states = [safetensors.load(r / "final.safetensors")["weight"] for r in (run, whole)]
    assert states[0].tobytes() == states[1].tobytes()


def test_a_resumed_run_has_the_alarms_of_an_uninterrupted_run(folder, tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    train(folder, whole)
    for stop in (5, 56, 60):
        train(folder, broken, "--stop-after", stop, resume=stop > 5)
    train(folder, broken, resume=True)
    read = [(r / "alarms.jsonl").read_text() for r in (whole, broken)]
    assert read[0] == read[1]


@pytest.mark.parametrize(
    "words, message",
    [
        (["--on-alarm", "halt"], "--on-alarm expects warn, stop or switch:POLICY"),
        (["--on-alarm", "switch:"], "--on-alarm expects warn, stop or switch:POLICY"),
        (["--on-alarm", "switch:bf61-amp"], "did you mean 'bf16-amp'?"),
        (["--on-alarm", "stop", "--alarms", "off"], "needs alarms"),
    ],
)
def test_invalid_actions(folder, tmp_path, words, message):
    process = train(folder, tmp_path / "run", *words, code=2)
    assert message in process.stderr and not (tmp_path / "run").exists()


def test_a_switch_converts_the_state(folder, switched):
    lines = read_lines(switched / "metrics.jsonl")
    assert [line["step"] for line in lines] == list(range(1, STEPS + 1))
    assert [line["step"] for line in lines if line["loss_scale"] is not None] == [
        *range(1, COLLAPSE + 1)
    ]
    checkpoints = switched / "checkpoints"
    before, after, last = (
        safetensors.load(checkpoints / f"step-{step:06d}" / "state.safetensors")
        for step in (COLLAPSE - 1, COLLAPSE, STEPS)
    )
    # A skipped step changes nothing: the state is that of the previous step.
    assert np.array_equal(before["weight"], after["weight"])
    assert before["state/exp_avg/weight"].dtype == F32
    codes, scale = (after[f"state/exp_avg/weight{x}"] for x in ("", ".scale"))
    assert codes.dtype == ml_dtypes.float8_e4m3fn
    # Half a unit in the last place of E4M3, whose normal values have 3 fraction bits.
    scale = scale[:, None]
    exact = before["state/exp_avg/weight"].reshape(-1, 128)
    error = np.abs(codes.astype(F32).reshape(-1, 128) * scale - exact)
    assert np.all(error <= np.maximum(np.abs(exact) / 16, scale * 2.0**-10))
    assert not np.array_equal(after["weight"], last["weight"])
    assert "scaler/scale" in before and "scaler/scale" not in after
    assert after["step"] == before["step"]
    about = json.loads((switched / "run.json").read_text())
    assert about["policy"] == "other"
    assert [(i["after_step"], i["policy"]) for i in about["invocations"]] == [
        (0, "fp16-amp"),
        (COLLAPSE, "other"),
    ]
    (line,) = read_lines(switched / "alarms.jsonl")
    assert (line["step"], line["action"]) == (COLLAPSE, "switch")


def test_no_switch_after_the_last_step(folder, tmp_path):
    run = tmp_path / "run"
    train(folder, run, "--on-alarm", "switch:bf16-amp", steps=COLLAPSE)
    assert json.loads((run / "run.json").read_text())["policy"] == "fp16-amp"
    (line,) = read_lines(run / "alarms.jsonl")
    assert line["step"] == COLLAPSE


def test_a_switch_equals_a_conversion_by_command(folder, switched, tmp_path):
    train(folder, tmp_path / "stopped", "--on-alarm", "stop", code=4)
    bundle = tmp_path / "other.bnd"
    for words in [
        ("compile", folder / "model.onnx", "--optimizer", "adamw", "--lr", 0.01,
         "--policy", folder / "other.yaml", "-o", bundle),
        ("ckpt", "convert", tmp_path / "stopped", "--to", bundle, "-o", tmp_path / "run"),
    ]:  # fmt: skip
        process = binade(*words)
        assert process.returncode == 0, process.stderr
    train(folder, tmp_path / "run", policy=folder / "other.yaml", resume=True)
    bits = [
        (r / "final.safetensors").read_bytes() for r in (tmp_path / "run", switched)
    ]
    assert bits[0] == bits[1]


@pytest.mark.parametrize("stop", [40, COLLAPSE, COLLAPSE + 3])
def test_a_run_with_a_switch_is_resumed(folder, switched, tmp_path, stop):
    run, words = tmp_path / "run", ["--on-alarm", f"switch:{folder / 'other.yaml'}"]
    train(folder, run, *words, "--stop-after", stop)
    train(folder, run, *words, resume=True)
    assert lose_time(run) == lose_time(switched)
    bits = [(r / "final.safetensors").read_bytes() for r in (run, switched)]
    assert bits[0] == bits[1]


@pytest.mark.parametrize("checkpoints", ["all", "before"])
def test_a_step_after_a_switch_is_replayed(switched, tmp_path, checkpoints):
    """Replays from a checkpoint after the switch, and from one before it."""
    run = tmp_path / "run"
    shutil.copytree(switched, run)
    if checkpoints == "before":
        for path in (run / "checkpoints").iterdir():
            if COLLAPSE <= int(path.name[-6:]) < STEPS:
                shutil.rmtree(path)
    process = binade("replay", run, "--step", STEPS, "--out", tmp_path / "again")
    assert process.returncode == 0, process.stderr + process.stdout
    assert f"step {STEPS} has the bits that it had" in process.stdout


@pytest.mark.parametrize("step", [COLLAPSE, STEPS])
def test_a_step_that_alarms_stopped_is_replayed(folder, tmp_path, step):
    """The policy stops the run. Replays the step that stopped, and a later one through it."""
    policy = tmp_path / "stops.yaml"
    policy.write_text("name: stops\nextends: fp16-amp\non_alarm: stop\n")
    run = tmp_path / "run"
    train(folder, run, policy=policy, code=4)
    train(folder, run, policy=policy, resume=True)
    shutil.rmtree(run / "checkpoints" / f"step-{COLLAPSE:06d}")
    process = binade("replay", run, "--step", step, "--out", tmp_path / "again")
    assert process.returncode == 0, process.stderr + process.stdout
    assert f"step {step} has the bits that it had" in process.stdout


def test_a_bundle_has_one_policy(folder, tmp_path):
    process = binade("compile", folder / "model.onnx", "-o", tmp_path / "step.bnd")
    assert process.returncode == 0, process.stderr
    process = binade("train", tmp_path / "step.bnd", "--data",
                     folder / "data.safetensors", "--steps", 2, "--out",
                     tmp_path / "run", "--on-alarm", "switch:bf16-amp")  # fmt: skip
    assert (
        process.returncode == 2
        and "train the model instead of the bundle" in process.stderr
    )
