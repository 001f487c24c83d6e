"""Alarms of a policy: its keys, options that override them, and errors."""

import json

import pytest
from support.alarm_runs import (
    COLLAPSE,
    lose_time,
    read_lines,
    train,
    write_inputs,
    write_policy,
)
from support.reference import binade, safetensors

pytest.importorskip("onnx")

# A rule that fires in the first step, so that runs show whether it was selected.
RULE = '{name: %s, value: loss, when: "value == value", says: "the loss is {value}"}\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alarms")
    write_inputs(folder)
    return folder


def rules_of(run):
    path = run / "alarms.jsonl"
    return {line["rule"] for line in read_lines(path)} if path.exists() else set()


def test_a_policy_chooses_rules_and_action(folder, tmp_path):
    policy = write_policy(
        tmp_path / "mine.yaml", "alarms: [zero-gradient]\non_alarm: stop\n"
    )
    run = tmp_path / "run"
    process = train(folder, run, policy=policy, code=4)
    assert f"stopped after step {COLLAPSE}" in process.stdout
    (line,) = read_lines(run / "alarms.jsonl")
    assert (line["rule"], line["action"]) == ("scale-collapse", "stop")
    assert {tuple(x) for x in read_lines(run / "stats.jsonl")} == {
        ("step", "kind", "layer", "zeros")
    }


def test_the_command_line_overrides_the_policy(folder, tmp_path):
    policy = write_policy(tmp_path / "mine.yaml", "alarms: all\non_alarm: stop\n")
    warned, silent, other = (tmp_path / name for name in ("warned", "silent", "other"))
    train(folder, warned, "--on-alarm", "warn", policy=policy)
    assert "scale-collapse" in rules_of(warned)
    train(folder, silent, "--alarms", "off", policy=policy)
    assert not rules_of(silent) and not (silent / "stats.jsonl").exists()
    # The rules are those of the command line, the action is that of the policy.
    train(folder, other, "--alarms", "zero-gradient", policy=policy, code=4)
    assert {tuple(x) for x in read_lines(other / "stats.jsonl")} == {
        ("step", "kind", "layer", "zeros")
    }


def test_a_derived_policy_adds_its_alarms(folder, tmp_path):
    for name in ("first", "second"):
        (tmp_path / f"{name}-rules.yaml").write_text("- " + RULE % name)
    base = write_policy(tmp_path / "base.yaml", "alarms: first-rules.yaml\n")
    more = write_policy(
        tmp_path / "more.yaml", "alarms: [second-rules.yaml]\n", base.name
    )
    none = write_policy(tmp_path / "none.yaml", "alarms: off\n", base.name)
    for policy, rules in ((more, {"first", "second"}), (none, set())):
        run = tmp_path / f"run-{policy.stem}"
        train(folder, run, policy=policy, steps=3)
        assert rules_of(run) == rules


def test_a_policy_switches_to_another(folder, tmp_path):
    """The key works like --on-alarm, with a path relative to the policy, and also in a
    resumed run."""
    rule = "{match: {op: optimizer_update}, state: bf16}"
    write_policy(tmp_path / "other.yaml", f"rules: [{rule}]\n", "bf16-amp")
    policy = write_policy(tmp_path / "mine.yaml", "on_alarm: switch:other.yaml\n")
    runs = [tmp_path / name for name in ("by-policy", "by-option", "resumed")]
    train(folder, runs[0], policy=policy)
    train(folder, runs[1], "--on-alarm", f"switch:{tmp_path / 'other.yaml'}", policy=policy)  # fmt: skip
    train(folder, runs[2], "--stop-after", COLLAPSE + 2, policy=policy)
    train(folder, runs[2], policy=policy, resume=True)
    for run in runs:
        assert json.loads((run / "run.json").read_text())["policy"] == "other"
        assert lose_time(run) == lose_time(runs[0])
    states = [
        safetensors.load(r / "final.safetensors")["weight"].tobytes() for r in runs
    ]
    assert len(set(states)) == 1


