"""`binade explain` reports why each op has its format, and its reports match the compiler."""

import collections
import math
import random
import re

import pytest
from support.explanations import binade_opt, explain, formats
from support.paths import MODELS, ROOT
from support.reference import binade

MINI = ROOT / "examples/char-gpt/mini.onnx"
POLICIES = ["bf16-amp", "fp16-amp", "grappler-bf16", "grappler-fp16"]
BYTES = {"f32": 4, "bf16": 2, "f16": 2, "f64": 8, "i64": 8, "i1": 1}
CUT = """name: cut
narrow: bf16
wide: f32
cut: { costs: costs.yaml }
"""
COSTS = """target: a machine that is fast in bf16
launch: 1.0e-6
formats:
- { format: f32, products: 1.0e+10, elements: 1.0e+10 }
- { format: bf16, products: 2.0e+10, elements: 1.9e+10 }
"""


def find_model(name):
    if name == "mini":
        return MINI
    path = MODELS / name / "loss.onnx"
    if not path.exists():
        pytest.skip(f"{path} is absent; BINADE_MODELS names its folder")
    return path


def count_casts(text):
    """Returns the number of casts in a module, and the bytes that they read and write."""
    casts = re.findall(
        r"binade\.cast .*: \(tensor<((?:\d+x)*)(\w+)>\) -> tensor<(?:\d+x)*(\w+)>", text
    )
    # Rounding to TF32 counts as a cast from f32 to f32.
    casts += [
        (shape, element, element)
        for shape, element in re.findall(
            r"binade\.round_to .*: tensor<((?:\d+x)*)(\w+)>", text
        )
    ]
    return len(casts), sum(
        math.prod(int(axis) for axis in shape.split("x")[:-1])
        * (BYTES[before] + BYTES[after])
        for shape, before, after in casts
    )


@pytest.mark.parametrize("policy", [*POLICIES, "cut"])
@pytest.mark.parametrize(
    "model", ["mini", "mlp-digits", "gpt2-tiny", "resnet18-cifar-w8"]
)
def test_the_printed_change_flips_the_printed_ops(tmp_path, model, policy):
    path = find_model(model)
    if policy == "cut":
        (tmp_path / "costs.yaml").write_text(COSTS)
        (tmp_path / "cut.yaml").write_text(CUT)
        policy = "cut.yaml"
    before = explain(path, tmp_path / policy if policy == "cut.yaml" else policy)
    if policy == "cut.yaml":
        assert {op["format"] for op in before["ops"]} == {"f32", "bf16"}
    ids = [op["id"] for op in before["ops"]]
    assert ids == list(range(len(ids)))
    chosen = random.Random(f"{model} {policy}").sample(before["ops"], 3)
    for op in chosen:
        flip = op["flip"]
        assert op["id"] in flip["ops"], op
        mine = tmp_path / "mine.yaml"
        mine.write_text(f"name: mine\nextends: {policy}\nrules:\n- {flip['rule']}\n")
        after = explain(path, mine)
        changed = [
            i for i, (a, b) in enumerate(zip(formats(before), formats(after))) if a != b
        ]
        assert changed == flip["ops"], op


def test_explain_matches_the_decisions_and_casts_of_the_compiler(tmp_path):
    """Counts decisions and casts in the text of the module after assign and materialize."""
    for policy in [*POLICIES, "tf32"]:
        report = explain(MINI, policy)
        step = tmp_path / "step.mlir"
        assert not binade(
            "compile", MINI, "--policy", policy, "--to=assign", "-o", step
        ).returncode
        text = step.read_text()
        written = re.findall(
            r"<compute = (\w+),(?: accumulate = (\w+),)? result = (\w+),"
            r"(?: operands = \[([^\]]*)\],)? rule = \"([^\"]*)\"",
            text,
        )
        assert [
            (op["format"], op.get("accumulate", ""), op["result"],
             ", ".join(text or "unit" for text in op.get("operands", [])), op["rule"])
            for op in report["ops"]
        ] == written  # fmt: skip

        mixed = binade_opt(step, "--binade-materialize-precision").stdout
        casts, cast_bytes = count_casts(mixed)
        casts_before, bytes_before = count_casts(text)
        total = report["summary"]["total"]
        assert total["casts"] == casts - casts_before
        assert total["cast_bytes"] == cast_bytes - bytes_before


def test_inferred_formats_name_the_value_that_they_follow():
    report = explain(MINI, "bf16-amp")
    ops = report["ops"]
    for op in ops:
        if op["rule"] in ("class infer", "class clear"):
            assert re.match("reads (a wide value|only narrow values)", op["reason"]), op
            if "from" in op:
                source = ops[op["from"]]
                # The statistics of attention are always f32, and `save` computes nothing.
                assert source["result"] == op["format"] or source["op"] in (
                    "attention",
                    "save",
                )
        else:
            assert "reason" not in op or "bf16-amp.yaml" in op["rule"]
    names = {gradient["parameter"] for gradient in report["gradients"]}
    assert "blocks.0.attention.qkv.weight" in names and len(names) == 4 * 12 + 5
    assert {state["format"] for state in report["states"]} == {"f32"}


