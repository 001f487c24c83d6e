"""The goals of benchmarks/gpu, and what predictions and measurements say about them."""

import json
import sys

import pytest
from support.paths import ROOT

sys.path.insert(0, str(ROOT / "benchmarks" / "gpu"))

import calibration
import goals
import measured
import predict
from cases import CASES
from chips import Chip
from contraction_cases import ATTENTION, CUDNN, CUDNN_STRICT, FLASH, HEADS, LIBRARY
from goals import list_goals
from measured import MeasuredPeers
from steps import COMPILED, STEPS

H100 = "NVIDIA H100 80GB HBM3"
PREDICTED = json.loads(
    (ROOT / "benchmarks/gpu/results/predicted-h100.json").read_text()
)
# What was agreed upon: the most that time and memory of a step may be of its peer's.
REQUIRED_OF_STEPS = {
    "gpt2-bf16": ({COMPILED: 0.95}, {COMPILED: 0.60}),
    "gpt2-coat": ({COMPILED: None, "gpt2-bf16": 0.85}, {COMPILED: 0.45}),
    "llama-bf16": ({COMPILED: 0.95}, {COMPILED: 0.80}),
    "llama-coat": ({COMPILED: None, "llama-bf16": 0.75}, {COMPILED: 0.50}),
    "gpt2-master": ({"gpt2-bf16": 1.0}, {}),
    "llama-master": ({"llama-bf16": 1.0}, {}),
}


def test_goals_of_steps_and_attention():
    assert {
        step.name: (step.peers, step.memory_peers) for step in STEPS
    } == REQUIRED_OF_STEPS
    for case in ATTENTION:
        strict = CUDNN_STRICT if case.isBackward else CUDNN
        assert (case.peers[FLASH], case.library_peers[strict]) == (1.0, 1.15)
    shares = {case.name: case.share for case in [*CASES, *HEADS] if case.share}
    assert shares == {"adamw": 0.90, "e4m3": 0.85, "e4m3x": 0.75, "dyn8": 0.85, "tiger": 0.90,
                      "row": 0.88, "group": 0.88, "delayed": 0.88, "turned": 0.88,
                      "loss": 0.85}  # fmt: skip


def test_every_goal_is_predicted():
    """Each goal of a definition is in the file of predictions."""
    found = [goal for row in PREDICTED["rows"] for goal in list_goals(row)]
    limits = {(goal.row, goal.what): goal.high for goal in found}
    for step in STEPS:
        for what, peers in (("time", step.peers), ("memory", step.memory_peers)):
            for peer, limit in peers.items():
                assert limits.get((step.title, f"{what} / {peer}")) == limit
    for case in [*CASES, *ATTENTION, *HEADS]:
        for peer, limit in case.peers.items():
            assert limits.get((case.title, f"time / {peer}")) == limit
        for peer, limit in (getattr(case, "library_peers", None) or {}).items():
            title = f"{case.title}, by a library"
            assert limits.get((title, f"time / {peer}")) == limit
        assert ((case.title, "share of a copy") in limits) == (case.share is not None)


def test_calibrated_predictions_are_goals():
    rows = calibration.judge(Chip.load(predict.CHIP))
    found = {goal.row: goal for row in rows for goal in list_goals(row)}
    kernels = found["kernels, as calibrated"]
    within, compared = map(int, kernels.quotient.split(" / "))
    assert kernels.value == within / compared > 0.94
    assert len(rows[-1]["far"]) == compared - within
    measured = [step for step in STEPS if not step.name.endswith("-master")]
    assert len(measured) == 4
    for step in measured:
        goal = found[f"{step.name}, as calibrated"]
        assert (goal.low, goal.high, goal.isReached) == (0.9, 1.1, True)


