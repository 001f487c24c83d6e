"""Assignment keeps values wide whose recorded range (`--ranges`) a narrow format lacks."""

import json

import numpy as np
import pytest
from support.evidence_runs import WEIGHT, record, steps_of
from support.reference import (
    F16,
    ONE_WEIGHT,
    binade,
    write_model,
)

pytest.importorskip("onnx")

F32 = np.float32


@pytest.fixture
def x():
    x = np.random.default_rng(1).standard_normal((10, 4)).astype(F32)
    x[3] = 0
    return (x * np.logspace(-10, 0, 10)[:, None]).astype(F32)


def explain(folder, policy, *more):
    done = binade("explain", folder / "model.onnx", "--policy", policy, "--format",
                  "json", "--optimizer", "sgd", *more)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return {
        f"{op['phase']} {op['op']} {op['name']}": op
        for op in json.loads(done.stdout)["ops"]
    }


def write_policy(folder, text):
    policy = folder / "policy.yaml"
    policy.write_text("{extends: fp16-amp, name: p, " + text + "}")
    return policy


def test_without_evidence_nothing_changes(x, tmp_path):
    record(tmp_path, x)
    flags = ["compile", tmp_path / "model.onnx", "--to=assign", "--policy", "fp16-amp"]
    plain = binade(*flags, "-o", "-")
    # With limits that no value exceeds, the evidence changes no decision.
    policy = write_policy(tmp_path, "evidence: {underflow: 1, overflow: 1}")
    ranges = binade(
        *flags[:-1], policy, "--ranges", tmp_path / "ranges.json", "-o", "-"
    )
    assert plain.returncode == ranges.returncode == 0, plain.stderr + ranges.stderr
    assert plain.stdout.count("#binade.precision") > 0
    decisions = [
        [line for line in text.stdout.splitlines() if "binade.policy" not in line]
        for text in (plain, ranges)
    ]
    assert decisions[0] == decisions[1]


def test_a_value_that_underflows_is_kept_wide(x, tmp_path):
    record(tmp_path, x)
    name = "forward matmul hidden"
    assert explain(tmp_path, "fp16-amp")[name]["format"] == "f16"
    ranges = "--ranges", tmp_path / "ranges.json"
    op = explain(tmp_path, "fp16-amp", *ranges)[name]
    assert (op["format"], op["result"]) == ("f32", "f32")
    # The reason names the first value that does not fit: here the result. The share of
    # elements that underflow is counted by numpy.
    result = steps_of(x)[name]
    flushed = np.sum((result != 0) & (result.astype(F16) == 0)) / np.sum(result != 0)
    assert 0.01 < flushed < 0.5
    seen = op["evidence"][0]
    assert seen["underflow"] == flushed and seen["overflow"] == 0
    assert op["rule"].startswith(f"ranges.json: {100 * flushed:.3g}% of matmul")
    assert "underflows in f16, more than 1%" in op["rule"]
    # A limit above that share allows f16.
    policy = write_policy(tmp_path, f"evidence: {{underflow: {flushed + 0.3}}}")
    assert explain(tmp_path, policy, *ranges)[name]["format"] == "f16"
    # The range of bf16 suffices.
    assert explain(tmp_path, "bf16-amp", *ranges)[name]["format"] == "bf16"


def test_a_value_that_overflows_is_kept_wide(x, tmp_path):
    x[9] = [60000, 60000, -60000, 1]
    record(tmp_path, x)
    ops = explain(tmp_path, "fp16-amp", "--ranges", tmp_path / "ranges.json")
    assert "overflows in f16, more than 0%" in ops["forward matmul hidden"]["rule"]
    result = steps_of(x)["forward matmul hidden"]
    with np.errstate(over="ignore"):
        share = np.mean(~np.isfinite(result.astype(F16)))
    seen = ops["forward matmul hidden"]["evidence"][0]
    assert 0 < seen["overflow"] <= share
    assert ops["forward matmul hidden"]["format"] == "f32"


def test_a_users_rule_overrides_the_evidence(x, tmp_path):
    record(tmp_path, x)
    rule = "rules: [{match: {op: matmul, phase: forward}, class: allow}]"
    ops = explain(tmp_path, write_policy(tmp_path, rule), "--ranges",
                  tmp_path / "ranges.json")  # fmt: skip
    assert ops["forward matmul hidden"]["format"] == "f16"


def test_the_printed_flip_overrides_the_evidence(x, tmp_path):
    record(tmp_path, x)
    ranges = "--ranges", tmp_path / "ranges.json"
    before = explain(tmp_path, "fp16-amp", *ranges)
    op = before["forward matmul hidden"]
    policy = write_policy(tmp_path, f"rules: [{op['flip']['rule']}]")
    after = explain(tmp_path, policy, *ranges)
    changed = [before[n]["id"] for n in before
               if (before[n]["format"], before[n]["result"])
               != (after[n]["format"], after[n]["result"])]  # fmt: skip
    assert changed == op["flip"]["ops"] and op["id"] in changed


