"""Fallbacks, where a plan computes in other formats than the policy decided, are reported
with the reason by explain, inspect, compile and --strict. docs/decisions/0059-fallbacks.md."""

from __future__ import annotations

import collections
import json
import re

import pytest
from support.fallback_models import Model, write_all, write_one
from support.policies import GPU_POLICIES, POLICIES
from support.reference import binade

# Targets that are tested every day; the others are tested nightly.
DAILY = ["", "cuda:sm_90"]
TARGETS = ["", "cuda:sm_80", "cuda:sm_89", "cuda:sm_90", "cuda:sm_100"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_all(tmp_path_factory.mktemp("branches") / "branches.onnx")


def run(command, model, policy, target, *more, code=0):
    targets = ["--target", target] if target else []
    loss = ["--loss-output", "loss", "--optimizer=adamw"]
    done = binade(command, model, "--policy", policy, *loss, *targets, *more)
    assert done.returncode == code, done.stderr
    return done


FORMATS = {"F8_E4M3": "f8E4M3FN", "F8_E5M2": "f8E5M2", "BF16": "bf16", "F16": "f16",
           "F32": "f32"}  # fmt: skip


def list_library_calls(records):
    for record in records:
        if record["kind"] == "loop":
            yield from list_library_calls(record["body"])
        elif record["kind"] != "launch":
            yield record


def list_computed(plan):
    """Maps each node to the operand formats and the kinds of its plan records."""
    found = collections.defaultdict(list)
    for record in list_library_calls(plan["records"]):
        if record["kind"] == "copy":
            continue
        views = {"matmul": ("lhs", "rhs"), "attention": ("query", "key"), "convolution":
                 {"forward": ("x", "weight"), "input_grad": ("y", "weight"),
                  "weight_grad": ("x", "y")}.get(record.get("direction", "forward"))}  # fmt: skip
        formats = [FORMATS[plan["buffers"][record[view]["buffer"]]["dtype"]]
                   for view in views[record["kind"]]]  # fmt: skip
        text = " x ".join(formats)
        if formats[0] == formats[1] and not formats[0].startswith("f8"):
            text = "tf32" if record.get("tf32") else formats[0]
        if "fallback" in record:
            assert record["fallback"]["computed"] == text, record
        node = re.sub(r" \+\d+$", "", record["label"].split(" ", 1)[1])
        found[node].append((text, record["kind"]))
    return found


def decided(op):
    """The decided format of an op, or those of the two sides if both are quantized."""
    sides = op.get("operands", [])[:2]  # A bias is the third operand.
    # Operands with constant scales are rounded, and multiplied in the op's format.
    operands = [side for side in sides if isinstance(side, str)]
    if len(operands) < 2:
        return op["format"]
    return " x ".join(re.match(r"\w+", text)[0] for text in operands)


def reported(op):
    """The format in which, according to explain, the plan computes an op."""
    return op["plan"]["computed"] if "plan" in op else decided(op)


FAST = [("fp8-current", "cuda:sm_90"), ("tf32", "cuda:sm_80"), ("fp8-block", "")]


def choose_marks(policy, target):
    if (policy, target) in FAST:
        return []
    return pytest.mark.slow if target in DAILY else pytest.mark.nightly


@pytest.mark.parametrize(("policy", "target"), [
    pytest.param(policy, target,
                 marks=choose_marks(policy, target))
    for target in TARGETS for policy in (GPU_POLICIES if target else POLICIES)
])  # fmt: skip
def test_reported_fallbacks_are_those_of_the_records(policy, target, model):
    """For each node, the decisions and fallbacks that explain reports give the formats of the
    records in the plan."""
    report = json.loads(
        run("explain", model, policy, target, "--format", "json").stdout
    )
    plan = json.loads(
        run("compile", model, policy, target, "--to=plan", "-o", "-").stdout
    )
    computed = list_computed(plan)
    ops = collections.defaultdict(list)
    for op in report["ops"]:
        if op["op"].startswith(("matmul", "conv", "attention")):
            ops[op["name"]].append(op)
            if "plan" in op:
                assert op["plan"]["decided"] == decided(op), op
                assert op["plan"]["reason"], op
    assert set(ops) == set(computed)
    for name, group in ops.items():
        expected = [reported(op) for op in group]
        got = [text for text, _ in computed[name]]
        if not target:  # CPUs have no TF32 units.
            expected, got = (
                [t.replace("tf32", "f32") for t in x] for x in (expected, got)
            )
        if group[0]["op"].startswith("attention"):
            assert set(expected) == set(got), name
            # A GPU computes attention by one fused kernel, or explain reports a fallback.
            if target and expected[0] in ("bf16", "f16"):
                isWhole = all(kind == "attention" for _, kind in computed[name])
                assert isWhole != any("plan" in op for op in group), name
        else:
            assert collections.Counter(expected) == collections.Counter(got), name


REASONS = {
    "k50": ("k = 50 is not a multiple of 16", "k = 64"),
    "n20": ("n = 20 is not a multiple of 16", "n = 32"),
    "rows30": ("k = 30 is not a multiple of 16", "k = 32"),  # In the weight's gradient.
}


def test_reasons_and_shapes_are_named(model):
    report = json.loads(
        run("explain", model, "fp8-current", "cuda:sm_90", "--format", "json").stdout
    )
    plans = collections.defaultdict(list)
    for op in report["ops"]:
        if "plan" in op:
            plans[op["name"]].append(op["plan"])
    for name, (reason, nearest) in REASONS.items():
        assert (reason, nearest) in [
            (p["reason"], p.get("nearest")) for p in plans[name]
        ], name
        assert {p["computed"] for p in plans[name]} == {"bf16"}
    assert not {"plain", "batch", "turned", "last", "head16"} & set(plans)
    assert plans["head20"][0]["nearest"] == "head size = 32"
    assert plans["head144"][0]["reason"] == "a head size of 144 is more than 128"
    text = run("explain", model, "fp8-current", "cuda:sm_90").stdout
    assert (
        "    plan   on cuda:sm_90: f8E4M3FN x f8E4M3FN decided, bf16 computed: k = 50 is not "
        "a multiple of 16; k = 64 would do"
    ) in text
    text = run("explain", model, "fp8-current", "cuda:sm_90", "--op", "plain").stdout
    assert "    plan " not in text


@pytest.mark.parametrize("terms, rows", [(50, 32), (64, 24), (64, 32)])
def test_strict_rejects_fallbacks(terms, rows, tmp_path):
    model, bundle = write_one(tmp_path / "one.onnx", terms, rows), tmp_path / "one.bnd"
    isKept = terms % 16 == 0 and rows % 16 == 0
    done = run("compile", model, "fp8-current", "cuda:sm_90", "-o", bundle)
    assert ("warning: cuda:sm_90 does not compute" in done.stderr) != isKept
    text = binade("inspect", bundle).stdout
    wrong = terms if terms % 16 else rows
    nearest = -(-wrong // 16) * 16
    message = f"k = {wrong} is not a multiple of 16; k = {nearest} would do"
    assert ("fallbacks: computed otherwise than the policy decided" in text) != isKept
    assert (message in text) != isKept and (message in done.stderr) != isKept
    bundle.unlink()
    done = run("compile", model, "fp8-current", "cuda:sm_90", "--strict", "-o", bundle,
               code=0 if isKept else 3)  # fmt: skip
    assert bundle.exists() == isKept
    if not isKept:
        assert (
            "in the formats that the policy decided: refused by --strict" in done.stderr
        )
        assert message in done.stderr and "'first'" in done.stderr


def test_ops_computed_in_pieces_are_a_note_and_not_an_error(tmp_path):
    model = Model()
    x = model.reshape("x", model.input("in", 40), 2, 2, 16, 20)
    q = model.add("Mul", "q", x, model.weight("scale", 20))
    model.add("Attention", "attend", q, x, x)
    model.lose("attend")
    path = model.save(tmp_path / "a.onnx")
    done = run(
        "compile", path, "bf16-amp", "cuda:sm_90", "--strict", "-o", tmp_path / "a.bnd"
    )
    assert "note: cuda:sm_90 computes 2 ops in pieces" in done.stderr
    assert (
        "a head size of 20 is not a multiple of 16; head size = 32 would do"
        in done.stderr
    )
    done = run("compile", path, "bf16-amp", "", "-o", tmp_path / "b.bnd")
    assert "pieces" not in done.stderr


def test_inspect_and_explain_report_fallbacks_on_cpus(tmp_path):
    path = write_one(tmp_path / "one.onnx", 64)
    text = run("inspect", path, "fp8-current", "").stdout
    assert (
        "f8E4M3FN x f8E4M3FN decided, bf16 computed: a CPU has no matmul of quantized operands"
        in text
    )
    text = run("explain", path, "fp8-current", "").stdout
    assert "what the plan computes otherwise, on a CPU" in text
    done = run("compile", path, "fp8-current", "", "-o", tmp_path / "a.bnd")
    assert "decided" not in done.stderr
