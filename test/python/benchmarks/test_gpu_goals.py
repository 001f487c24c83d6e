"""The goals of benchmarks/gpu, and what results say about them."""

import sys

from support.paths import ROOT

sys.path.insert(0, str(ROOT / "benchmarks" / "gpu"))

import goals
from cases import CASES
from contraction_cases import ATTENTION, CUDNN, CUDNN_STRICT, FLASH, HEADS
from goals import list_goals
from steps import COMPILED, STEPS

# What was agreed upon: the most that time and memory of a step may be of its peer's.
REQUIRED_OF_STEPS = {
    "gpt2-bf16": ({COMPILED: 0.95}, {COMPILED: 0.60}),
    "gpt2-coat": ({COMPILED: None, "gpt2-bf16": 0.85}, {COMPILED: 0.45}),
    "llama-bf16": ({COMPILED: 0.95}, {COMPILED: 0.80}),
    "llama-coat": ({COMPILED: None, "llama-bf16": 0.75}, {COMPILED: 0.50}),
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
