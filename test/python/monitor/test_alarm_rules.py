"""Alarm rules on synthetic series: each fires at its step, and does not fire for values
just below its threshold."""

import re

import pytest
from support.planted_series import (
    SINCE_40,
    alarms,
    find,
    scale_of,
    value_of,
    write_run,
    zeros,
)
from support.reference import binade

# Rule: (series that makes it fire, the step, series that nearly makes it fire).
CASES = {
    "scale-collapse": (
        {"steps": 260, "loss_scale": scale_of([60, 110, 159])}, 159,
        {"steps": 260, "loss_scale": scale_of([60, 110, 160])},
    ),
    "scale-below-one": (
        {"steps": 9, "loss_scale": lambda step: 1.0 if step < 7 else 0.5}, 7,
        {"steps": 9, "loss_scale": 1.0},
    ),
    "repeated-skips": (
        {"steps": 150, "skipped": lambda step: step > 10 and step % 11 == 0}, 110,
        {"steps": 200, "skipped": lambda step: step % 12 == 0},
    ),
}  # fmt: skip
EARLY = lambda share, begin: lambda step: share if step >= begin else 0.0
CASES["underflow"] = (
    {"steps": 300, "statistics": zeros(EARLY(0.05, 100))}, 120,
    {"steps": 300, "statistics": zeros(EARLY(0.04, 100), of=25)},
)  # fmt: skip
# Zeros are not underflow if no element is near f16's smallest value, as with the rows of
# an embedding that no token selects.
CASES["underflow-gap"] = (
    {"steps": 300, "statistics": zeros(EARLY(0.05, 100))}, 120,
    {"steps": 300, "statistics": zeros(EARLY(0.5, 100), lowest=-21)},
)  # fmt: skip
# Without nonzero elements, the rule needs no exponents.
CASES["underflow-all"] = (
    {"steps": 300, "statistics": value_of("scaled_gradient/w", 10, "zeros", lambda step: 1.0)},
    30,
    {"steps": 300, "statistics": value_of("scaled_gradient/w", 10, "zeros", lambda step: 0.99)},
)  # fmt: skip
# The rule applies to the first 1000 steps.
CASES["underflow-late"] = (
    {"steps": 1100, "statistics": zeros(EARLY(0.05, 980))}, 1000,
    {"steps": 1100, "statistics": zeros(EARLY(0.05, 990))},
)  # fmt: skip


def spans(bits, top=0):
    """Gradients from 2^top down to 2^-(bits - 1) from step 50 on, and 5 binades before.
    One nonzero element in 128 is smaller, which is within the 1 % that rules ignore."""

    def of(step):
        low = 1 - bits if step >= 50 else -4
        return {"exponents": {"-127": 500, "-30": 1, str(top): 64, str(low): 63}}

    return [("scaled_gradient/w", 10, of)]  # fmt: skip


CASES["range"] = (
    {"steps": 200, "statistics": spans(37)}, 70, {"steps": 200, "statistics": spans(36)},
)  # fmt: skip
CASES["room"] = (
    {"steps": 200, "statistics": spans(23)}, 70, {"steps": 200, "statistics": spans(22)},
)  # fmt: skip
# The rule needs room for 15 doublings of the scale above the gradients.
CASES["room-above"] = (
    {"steps": 200, "statistics": spans(23)}, 70,
    {"steps": 200, "statistics": spans(23, top=1)},
)  # fmt: skip
for rule, place, statistic, enough, less in [
    ("saturation", "input/mlp", "saturated", 0.001, 0.00099),
    ("lost-updates", "weight/norm.weight", "lost", 0.9, 0.89),
    ("zero-gradient", "gradient/head", "zeros", 1.0, 0.999),
]:
    plant, nearly = (
        {"steps": 120, "statistics": value_of(place, 10, statistic, SINCE_40(v, 0.0))}
        for v in (enough, less)
    )
    CASES[rule] = (plant, 60, nearly)


def exceed(excess):
    """From step 40 on, the newest magnitude of a history in E4M3 is the largest one
    divided by 2^excess."""
    return {"steps": 120, "statistics": [
        *value_of("history/batch 'x' in f8E4M3FN", 10, "excess", SINCE_40(excess, 0.0)),
        *value_of("history/batch 'x' in f8E4M3FN", 10, "room", lambda step: 14.807),
    ]}  # fmt: skip


CASES["scale-outlier"] = (exceed(9.81), 60, exceed(9.8))


def stall(idle, burst):
    """Gradients are 0 from step 100 on for `idle` observations. The next updates are
    `burst` times as large as before."""
    end = 100 + 10 * idle
    stalled = lambda step: 100 <= step < end
    return [
        *value_of("gradient/w", 10, "zeros", lambda s: 1.0 if stalled(s) else 0.0),
        *value_of("weight/w", 10, "update_ratio",
                  lambda s: 1e-3 * (burst if s >= end else 1.0)),
    ]  # fmt: skip


CASES["burst"] = (
    {"steps": 300, "statistics": stall(3, 2.01)}, 130,
    {"steps": 300, "statistics": stall(3, 2.0)},
)  # fmt: skip
CASES["burst-short"] = (
    {"steps": 300, "statistics": stall(4, 2.01)}, 140,
    {"steps": 300, "statistics": stall(2, 3.0)},
)  # fmt: skip


def embedding(largest):
    return [("weight/tok_emb.weight", 100, lambda step: {
        "absmax": largest if step >= 300 else 1.0, "absmean": 0.75, "std": 1.0})]  # fmt: skip


CASES["embedding-outliers"] = (
    {"steps": 400, "statistics": embedding(20.75)}, 300,
    {"steps": 400, "statistics": embedding(20.7)},
)  # fmt: skip
CASES["expansion-bound"] = (
    {"steps": 200, "statistics": value_of("state/exp_avg/w.power", 100, "mean",
                                          lambda step: 0.12)}, 100,
    {"steps": 200, "statistics": value_of("state/exp_avg/w.power", 100, "mean",
                                          lambda step: 0.125)},
)  # fmt: skip


def get_rule(case):
    return re.sub("-(late|short|above|gap|all)$", "", case)


@pytest.mark.parametrize("case", CASES)
def test_a_rule_fires_at_its_step_and_not_just_below_its_threshold(tmp_path, case):
    rule = get_rule(case)
    plant, step, nearly = CASES[case]
    write_run(tmp_path, **plant)
    found = alarms(tmp_path, rule)
    assert [s for s, _ in found] == [step], found
    write_run(tmp_path, **nearly)
    assert alarms(tmp_path, rule) == []


@pytest.mark.parametrize("name", [c for c in CASES if c == get_rule(c)])
def test_every_remedy_is_a_policy(tmp_path, name):
    write_run(tmp_path, **CASES[name][0])
    lines = find(tmp_path, name).split(f"alarm {name}:")[1]
    named = re.search(r"as a policy: --policy (\S+)", lines.split("\nstep ")[0])
    if named:
        policy = named[1]
    else:
        policy = tmp_path / "helps.yaml"
        policy.write_text(lines.partition("as a policy:\n")[2].split("\nstep ")[0])
    process = binade("policy", "show", policy)
    assert process.returncode == 0, (process.stderr, lines)
