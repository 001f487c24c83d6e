"""Tests budgets, rungs and first candidates of `binade search` without training."""

import pytest
from binade.budget import parse_budget
from binade.candidates import Choice, list_sensitive
from binade.errors import UsageError
from binade.halving import plan_rungs

pytest.importorskip("onnx")


@pytest.mark.parametrize(
    "text, limits",
    [
        ("memory=70%", {"memory": 700}),
        ("memory=2KiB", {"memory": 2048}),
        (" time = 1.5s , memory=24MiB", {"time": 1500, "memory": 24 << 20}),
        ("memory=1e3", {"memory": 1000}),
    ],
)
def test_budgets_are_parsed(text, limits):
    found = {
        name: limit.resolve(name, 1000) for name, limit in parse_budget(text).items()
    }
    assert found == limits


@pytest.mark.parametrize(
    "text, why",
    [
        ("70%", "'70%' is not a limit of memory or time"),
        ("disk=1", "'disk=1' is not a limit"),
        ("memory=5ms", "'5ms' is not a number with a unit of %, B, KiB, MiB, GiB"),
        ("time=1.2.3ms", "'1.2.3ms' is not a number"),
        ("memory=0%", "'0%' leaves nothing"),
        ("time=1s,time=2s", "two limits of time"),
    ],
)
def test_invalid_budgets_are_rejected(text, why):
    with pytest.raises(UsageError, match=r"--budget") as caught:
        parse_budget(text)
    assert why in str(caught.value)


@pytest.mark.parametrize(
    "arguments, rungs",
    [
        ((100, 3, 2, None), [25, 50, 100]),
        ((100, 3, 2, 20), [40, 60, 100]),
        ((10, 3, 2, None), [3, 6, 10]),
        ((100, 1, 2, 7), [100]),
        ((2, 3, 3, None), [1, 2]),
    ],
)
def test_rungs_are_planned(arguments, rungs):
    assert plan_rungs(*arguments) == rungs


def test_the_most_sensitive_layers_are_wide_first():
    def entry(node, introduced, phase="forward", decision="bf16"):
        return {"node": node, "phase": phase, "decision": decision, "overflow": 0,
                "nonfinite": 0, "elements": 8,
                "introduced": introduced}  # fmt: skip

    report = {"errors": [
        entry("a/mul", 1e-3), entry("b/mul", 1e-1), entry("b/add", 1e-4),
        entry("c/mul", 1e-2, "backward"), entry("d/mul", 1.0, decision="f32"),
        entry("w", 9.0, "optimizer"),
    ]}  # fmt: skip
    units = list_sensitive(report)
    assert [unit.label for unit in units] == [
        "b (forward)", "c (backward)", "a (forward)",
    ]  # fmt: skip
    assert Choice("p", wide=0.25).rules(units) == [
        {"match": {"name": "{b/mul,b/add}", "phase": "forward"}, "class": "deny"}
    ]
    assert len(Choice("p", wide=0.5).rules(units)) == 2
    rules = Choice("p", states="dyn8", saved="bf16").rules(units)
    assert [rule.get("state") or rule["saved"] for rule in rules] == ["dyn8", "bf16"]
