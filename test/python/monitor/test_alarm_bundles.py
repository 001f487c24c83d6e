"""Alarms of compiled steps, run by `binade-run`, by `binade train` and from Python."""

import logging

import numpy as np
import pytest
from support.alarm_runs import (
    COLLAPSE,
    HARD,
    STEPS,
    read_lines,
    train,
    write_inputs,
    write_policy,
)
from support.hostile import change_plan
from support.paths import BUILD
from support.processes import PROGRAM, binade_run
from support.reference import binade, safetensors

onnx = pytest.importorskip("onnx")
pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alarms")
    write_inputs(folder)
    return folder


def compile_bundle(folder, bundle, *more, policy="fp16-amp", code=0):
    process = binade(
        "compile", folder / "model.onnx", "--optimizer", "adamw", "--lr", 0.01,
        "--policy", policy, "-o", bundle, *more,
    )  # fmt: skip
    assert process.returncode == code, process.stderr
    return process


def run_bundle(folder, bundle, out, *more, code=0, program=binade_run):
    process = program(
        bundle, "--data", folder / "data.safetensors", "--order", "sequential",
        "--steps", STEPS, "--out", out, *more,
    )  # fmt: skip
    assert process.returncode == code, process.stderr
    return process


def train_bundle(*words):
    return binade("train", *words)


@pytest.fixture(scope="module")
def bundle(folder):
    """A bundle with all built-in rules and one rule from a file."""
    rules = folder / "rules.yaml"
    rules.write_text(
        '- {name: each, watch: "weight:norm", value: norm, when: "value > 0", '
        'says: "{value}"}\n'
    )
    bundle = folder / "all.bnd"
    compile_bundle(folder, bundle, "--alarms", "all", "--alarms", rules)
    return bundle


@pytest.mark.parametrize("program", [binade_run, train_bundle])
def test_a_bundle_has_the_alarms_of_the_model(program, folder, bundle, tmp_path):
    process = run_bundle(folder, bundle, tmp_path / "run", program=program)
    model = tmp_path / "model"
    train(folder, model, "--alarms", "all", "--alarms", folder / "rules.yaml")
    for name in ("alarms.jsonl", "stats.jsonl"):
        assert (tmp_path / "run" / name).read_text() == (model / name).read_text()
    assert f"step {COLLAPSE}: alarm scale-collapse: " in process.stderr


def test_alarms_of_a_bundle_are_selected_by_option(folder, bundle, tmp_path):
    metrics = {"scale-collapse"}
    for words, rules in [
        (["off"], set()),
        (["zero-gradient"], metrics),
        (["each"], metrics | {"each"}),
        (["all"], metrics | {"each"}),
    ]:
        run = tmp_path / "-".join(words)
        run_bundle(
            folder, bundle, run, *(w for word in words for w in ("--alarms", word))
        )
        path = run / "alarms.jsonl"
        assert {x["rule"] for x in read_lines(path)} == rules if rules else (
            not path.exists()
        )  # fmt: skip


def test_an_alarm_stops_a_bundle(folder, bundle, tmp_path):
    process = run_bundle(
        folder, bundle, tmp_path / "run", "--alarms", "zero-gradient", "--on-alarm",
        "stop", code=4,
    )  # fmt: skip
    assert f"stopped after step {COLLAPSE}" in process.stdout
    assert (tmp_path / "run/checkpoints" / f"step-{COLLAPSE:06d}").is_dir()


@pytest.mark.parametrize(
    "words, message",
    [
        (["--alarms", "rnage"], "no alarm 'rnage'; did you mean 'range'?"),
        (["--alarms", "mine.yaml"], "reads files of rules"),
        (["--alarms", "off", "--alarms", "range"], "'off' stands alone"),
        (["--on-alarm", "halt"], "expected warn or stop, got 'halt'"),
        (["--on-alarm", "switch:bf16-amp"], "a compiled step has one policy"),
        (["--alarms", "off", "--on-alarm", "stop"], "needs alarms"),
    ],
)
def test_invalid_alarm_options(folder, bundle, tmp_path, words, message):
    process = run_bundle(folder, bundle, tmp_path / "run", *words, code=2)
    assert message in process.stderr and not (tmp_path / "run").exists()


def test_a_bundle_of_a_policy_that_switches(folder, tmp_path):
    """A bundle stops instead. Its checkpoint can be converted to resume under the other
    policy."""
    policy = write_policy(tmp_path / "mine.yaml", "on_alarm: switch:bf16-amp\n")
    bundle, other, run = (tmp_path / name for name in ("a.bnd", "b.bnd", "run"))
    compiled = compile_bundle(folder, bundle, policy=policy)
    assert "warning: a bundle has one policy" in compiled.stderr
    process = run_bundle(folder, bundle, run, code=4)
    assert "the policy asks to resume under bf16-amp" in process.stdout
    (line,) = read_lines(run / "alarms.jsonl")
    assert line["action"] == "stop"
    compile_bundle(folder, other, policy="bf16-amp")
    process = binade("ckpt", "convert", run, "--to", other, "-o", tmp_path / "on")
    assert process.returncode == 0, process.stderr
    message = compile_bundle(folder, tmp_path / "c.bnd", "--on-alarm", "switch:bf16-amp",
                             code=2).stderr  # fmt: skip
    assert "a bundle has one policy" in message


