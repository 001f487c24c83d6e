"""The runs of docs/Underflow.md raise the expected alarms at the expected steps.

The models clip-tiny and detector-tiny are not in the repository but in BINADE_MODELS.
"""

import json

import pytest
from support.underflow_runs import needs_models, regimes, underflow

pytestmark = needs_models
HEALTHY = [
    ("natural", "fp16-amp"), ("natural", "torch-cuda-fp16"), ("natural", "bf16-amp"),
    ("detector", "fp16-amp"), ("detector", "bf16-amp"),
]  # fmt: skip


def find_alarms(folder, regime, policy):
    """Trains, and returns the steps of the alarms of each rule."""
    underflow.train(folder, regime, policy, 0, ["--alarms", "all"])
    file = folder / f"{regime}.{policy}.0" / "alarms.jsonl"
    lines = map(json.loads, file.read_text().splitlines() if file.exists() else [])
    found = {}
    for line in lines:
        found.setdefault(line["rule"], []).append(line["step"])
    return found


def test_a_collapse_raises_an_alarm_at_its_step(tmp_path, monkeypatch):
    # Only falls of the scale after 50 good steps are a collapse.
    short = regimes.Regime(90, 1e-4, 20, hard=1024, first=61)
    monkeypatch.setitem(regimes.REGIMES, "short", short)
    found = find_alarms(tmp_path, "short", "torch-cuda-fp16")
    assert set(found) == {"scale-collapse", "repeated-skips"}
    assert found["scale-collapse"][0] == 64
    assert not find_alarms(tmp_path, "short", "bf16-amp")


@pytest.mark.nightly
@pytest.mark.parametrize("regime", ["memo-raw", "late-raw"])
def test_the_rule_room_raises_an_alarm_before_the_collapse(tmp_path, regime):
    found = find_alarms(tmp_path, regime, "fp16-amp")
    first = regimes.REGIMES[regime].first
    assert found["room"][0] < first - 50
    assert first < found["scale-collapse"][0] <= first + 50


@pytest.mark.nightly
@pytest.mark.parametrize(("regime", "policy"), HEALTHY)
def test_healthy_runs_have_no_alarm(tmp_path, regime, policy):
    assert not find_alarms(tmp_path, regime, policy)