@pytest.mark.parametrize(
    "flags, first, second, small",
    [
        (["coat"], "f8E4M3FN/128 expanded", "f8E4M3FN/128 expanded", "f32"),
        (["fp32", "--states", "dyn4"], "dynamic4-signed/128", "linear4-unsigned/128",
         "f32"),
        (["fp32", "--states", "bf16"], "bf16", "bf16", "bf16"),
    ],
)  # fmt: skip
def test_explain_names_the_formats_of_states(flags, first, second, small):
    states = {s["name"]: s["format"] for s in explain(MINI, *flags)["states"]}
    assert states["exp_avg/blocks.0.mlp.0.weight"] == first
    assert states["exp_avg_sq/blocks.0.mlp.0.weight"] == second
    assert states["exp_avg/blocks.0.norm1.weight"] == small


@pytest.mark.parametrize(
    "scales, computed",
    [("e4m3-tensor", "bf16"), ("mxfp8", "bf16"), ("coat-group", "f32")],
)
def test_matmuls_whose_dequantized_operands_exceed_bf16_are_f32(
    scales, computed, tmp_path
):
    """A scale per 16 elements that is not a power of two needs more bits than bf16 has."""
    policy = tmp_path / "scales.yaml"
    policy.write_text(
        "name: scales\nextends: bf16-amp\nrules:\n- match: {op: matmul, role: weight}\n"
        f"  quantize: {{activation: {scales}, weight: {scales}, gradient: {scales}}}\n"
    )
    matmuls = [op for op in explain(MINI, policy)["ops"] if "operands" in op]
    assert matmuls and {op["format"] for op in matmuls} == {computed}
    step = tmp_path / "step.mlir"
    done = binade("compile", MINI, "--policy", policy, "--to=kernels", "-o", step)
    assert done.returncode == 0, done.stderr
    found = re.findall(r"binade.matmul .* : \(tensor<[0-9x]+x(\w+)>", step.read_text())
    assert found.count(computed) >= len(matmuls)
    assert computed == "bf16" or found.count("bf16") < len(matmuls)


def test_explain_reports_matmuls_that_a_rule_cannot_quantize(tmp_path):
    policy = tmp_path / "wide.yaml"
    policy.write_text(
        "name: wide\nextends: fp8-current\nrules:\n"
        "- {match: {op: matmul, name: 'blocks.0.*'}, class: deny, "
        "quantize: {activation: e4m3-tensor}}\n"
    )
    found = collections.Counter()
    for op in explain(MINI, policy)["ops"]:
        unquantized = "operands are not quantized" in op.get("reason", "")
        if op["op"] == "matmul" and op["name"].startswith("blocks.0."):
            found[op["phase"], unquantized] += 1
        else:
            assert not unquantized, op
    # Four layers. The gradients of their inputs are products without an activation.
    expected = {("forward", True): 4, ("backward", True): 4, ("backward", False): 4}
    assert found == expected


def test_the_flip_of_a_pin_is_its_removal(tmp_path):
    step, edited = tmp_path / "step.mlir", tmp_path / "edited.mlir"
    assert not binade(
        "compile", MINI, "--policy", "bf16-amp", "--to=assign", "-o", step
    ).returncode
    unpinned = explain(step, "bf16-amp")
    first = next(op["id"] for op in unpinned["ops"] if op["op"] == "matmul")
    edited.write_text(
        re.sub(
            r"(binade\.matmul [^\n]*precision = #binade\.precision<)[^>]*>",
            r"\1compute = f32, accumulate = f32, result = f32>",
            step.read_text(),
            count=1,
        )
    )
    pinned = explain(edited, "bf16-amp")
    assert pinned["ops"][first]["rule"] == "pin"
    changed = [
        i for i, (a, b) in enumerate(zip(formats(unpinned), formats(pinned))) if a != b
    ]
    assert pinned["ops"][first]["flip"] == {"pin": "remove", "ops": changed}


def test_the_cost_of_a_rule_is_the_difference_without_it(tmp_path):
    rules = [
        "{match: {op: gelu}, class: deny}",
        "{match: {name: 'blocks.1.*', op: matmul}, compute: f32}",
        "{match: {role: logits}, class: deny}",
    ]
    head = "name: mine\nextends: bf16-amp\nrules:\n"

    def report(kept):
        path = tmp_path / "mine.yaml"
        path.write_text(head + "".join(f"- {rule}\n" for rule in kept))
        return explain(MINI, path)

    whole = report(rules)
    costs = whole["summary"]["rules"][-3:]
    for i, cost in enumerate(costs):
        without = report(rules[:i] + rules[i + 1 :])
        changed = [a != b for a, b in zip(formats(whole), formats(without))]
        assert cost["changes"] == sum(changed) > 0
        for key in ("casts", "cast_bytes", "result_bytes"):
            difference = (
                whole["summary"]["total"][key] - without["summary"]["total"][key]
            )
            assert cost[key] == difference
