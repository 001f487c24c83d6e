"""Alarms of runs: told, written down, and what a run does about them."""

import json

import numpy as np
import pytest
from reference import ONE_WEIGHT, binade, safetensors, write_model
from test_alarms import read_alarms

pytest.importorskip("onnx")

F32 = np.float32
WEIGHT = np.linspace(-1, 1, 16, dtype=F32).reshape(4, 4)
STEPS = 64
# Of which the batches overflow in f16.
HARD = range(54, 59)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alarms")
    write_model(folder, ONE_WEIGHT, ["weight"], WEIGHT)
    x = np.random.default_rng(5).standard_normal((2 * STEPS, 4)).astype(F32) / 8
    for step in HARD:
        x[2 * step - 2 : 2 * step] *= F32(1e8)
    safetensors.save(folder / "data.safetensors", {"x": x})
    return folder


def train(folder, out, *more, policy="fp16-amp", resume=False, code=0, steps=STEPS):
    process = binade(
        "train", folder / "model.onnx", "--data", folder / "data.safetensors",
        "--order", "sequential", "--optimizer", "adamw", "--lr", 0.01, "--steps", steps,
        "--policy", policy, "--resume" if resume else "--out", out, *more,
    )  # fmt: skip
    assert process.returncode == code, process.stderr
    return process


def read_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


# The third halving shows in the scale of the step after it.
COLLAPSE = HARD[2] + 1


def test_an_alarm_is_told_and_written_down(folder, tmp_path):
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
    found = [(e.step, e.value) for e in events.Scalars("alarm/scale-collapse")]
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
    # Who goes on has decided so: the same trouble stops no second time.
    train(folder, run, "--on-alarm", "stop", resume=True)
    assert len(read_lines(run / "metrics.jsonl")) == STEPS
    whole = tmp_path / "whole"
    train(folder, whole)
    states = [safetensors.load(r / "final.safetensors")["weight"] for r in (run, whole)]
    assert states[0].tobytes() == states[1].tobytes()


def test_a_resumed_run_has_the_alarms_of_an_unbroken_one(folder, tmp_path):
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
def test_bad_actions(folder, tmp_path, words, message):
    process = train(folder, tmp_path / "run", *words, code=2)
    assert message in process.stderr and not (tmp_path / "run").exists()
