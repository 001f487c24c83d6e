"""Messages, forecasts and repetition of alarms, and user-defined rules. numpy computes the
expected slopes and t values."""

import re

import numpy as np
import pytest
from support.alarm_runs import read_alarms
from support.paths import ROOT
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


def fit(steps, values):
    """Fits a line with numpy. Returns its slope, the slope's t value and the last value."""
    (slope, origin), residual, *_ = np.polyfit(steps, values, 1, full=True)
    x = np.array(steps, float)
    error = np.sqrt(residual[0] / (len(x) - 2) / np.sum((x - x.mean()) ** 2))
    return slope, slope / error, slope * steps[-1] + origin


def test_a_rising_share_and_its_forecast(tmp_path):
    """A trend with noise. The alarm is raised at the first t value above 2 of at least 20
    observations in the last 1000 steps."""
    rng = np.random.default_rng(3)
    shares = {10 * i: int(x) / 100 for i, x in
              enumerate(2.5 + 0.02 * np.arange(301) + rng.uniform(-2, 2, 301))}  # fmt: skip
    write_run(tmp_path, 3000, zeros(shares.__getitem__, of=100))
    expected = None
    for step in range(10, 3001, 10):
        steps = [s for s in range(10, step + 1, 10) if s > step - 1000]
        if len(steps) < 20 or shares[step] <= 0.01:
            continue
        slope, t, end = fit(steps, [shares[s] for s in steps])
        if slope > 0 and t > 2:
            expected = step, step + int(np.ceil((0.5 - end) / slope))
            break
    assert expected and expected[0] > 200
    text = find(tmp_path, "underflow-rising")
    step, rest = next(
        (s, x) for s, r, x in read_alarms(text) if r == "underflow-rising"
    )
    assert step == expected[0]
    assert f"at this slope it reaches 0.5 at step {expected[1]}\n" in text
    assert f"{100 * shares[step]:.3g} % of the gradients" in rest
    falling = {s: shares[3000 - s] for s in range(0, 3001, 10)}
    write_run(tmp_path, 3000, zeros(falling.__getitem__, of=100))
    assert "underflow-rising" not in find(tmp_path, "underflow-rising")


def test_an_alarm_names_the_layer_the_first_step_and_a_remedy(tmp_path):
    write_run(tmp_path, 100, value_of("input/mlp", 10, "saturated", SINCE_40(0.5, 0.0)))
    text = find(tmp_path, "saturation")
    assert text.startswith("step 60: alarm saturation: 50 % of the elements are at the "
                           "end of their format (input/mlp), since step 40\n")  # fmt: skip
    assert "what may help: compute the layer in f32\n" in text
    policy = tmp_path / "helps.yaml"
    policy.write_text(text.partition("as a policy:\n")[2])
    assert "'*mlp*'" in policy.read_text()
    process = binade("policy", "show", policy)
    assert process.returncode == 0, process.stderr


def test_an_alarm_repeats_only_after_a_window_without_its_condition(tmp_path):
    # The window contains ten skips until step 149.
    for begin, expected in [(240, [49]), (241, [49, 250])]:
        bad = [*range(40, 60), *range(begin, begin + 20)]
        write_run(tmp_path, 300, skipped=lambda step: step in bad)
        assert [s for s, _ in alarms(tmp_path, "repeated-skips")] == expected
    # The condition never ends for a whole window: one alarm.
    write_run(tmp_path, 400, skipped=lambda step: step % 5 == 0)
    assert [s for s, _ in alarms(tmp_path, "repeated-skips")] == [50]


def test_the_search_for_an_initial_scale_raises_no_alarm(tmp_path):
    """Three falls of the scale after 49 good steps are part of the search, as in fp16-amp
    on a char-GPT. After 50 good steps, they are a collapse."""
    for first, expected in [(50, []), (51, [54])]:
        falls = [*range(first + 1, first + 4)]
        write_run(tmp_path, 99, skipped=lambda s: s + 1 in falls,
                  loss_scale=scale_of(falls))  # fmt: skip
        assert [s for s, _ in alarms(tmp_path, "scale-collapse")] == expected


USER_RULE = """
- name: spike
  value: "loss"
  window: 10
  level: 2
  when: "n > 3 && value > 3 * usual"
  says: "the loss is {value}"
"""


def test_a_user_defined_rule(tmp_path):
    rules = tmp_path / "mine.yaml"
    rules.write_text(USER_RULE)
    write_run(tmp_path, 20, loss=lambda step: 4.0 if step == 12 else 1.0)
    text = find(tmp_path, rules)
    assert read_alarms(text) == [(12, "spike", "the loss is 4")]
    # A rule with the name of a built-in rule replaces it.
    rules.write_text(USER_RULE.replace("spike", "scale-below-one"))
    assert read_alarms(find(tmp_path, rules)) == [
        (12, "scale-below-one", "the loss is 4")
    ]


@pytest.mark.parametrize(
    "old, new, line, message",
    [
        ("name: spike", "nmae: spike", 2, "'nmae'"),
        ("says: ", "remedy: ", 2, "a rule of alarms has no 'says'"),
        ("3 * usual", "3 * usul", 2, 'Unexpected token "usul'),
        ("value > 3", "value > > 3", 2, "'spike'"),
        ("window: 10", "window: 0", 4, "expected"),
        ("value: \"loss\"", "value: \"zeros\"", 2, 'Unexpected token "zeros'),
        ("window: 10", "watch: 'weigth:zeros'", 2, "did you mean 'weight'"),
        ("window: 10", "scope: some", 4, "each, share, all or layer"),
    ],
)  # fmt: skip
def test_invalid_rules(tmp_path, old, new, line, message):
    rules = tmp_path / "mine.yaml"
    rules.write_text(USER_RULE.replace(old, new))
    write_run(tmp_path, 3)
    process = binade("alarms", tmp_path, "--alarms", rules)
    assert process.returncode == 3
    assert f"{rules}:{line}:" in process.stderr and message in process.stderr


@pytest.mark.parametrize(
    "words, message",
    [
        (["scale-colapse"], "did you mean 'scale-collapse'?"),
        (["off", "all"], "'off' stands alone"),
    ],
)
def test_invalid_options(tmp_path, words, message):
    process = binade("alarms", tmp_path, *(w for x in words for w in ("--alarms", x)))
    assert process.returncode == 2 and message in process.stderr


def test_the_documentation_lists_every_rule():
    page = (ROOT / "docs" / "Monitoring.md").read_text()
    table = page.partition("| rule | finds |")[2].partition("\n\n")[0]
    listed = binade("list", "alarms").stdout
    names = re.findall(r"^([a-z-]+) +\S", listed, re.MULTILINE)
    assert re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE) == names


def test_damaged_files(tmp_path):
    process = binade("alarms", tmp_path)
    assert process.returncode == 3
    assert "expected a file metrics.jsonl of 'binade train'" in process.stderr
    write_run(tmp_path, 3)
    whole = (tmp_path / "metrics.jsonl").read_text()
    (tmp_path / "metrics.jsonl").write_text(whole + '{"step": 4, "lo')
    assert find(tmp_path) == "no alarm\n"  # An incomplete last line is ignored.
    (tmp_path / "metrics.jsonl").write_text(whole + '{"loss": 4}\n')
    process = binade("alarms", tmp_path)
    assert process.returncode == 3 and "metrics.jsonl:4: error" in process.stderr