@pytest.mark.parametrize(
    "change, message",
    [
        ({"when": "value >"}, "alarm 'scale-collapse'"),
        ({"watch": ["gradient"]}, "not a request for statistics"),
        ({"watch": ["gradient:zeros@every=x"]}, "not a request for statistics"),
        ({"window": 0}, "a positive number of steps"),
        ({"scope": "none"}, "scope 'none' is not known"),
    ],
)
def test_invalid_rules_in_a_bundle_are_rejected(
    folder, bundle, tmp_path, change, message
):
    def break_rule(plan):
        plan["alarms"]["rules"][0].update(change)

    changed = tmp_path / "changed.bnd"
    change_plan(bundle, changed, break_rule)
    process = run_bundle(folder, changed, tmp_path / "run", code=3)
    assert message in process.stderr, process.stderr


# --- Python ---------------------------------------------------------------------------


needs_extension = pytest.mark.skipif(
    not list((BUILD / "python/binade").glob("_core*.so")), reason="no extension"
)


def read_batches(folder):
    x = safetensors.load(folder / "data.safetensors")["x"]
    return [{"x": np.ascontiguousarray(x[i : i + 2])} for i in range(0, 2 * STEPS, 2)]


def compile_step(folder, **options):
    import binade as package

    return package.compile(
        folder / "model.onnx", optimizer="adamw", settings={"lr": 0.01},
        **({"policy": "fp16-amp"} | options),
    )  # fmt: skip


@needs_extension
@pytest.mark.parametrize("how", ["compile", "load"])
def test_steps_in_python_raise_the_alarms_of_a_run(
    how,
    folder,
    bundle,
    tmp_path,
    caplog,
):
    import binade as package

    words = ["all", str(folder / "rules.yaml")]
    step = (
        compile_step(folder, alarms=words)
        if how == "compile"
        else package.load(bundle, alarms="all")
    )
    with caplog.at_level(logging.WARNING, "binade"):
        step.train(read_batches(folder), progress=False)
    train(folder, tmp_path / "run", "--alarms", "all", "--alarms", words[1])
    lines = read_lines(tmp_path / "run" / "alarms.jsonl")
    found = [(a.step, a.rule, a.where, a.since, a.message) for a in step.alarms]
    assert found == [
        tuple(x[k] for k in ("step", "rule", "where", "since", "message"))
        for x in lines
    ]
    assert isinstance(step.alarms[0], package.Alarm)
    assert [x.value for x in step.alarms] == pytest.approx([x["value"] for x in lines])
    assert sum(": alarm " in record.message for record in caplog.records) == len(lines)
    assert f"step {COLLAPSE}: alarm scale-collapse: " in caplog.text


@needs_extension
def test_alarms_stop_a_step_in_python(folder):
    from binade.errors import AlarmError, NumericError

    step, batches = compile_step(folder, on_alarm="stop"), read_batches(folder)
    step.train(batches[: COLLAPSE - 1], progress=False)
    with pytest.raises(AlarmError, match="scale-collapse") as raised:
        step(batches[COLLAPSE - 1])
    assert isinstance(raised.value, NumericError) and raised.value.exit_code == 4
    assert [alarm.rule for alarm in raised.value.alarms] == ["scale-collapse"]
    assert step.alarms == raised.value.alarms
    # The step is complete, and the caller may continue. Steps that overflow are skipped.
    assert step.updates == COLLAPSE - (COLLAPSE - HARD[0] + 1)
    step(batches[COLLAPSE])


@needs_extension
def test_alarms_are_selected_from_python(folder, tmp_path):
    import binade as package
    from binade.errors import UsageError

    policy = write_policy(tmp_path / "mine.yaml", "alarms: range\non_alarm: stop\n")
    bundle = tmp_path / "step.bnd"
    step = compile_step(folder, policy=policy)
    step.write(bundle)
    for same in (step, package.load(bundle)):
        assert same._watch.rules == [
            "scale-collapse", "scale-below-one", "repeated-skips", "range",
            "lost-updates", "scale-outlier",
        ]  # fmt: skip
    assert compile_step(folder, policy=policy, alarms="off")._watch.rules == []
    silent = package.Policy.read(
        write_policy(tmp_path / "silent.yaml", "alarms: off\n")
    )
    assert silent["alarms"] == "off"
    assert compile_step(folder, policy=silent)._watch.rules == []
    assert package.load(bundle, alarms="off", on_alarm="warn")._watch.rules == []
    for options, message in [
        ({"alarms": "rnage"}, "did you mean 'range'"),
        ({"on_alarm": "halt"}, "expected 'warn' or 'stop', got 'halt'"),
        ({"on_alarm": "switch:bf16-amp"}, "a compiled step has one policy"),
    ]:
        with pytest.raises(UsageError, match=message):
            compile_step(folder, **options)
        with pytest.raises(UsageError, match=message):
            package.load(bundle, **options)
    with pytest.raises(UsageError, match="needs alarms"):
        package.load(bundle, alarms="off", on_alarm="stop")
