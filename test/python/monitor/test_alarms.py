"""Rules of alarms on planted series: each fires at its step, and not for a step or a
percent less. Slopes and their t values are numpy's."""

import json
import re

import numpy as np
import pytest
from support.alarm_runs import read_alarms
from support.paths import ROOT
from support.reference import binade


def write_run(folder, steps, statistics=(), **metrics):
    """A run's files. Metrics are numbers, or functions of the step; `statistics` are
    triples of a kind and a layer, an interval, and a function of the step."""
    metrics = {
        "loss": 1.0,
        "loss_scale": 65536.0,
        "lr": 1e-3,
        "skipped": False,
    } | metrics
    with open(folder / "metrics.jsonl", "w") as file:
        for step in range(1, steps + 1):
            line = {k: v(step) if callable(v) else v for k, v in metrics.items()}
            file.write(json.dumps({"step": step, **line}) + "\n")
    with open(folder / "stats.jsonl", "w") as file:
        for step in range(1, steps + 1):
            for place, every, of in statistics:
                if step % every == 0:
                    kind, _, layer = place.partition("/")
                    line = {"step": step, "kind": kind, "layer": layer, **of(step)}
                    file.write(json.dumps(line) + "\n")


def find(folder, *words):
    process = binade(
        "alarms", folder, *(w for word in words for w in ("--alarms", word))
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


def alarms(folder, rule):
    """The alarms of a rule: their steps and texts."""
    return [(s, rest) for s, r, rest in read_alarms(find(folder, rule)) if r == rule]


def scale_of(falls):
    """2^16, halved at each of the steps."""
    return lambda step: 2.0 ** (16 - sum(step >= fall for fall in falls))


# Of each rule: what makes it fire, at which step, and what nearly does.
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


def zeros(share, of=20, lowest=-22):
    """Gradients of which a share, as a function of the step, are mostly 0; all go down to
    2^lowest."""
    exponents = {"-127": 500, "-8": 90, str(lowest): 10}

    def make(index):
        return lambda step: {"zeros": 0.9 if index < round(share(step) * of) else 0.1,
                             "exponents": exponents}  # fmt: skip

    return [(f"scaled_gradient/w{i:03d}", 10, make(i)) for i in range(of)]


def value_of(place, every, statistic, value, **more):
    return [(place, every, lambda step: {statistic: value(step)} | more)]


EARLY = lambda share, begin: lambda step: share if step >= begin else 0.0
CASES["underflow"] = (
    {"steps": 300, "statistics": zeros(EARLY(0.05, 100))}, 120,
    {"steps": 300, "statistics": zeros(EARLY(0.04, 100), of=25)},
)  # fmt: skip
# Nobody lost what leaves a gap above f16's end, as in the rows of an embedding.
CASES["underflow-gap"] = (
    {"steps": 300, "statistics": zeros(EARLY(0.05, 100))}, 120,
    {"steps": 300, "statistics": zeros(EARLY(0.5, 100), lowest=-21)},
)  # fmt: skip
# Of what is 0 throughout nothing is left to say.
CASES["underflow-all"] = (
    {"steps": 300, "statistics": value_of("scaled_gradient/w", 10, "zeros", lambda step: 1.0)},
    30,
    {"steps": 300, "statistics": value_of("scaled_gradient/w", 10, "zeros", lambda step: 0.99)},
)  # fmt: skip
# A thousand steps are the beginning.
CASES["underflow-late"] = (
    {"steps": 1100, "statistics": zeros(EARLY(0.05, 980))}, 1000,
    {"steps": 1100, "statistics": zeros(EARLY(0.05, 990))},
)  # fmt: skip


def spans(bits, top=0):
    """Gradients from 2^top down to 2^-(bits - 1), from step 50 on; 5 binades before. One
    element in 128 lies below the lowest that counts."""

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
# The scale may fall as far as it has risen.
CASES["room-above"] = (
    {"steps": 200, "statistics": spans(23)}, 70,
    {"steps": 200, "statistics": spans(23, top=1)},
)  # fmt: skip
SINCE_40 = lambda value, rest: lambda step: value if step >= 40 else rest
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
    """From step 40 on the newest magnitude of a history in E4M3 is so far below its
    largest."""
    return {"steps": 120, "statistics": [
        *value_of("history/batch 'x' in f8E4M3FN", 10, "excess", SINCE_40(excess, 0.0)),
        *value_of("history/batch 'x' in f8E4M3FN", 10, "room", lambda step: 14.807),
    ]}  # fmt: skip


CASES["scale-outlier"] = (exceed(9.81), 60, exceed(9.8))


def stall(idle, burst):
    """Gradients are 0 from step 100 on for `idle` observations; then the update is
    `burst` times what it was."""
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
def test_a_rule_fires_at_its_step_and_no_earlier(tmp_path, case):
    rule = get_rule(case)
    plant, step, nearly = CASES[case]
    write_run(tmp_path, **plant)
    found = alarms(tmp_path, rule)
    assert [s for s, _ in found] == [step], found
    write_run(tmp_path, **nearly)
    assert alarms(tmp_path, rule) == []


def fit(steps, values):
    """Slope, t value and the end of the line, by numpy."""
    (slope, origin), residual, *_ = np.polyfit(steps, values, 1, full=True)
    x = np.array(steps, float)
    error = np.sqrt(residual[0] / (len(x) - 2) / np.sum((x - x.mean()) ** 2))
    return slope, slope / error, slope * steps[-1] + origin


def test_a_rising_share_and_its_forecast(tmp_path):
    """Noise with a trend: the alarm comes with the first t value above 2 of 20 or more
    observations of the last 1000 steps."""
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
    assert f"at this slope it is 0.5 at step {expected[1]}\n" in text
    assert f"{100 * shares[step]:.3g} % of the gradients" in rest
    falling = {s: shares[3000 - s] for s in range(0, 3001, 10)}
    write_run(tmp_path, 3000, zeros(falling.__getitem__, of=100))
    assert "underflow-rising" not in find(tmp_path, "underflow-rising")


def test_an_alarm_says_where_since_when_and_what_helps(tmp_path):
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


def test_once_until_it_was_sound_for_a_window(tmp_path):
    # There are ten skips in the window until step 149.
    for begin, expected in [(240, [49]), (241, [49, 250])]:
        bad = [*range(40, 60), *range(begin, begin + 20)]
        write_run(tmp_path, 300, skipped=lambda step: step in bad)
        assert [s for s, _ in alarms(tmp_path, "repeated-skips")] == expected
    # Never sound for so long: one alarm.
    write_run(tmp_path, 400, skipped=lambda step: step % 5 == 0)
    assert [s for s, _ in alarms(tmp_path, "repeated-skips")] == [50]


def test_the_search_for_a_first_scale_is_no_collapse(tmp_path):
    """As fp16-amp goes about it on a char-GPT, after 49 good steps; after 50 it is one."""
    for first, expected in [(50, []), (51, [54])]:
        falls = [*range(first + 1, first + 4)]
        write_run(tmp_path, 99, skipped=lambda s: s + 1 in falls,
                  loss_scale=scale_of(falls))  # fmt: skip
        assert [s for s, _ in alarms(tmp_path, "scale-collapse")] == expected


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


OWN = """
- name: spike
  value: "loss"
  window: 10
  level: 2
  when: "n > 3 && value > 3 * usual"
  says: "the loss is {value}"
"""


def test_a_rule_of_ones_own(tmp_path):
    rules = tmp_path / "mine.yaml"
    rules.write_text(OWN)
    write_run(tmp_path, 20, loss=lambda step: 4.0 if step == 12 else 1.0)
    text = find(tmp_path, rules)
    assert read_alarms(text) == [(12, "spike", "the loss is 4")]
    # One with a name that is known takes its place.
    rules.write_text(OWN.replace("spike", "scale-below-one"))
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
def test_bad_rules(tmp_path, old, new, line, message):
    rules = tmp_path / "mine.yaml"
    rules.write_text(OWN.replace(old, new))
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
def test_bad_words(tmp_path, words, message):
    process = binade("alarms", tmp_path, *(w for x in words for w in ("--alarms", x)))
    assert process.returncode == 2 and message in process.stderr


def test_the_documentation_knows_every_rule():
    page = (ROOT / "docs" / "Monitoring.md").read_text()
    table = page.partition("| rule | finds |")[2].partition("\n\n")[0]
    listed = binade("list", "alarms").stdout
    names = re.findall(r"^([a-z-]+) +\S", listed, re.MULTILINE)
    assert re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE) == names


def test_damaged_files(tmp_path):
    process = binade("alarms", tmp_path)
    assert process.returncode == 3 and "expected metrics.jsonl there" in process.stderr
    write_run(tmp_path, 3)
    whole = (tmp_path / "metrics.jsonl").read_text()
    (tmp_path / "metrics.jsonl").write_text(whole + '{"step": 4, "lo')
    assert find(tmp_path) == "no alarm\n"  # A line without an end.
    (tmp_path / "metrics.jsonl").write_text(whole + '{"loss": 4}\n')
    process = binade("alarms", tmp_path)
    assert process.returncode == 3 and "metrics.jsonl:4: error" in process.stderr