def test_a_module_contains_its_alarms(folder, tmp_path):
    """Later phases do not read the file of rules that the policy names."""
    rules = tmp_path / "rules.yaml"
    rules.write_text("- " + RULE % "each")
    policy = write_policy(
        tmp_path / "mine.yaml", "alarms: [rules.yaml, zero-gradient]\non_alarm: stop\n"
    )
    names = []
    for phase in ("assign", "monitor"):
        module, plan = tmp_path / f"{phase}.mlir", tmp_path / f"{phase}.json"
        rules.write_text("- " + RULE % "each")
        commands = [
            [folder / "model.onnx", "--policy", policy, f"--to={phase}", "-o", module],
            [module, f"--from={phase}", "--to=plan", "-o", plan],
        ]
        for words in commands:
            process = binade("compile", *words)
            assert process.returncode == 0, process.stderr
            rules.unlink(missing_ok=True)
        alarms = json.loads(plan.read_text())["alarms"]
        assert alarms["action"] == "stop"
        names.append([rule["name"] for rule in alarms["rules"]])
    assert names[0] == names[1]
    assert set(names[0]) == {
        "scale-collapse", "scale-below-one", "repeated-skips", "lost-updates",
        "scale-outlier", "zero-gradient", "each",
    }  # fmt: skip


@pytest.mark.parametrize(
    "text, place, message",
    [
        ("alarms: [range, rnage]\n", "3:17", "no alarm is called 'rnage'; did you mean 'range'?"),
        ("alarms: rnage\n", "3:9", "no alarm is called 'rnage'"),
        ("alarms: [all, off]\n", "3:15", "'off' stands alone"),
        ("alarms: {a: b}\n", "3:10", "expected a word"),
        ("alarms: none.yaml\n", "3:9", "cannot read alarms file"),
        ("alarms: ../rules.yaml\n", "3:9", "cannot read alarms file"),
        ("on_alarm: halt\n", "3:11", "expected warn, stop or switch:POLICY, got 'halt'"),
        ("on_alarm: 'switch:'\n", "3:11", "expected warn, stop or switch:POLICY"),
        ("on_alarm: switch:bf61-amp\n", "3:11", "did you mean 'bf16-amp'?"),
        ("on_alarm: switch:none.yaml\n", "3:11", "cannot read policy file"),
        ("alarm: all\n", "3:1", "did you mean 'alarms'?"),
    ],
)  # fmt: skip
def test_errors_name_line_and_column(folder, tmp_path, text, place, message):
    policy = write_policy(tmp_path / "mine.yaml", text)
    for words in (
        ["policy", "show", policy],
        ["policy", "check", policy, "--model", folder / "model.onnx"],
        ["compile", folder / "model.onnx", "--policy", policy, "-o", tmp_path / "x.bnd"],
    ):  # fmt: skip
        process = binade(*words)
        assert process.returncode == 3, process.stdout
        assert f"mine.yaml:{place}: error: " in process.stderr, process.stderr
        assert message in process.stderr, process.stderr


def test_errors_of_a_rule_file_name_the_file(folder, tmp_path):
    (tmp_path / "rules.yaml").write_text(
        "- " + RULE.replace("value ==", "vale ==") % "x"
    )
    policy = write_policy(tmp_path / "mine.yaml", "alarms: rules.yaml\n")
    process = binade("policy", "show", policy)
    assert process.returncode == 3
    assert "rules.yaml:1:4: error: alarm 'x': " in process.stderr, process.stderr


def test_policy_show_lists_alarms(tmp_path):
    policy = write_policy(
        tmp_path / "mine.yaml", "alarms: range\non_alarm: switch:bf16-amp\n"
    )
    process = binade("policy", "show", policy)
    assert process.returncode == 0, process.stderr
    assert (
        "alarms      scale-collapse, scale-below-one, repeated-skips, range, "
        "lost-updates, scale-outlier -> switch:bf16-amp\n" in process.stdout
    )
    assert "alarms      none" in binade(
        "policy", "show", write_policy(tmp_path / "off.yaml", "alarms: off\n")
    ).stdout  # fmt: skip


def test_the_schema_has_the_keys_of_alarms():
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(binade("policy", "schema").stdout)
    check = jsonschema.Draft202012Validator(schema).is_valid
    assert check({"name": "x", "alarms": ["all"], "on_alarm": "switch:bf16-amp"})
    assert check({"name": "x", "alarms": "off", "on_alarm": "stop"})
    assert not check({"name": "x", "on_alarm": "halt"})
    assert not check({"name": "x", "alarms": {}})
