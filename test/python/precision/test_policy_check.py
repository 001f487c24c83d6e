"""`binade policy check` without a model checks all that needs no model."""

import pytest
from support.paths import ROOT
from support.reference import binade

MODEL = ROOT / "examples/char-gpt/mini.onnx"
RULES = "name: mine\nextends: bf16-amp\nrules:\n"
DENY = "- {match: {op: gelu}, class: deny}\n"


def check(tmp_path, text, *more):
    policy = tmp_path / "mine.yaml"
    policy.write_text(text)
    return binade("policy", "check", policy, *more)


def test_a_valid_policy_needs_no_model(tmp_path):
    done = check(tmp_path, "name: mine\nnarrow: bf16\nwide: f32\nrules:\n" + DENY)
    assert done.returncode == 0 and not done.stderr
    assert done.stdout == (
        "mine: no errors; rules: 1\n"
        "with --model MODEL, counts the ops that each rule matches, and fails if a rule matches none\n"
    )
    assert binade("policy", "check", "fp8-delayed").returncode == 0


WRONG = {
    "syntax": ("name: [", "mine.yaml:1:"),
    "key": ("name: p\nnarow: bf16\n", "2:1: error: unknown key 'narow'"),
    "format": ("name: p\nnarrow: bf61\n", "2:9: error: expected f32, bf16 or f16"),
    "base": ("name: p\nextends: fp23\n", "2:10: error: unknown policy 'fp23'"),
    "contradiction": (
        RULES + DENY + DENY.replace("deny", "allow"),
        "5:4: error: matches the same ops as the rule at",
    ),
    "alarm": ("name: p\nextends: fp32\nalarms: lost\n", "no alarm is called 'lost'"),
    "statistics": (
        "name: p\nextends: fp32\nstatistics: ['gradent:norm']\n",
        "no kind of values is called 'gradent'; did you mean 'gradient'?",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", WRONG)
def test_errors_need_no_model(tmp_path, kind):
    text, message = WRONG[kind]
    done = check(tmp_path, text)
    assert done.returncode == 3 and not done.stdout
    assert message in done.stderr and done.stderr.count("error:") == 1


def test_a_rule_that_matches_nothing_needs_a_model(tmp_path):
    text = RULES + "- {match: {name: 'nothing.*'}, class: deny}\n"
    assert check(tmp_path, text).returncode == 0
    done = check(tmp_path, text, "--model", MODEL)
    assert done.returncode == 3 and "rule matches no op" in done.stderr


def test_options_of_a_model_need_one(tmp_path):
    done = check(tmp_path, RULES + DENY, "--dim", "batch=2")
    assert done.returncode == 2
    assert "binade: error: --dim requires --model" in done.stderr
