"""Runs whose metrics and statistics are written by hand, so that an alarm is due at a known
step."""

import json

from support.alarm_runs import read_alarms
from support.reference import binade


def write_run(folder, steps, statistics=(), **metrics):
    """Writes a run's files. Metrics are numbers or functions of the step; `statistics`
    are triples of "kind/layer", an interval, and a function of the step."""
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


SINCE_40 = lambda value, rest: lambda step: value if step >= 40 else rest