def test_a_goal_shows_what_is_divided():
    row = {"part": "steps", "name": "s", "title": "A step", "ms": 60.0, "arena": 12 << 30,
           "peers": {"torch": {"ratio": 0.857, "goal": 0.85, "ms": 70.0}},
           "memory_peers": {"torch": {"ratio": 0.6, "goal": 0.6, "bytes": 20 << 30}}}  # fmt: skip
    assert [str(goal) for goal in list_goals(row)] == [
        "A step: time / torch: 60.0 ms / 70.0 ms = 0.857 (≤ 0.850): **missed**",
        "A step: memory / torch: 12.00 GiB / 20.00 GiB = 0.600 (≤ 0.600): reached",
    ]
    kernel = {"part": "kernels", "name": "k", "title": "A kernel", "ms": 0.5, "gbs": 2565,
              "share": 0.9, "share_goal": 0.85, "predicted_ms": 0.6,
              "unavailable": {"bitsandbytes": {"goal": 0.55, "reason": "not installed"}}}  # fmt: skip
    assert [str(goal) for goal in list_goals(kernel)] == [
        "A kernel: share of a copy: 2565 GB/s / 2850 GB/s = 90.0 % (≥ 85.0 %): reached",
        "A kernel: time / bitsandbytes:  (≤ 0.550): not known: not installed",
        "A kernel: predicted / measured: 0.600 ms / 0.500 ms = 1.200 (0.850 to 1.150): "
        "**missed**",
    ]
    assert goals.judge([*list_goals(row), *list_goals(kernel)]) == (
        "5 goals: 2 reached, 2 missed, 1 not known."
    )


def test_peers_take_what_the_newest_result_says():
    known = MeasuredPeers(H100)
    assert known.times["steps", "gpt2-bf16", COMPILED] == 68.828
    assert known.memory["steps", "gpt2-bf16", COMPILED] == 16258348032
    assert known.times["kernels", "e4m3", "torch fused AdamW"] == 1.3815
    assert known.times["attention", "attention-gpt2", FLASH] == 0.2572
    library = f"attention-llama-backward{LIBRARY}"
    assert known.times["attention", library, CUDNN_STRICT] == 1.364
    # Nothing of cuDNN is in that row of the newest result; this is in the file of rates.
    backward = known.times["attention", "attention-llama-backward", CUDNN_STRICT]
    assert backward == pytest.approx(1.3416, abs=1e-4)


def write_results(folder, monkeypatch, **results):
    """Writes files of results, of which the names are dates."""
    for date, ms in results.items():
        peers = {"torch": {"ratio": 0.5, "goal": None, "ms": ms}}
        row = {"part": "head", "name": "h", "ms": 1.0, "peers": peers}
        result = {"standing": "measured", "device": H100, "date": date, "rows": [row]}
        (folder / f"{date}.json").write_text(json.dumps(result))
    monkeypatch.setattr(measured.report, "RESULTS", folder)


def test_later_results_count(tmp_path, monkeypatch):
    write_results(tmp_path, monkeypatch, d1=3.0, d3=2.0, d2=4.0)
    assert MeasuredPeers(H100).times["head", "h", "torch"] == 2.0
    assert ("head", "h", "torch") not in MeasuredPeers("another device").times


def test_own_steps_are_peers_only_if_predicted():
    """A measured time of an older compiler must not be compared with a prediction."""
    definitions = {("steps", step.name): step for step in STEPS}

    def compare(*names):
        rows = [
            {"part": "steps", "name": name, "ms": 60.0, "arena": 1} for name in names
        ]
        predict.add_peers(rows, definitions)
        return rows[-1]

    row = compare("gpt2-bf16", "gpt2-coat")
    assert row["peers"]["gpt2-bf16"] == {"ratio": 1.0, "goal": 0.85, "ms": 60.0}
    row = compare("gpt2-coat")
    assert "gpt2-bf16" not in row["peers"]
    assert row["unavailable"]["gpt2-bf16"]["goal"] == 0.85
    assert row["memory_peers"][COMPILED]["goal"] == 0.45


def test_rows_by_libraries_end_alike():
    assert not any(case.name.endswith(LIBRARY) for case in ATTENTION)
