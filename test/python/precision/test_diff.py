"""`binade diff` lists the ops whose formats differ, with the reason, and the remarks of the
compiler agree with `binade explain`."""

import json
import re

from support.explanations import binade_opt, explain, formats
from support.paths import ROOT
from support.reference import binade

MINI = ROOT / "examples/char-gpt/mini.onnx"


def test_explain_op_shows_the_named_ops_and_their_casts():
    done = binade(
        "explain", MINI, "--policy", "bf16-amp", "--op", "blocks.0.attention.qkv/Add"
    )
    lines = done.stdout.splitlines()
    assert lines[0].startswith("bf16, sums f32")
    assert "class allow" in lines[0]
    assert any(
        "parameter 'blocks.0.attention.qkv.weight', f32 to bf16" in x for x in lines
    )
    assert any(
        "flip   - { match: { op: matmul, phase: forward, name:" in x for x in lines
    )
    none = binade("explain", MINI, "--policy", "bf16-amp", "--op", "blocks.9*")
    assert none.returncode == 3 and "no op or node is called 'blocks.9*'" in none.stderr
    bad = binade("explain", MINI, "--policy", "bf16-amp", "--op", "a[")
    assert bad.returncode == 2 and "is not a glob" in bad.stderr


def test_diff_lists_changed_ops_and_the_cause(tmp_path):
    same = binade("diff", MINI, "--policy", "bf16-amp", "--policy", "bf16-amp")
    assert same.returncode == 0 and "ops that differ" in same.stdout
    a, b = explain(MINI, "bf16-amp"), explain(MINI, "grappler-bf16")
    done = binade(
        "diff", MINI, "--policy", "bf16-amp", "--policy", "grappler-bf16",
        "--format", "json",
    )  # fmt: skip
    assert done.returncode == 1
    listed = json.loads(done.stdout)["ops"]
    changed = [i for i, (x, y) in enumerate(zip(formats(a), formats(b))) if x != y]
    assert [op["id"] for op in listed] == changed
    for op in listed:
        assert op["second"]["cause"].startswith("grappler-bf16.yaml:")
    one = binade("diff", MINI, "--policy", "bf16-amp")
    assert one.returncode == 2 and "compares two policies" in one.stderr


def test_remarks_agree_with_explain(tmp_path):
    step = tmp_path / "step.mlir"
    assert not binade("compile", MINI, "--to=optimizer", "-o", step).returncode
    report = explain(MINI, "bf16-amp")
    done = binade_opt(
        step, "--binade-assign-precision=policy=bf16-amp", "--remarks-filter=precision",
        "--remark-format=emitRemark", "-o", tmp_path / "out.mlir",
    )  # fmt: skip
    remarks = re.findall(r"\[Passed\] AssignPrecision.*", done.stderr)
    assert len(remarks) == len(report["ops"])
    for op, remark in zip(report["ops"], remarks):
        assert f"compute={op['format']}" in remark
        assert f"casts={len(op['casts'])}," in remark
        assert op.get("reason", "") in remark