CUT = """
name: cut
narrow: f16
wide: f32
cut: {{ costs: costs.yaml, formats: [{formats}] }}
"""
COSTS = """
target: a machine on which narrow is fast
launch: 1e-9
formats:
- { format: f32, products: 1e+3, elements: 1e+9 }
- { format: bf16, products: 2e+3, elements: 1e+9 }
- { format: f16, products: 4e+3, elements: 1e+9 }
"""


@pytest.mark.parametrize(
    "formats, chosen, reason",
    [
        ("{format: f16}", "f32", "rule"),
        ("{format: f16}, {format: bf16}", "bf16", "reason"),
    ],
)
def test_a_cut_chooses_among_the_formats_that_fit(formats, chosen, reason, x, tmp_path):
    record(tmp_path, x)
    policy = tmp_path / "cut.yaml"
    policy.write_text(CUT.format(formats=formats))
    (tmp_path / "costs.yaml").write_text(COSTS)
    name = "forward matmul hidden"
    assert explain(tmp_path, policy)[name]["format"] == "f16"
    op = explain(tmp_path, policy, "--ranges", tmp_path / "ranges.json")[name]
    assert op["format"] == chosen
    assert "of matmul at 'hidden' underflows in f16, more than 1%" in op[reason]


def test_ranges_of_gradients_are_multiplied_by_the_loss_scale(tmp_path):
    x = np.full((4, 4), 2.0**-12, F32)
    record(tmp_path, x)
    ranges = "--ranges", tmp_path / "ranges.json"
    name = "backward matmul hidden"
    gradient = steps_of(x)[name]
    for scale in (1, 65536):
        rules = "rules: [{match: {op: matmul, phase: forward}, class: allow}]"
        text = f"loss_scale: {{static: {scale}}}, {rules}"
        op = explain(tmp_path, write_policy(tmp_path, text), *ranges)[name]
        narrow = (gradient * F32(scale)).astype(F16)
        lost = np.mean(narrow[gradient != 0] == 0)
        assert (lost > 0.01) == (scale == 1)
        assert op["evidence"][0]["underflow"] == lost
        assert op["evidence"][0]["scale"] == scale
        assert (op["result"] == "f16") == (lost <= 0.01)


def test_a_dynamic_scale_is_lowered_until_no_gradient_overflows(tmp_path):
    x = np.full((4, 4), 30.0, F32)
    record(tmp_path, x)
    op = explain(tmp_path, "fp16-amp", "--ranges", tmp_path / "ranges.json")[
        "backward matmul hidden"
    ]
    largest = np.max(np.abs(steps_of(x)["backward matmul hidden"]))
    scale = 65536.0
    while largest * scale > np.finfo(F16).max:
        scale /= 2
    assert 1 < scale < 65536 and op["evidence"][0]["scale"] == scale
    assert op["format"] == "f16" and op["evidence"][0]["overflow"] == 0


ENTRY = {"value": "batch x", "count": 3, "zeros": 1, "nonfinite": 0, "amax": 1,
         "smallest": 1, "exponents": {"0": 2}}  # fmt: skip


def ranges_with(**changes):
    return {"binade_ranges": 1, "values": [{**ENTRY, **changes}]}


WRONG = {
    "{": "syntax error",
    "[]": "expected what 'binade train --record ranges=FILE' writes",
    '{"binade_ranges": 2}': "expected ranges of version 1, found 2",
    '{"binade_ranges": 1}': "expected a list of 'values'",
    json.dumps(ranges_with(value=3)): "expected the name of each",
    json.dumps(ranges_with(count=-1)): "'batch x': expected a count as 'count'",
    json.dumps(ranges_with(amax="1")): "expected a magnitude as 'amax'",
    json.dumps(ranges_with(exponents={"x": 2})): "counts by exponent, found 'x'",
    json.dumps(ranges_with(zeros=2)): "'count' is 3, but zeros, nonfinite and exponents",
    json.dumps({"binade_ranges": 1, "values": [ENTRY, ENTRY]}): "two values are called",
}  # fmt: skip


@pytest.mark.parametrize("text", WRONG)
def test_an_invalid_file_is_rejected(text, tmp_path):
    (tmp_path / "ranges.json").write_text(text)
    done = binade("explain", write_model(tmp_path, ONE_WEIGHT, ["weight"], WEIGHT), "--policy", "fp16-amp", "--ranges",
                  tmp_path / "ranges.json")  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert WRONG[text] in done.stderr and "ranges.json" in done.stderr
    assert done.stdout == ""


def test_a_missing_file_is_named(tmp_path):
    done = binade(
        "explain",
        write_model(tmp_path, ONE_WEIGHT, ["weight"], WEIGHT),
        "--ranges",
        tmp_path / "no.json",
    )
    assert done.returncode == 3
    assert "cannot read ranges" in done.stderr and "no.json" in done.stderr
