"""Policies clamp the results of named ops, saturate constants beyond the range of a format,
and accumulate in f32."""

import json

import numpy as np
import pytest
from support.paths import ROOT
from support.reference import (
    F16,
    ONE_WEIGHT,
    binade,
    evaluate,
    opt,
    write_model,
)

F32 = np.float32
STEP = """
func.func @step(%x: tensor<3x4xf32> {binade.role = #binade.role<batch>, binade.name = "x"},
    %w: tensor<4x5xf32> {binade.role = #binade.role<parameter>, binade.name = "w"})
    -> (tensor<3x5xf32> {binade.role = #binade.role<output>, binade.name = "y"}) {
  %y = binade.matmul %x, %w
    : (tensor<3x4xf32>, tensor<4x5xf32>) -> tensor<3x5xf32> loc("ffn")
  BODY
  return %y OTHERS : tensor<3x5xf32>
}
"""


def materialize(folder, policy, step=STEP):
    """Returns the module after materialize and the messages of the tool."""
    (folder / "policy.yaml").write_text(policy)
    (folder / "step.mlir").write_text(step.replace("BODY", "").replace("OTHERS", ""))
    done = opt(
        folder / "step.mlir",
        f"--binade-assign-pipeline=policy={{{folder / 'policy.yaml'}}}",
        "--binade-materialize-pipeline",
    )
    return done.stdout, done.stderr


def policy(rule, narrow="f16", wide="f32"):
    return f"{{name: p, narrow: {narrow}, wide: {wide}, rules: [{rule}]}}"


def inputs(peak, poison=None):
    random = np.random.default_rng(2)
    x = random.standard_normal((3, 4)).astype(F32)
    x[1] *= F32(peak)
    if poison is not None:
        x[2, 0] = poison
    return {"x": x, "w": random.standard_normal((4, 5)).astype(F32)}


def matmul(tensors):
    with np.errstate(over="ignore", invalid="ignore"):
        x, w = (tensors[n].astype(F16).astype(np.float64) for n in ("x", "w"))
        return (x @ w).astype(F16)


def clamp_of_t5(h):
    """The clamp of HuggingFace's modeling_t5; torch.clamp rounds its bounds to f16."""
    torch = pytest.importorskip("torch")
    h, largest = torch.from_numpy(h), torch.finfo(torch.float16).max
    bound = largest - 1000 if torch.isinf(h).any() else largest
    return torch.clamp(h, min=-bound, max=bound).numpy()


REMEDIES = {
    "infinities": lambda h: np.clip(h, F16(-65504), F16(65504)),
    "tensor": clamp_of_t5,
}


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("peak", [1, 50000])
@pytest.mark.parametrize("poison", [None, np.nan])
@pytest.mark.parametrize("remedy", REMEDIES)
def test_values_that_overflow_are_clamped(remedy, peak, poison, backend, tmp_path):
    rule = f"{{match: {{name: ffn}}, clamp: {remedy}}}"
    module, _ = materialize(tmp_path, policy(rule))
    tensors = inputs(peak, poison)
    found = evaluate(module, tensors, "--backend", backend)["y"]
    h = matmul(tensors)
    assert np.isinf(h).any() == (peak > 1)
    expected = REMEDIES[remedy](h)
    assert not np.isinf(found).any()
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    # Results of the matmul may differ in the last bit; bounds may not.
    np.testing.assert_allclose(found, expected.astype(F32), rtol=2**-10)
    bound = np.nanmax(np.abs(expected))
    assert (peak == 1) or np.nanmax(np.abs(found)) == bound


DOUBLE = """
func.func @step(%x: tensor<7xf32> {binade.role = #binade.role<batch>, binade.name = "x"})
    -> (tensor<7xf32> {binade.role = #binade.role<output>, binade.name = "y"}) {
  %y = binade.add %x, %x : (tensor<7xf32>, tensor<7xf32>) -> tensor<7xf32> loc("ffn")
  return %y : tensor<7xf32>
}
"""


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("remedy", REMEDIES)
def test_recorded_values_are_clamped(remedy, backend, tmp_path):
    case = json.loads((ROOT / "test/data/golden/misc.json").read_text())["cases"]
    given, wanted = (
        np.array([int(x, 16) for x in case["t5_clamp"][key]["x"]], np.uint16).view(F16)
        for key in ("in", remedy)
    )
    rule = f"{{match: {{name: ffn}}, class: allow, clamp: {remedy}}}"
    module, _ = materialize(
        tmp_path, policy(rule), DOUBLE.replace("<7x", f"<{given.size}x")
    )
    x = given.astype(F32) / 2
    found = evaluate(module, {"x": x}, "--backend", backend)["y"]
    np.testing.assert_array_equal(found, wanted.astype(F32))


@pytest.mark.parametrize("narrow", ["bf16", "f32"])
def test_formats_with_the_range_of_f32_are_not_clamped(narrow, tmp_path):
    rule = "{match: {name: ffn}, clamp: infinities}"
    module, _ = materialize(tmp_path, policy(rule, narrow=narrow))
    assert "binade.max" not in module and "binade.min" not in module


def test_materializing_twice_adds_no_second_clamp(tmp_path):
    rule = "{match: {name: ffn}, clamp: tensor}"
    module, _ = materialize(tmp_path, policy(rule))
    (tmp_path / "once.mlir").write_text(module)
    again = opt(tmp_path / "once.mlir", "--binade-materialize-pipeline")
    assert again.stdout == module and module.count("binade.reduce_max") == 1


def test_explain_and_diff_report_clamps(tmp_path):
    pytest.importorskip("onnx")
    model = write_model(tmp_path, ONE_WEIGHT, ["weight"], WEIGHT)
    (tmp_path / "plain.yaml").write_text(policy("{match: {op: matmul}, class: allow}"))
    (tmp_path / "clamped.yaml").write_text(
        policy(
            "{match: {op: matmul}, class: allow}, "
            "{match: {name: hidden, phase: forward}, class: allow, clamp: tensor}"
        )
    )
    done = binade("explain", model, "--policy", tmp_path / "clamped.yaml", "--op",
                  "hidden", "--format", "json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    clamps = {
        op["phase"]: op.get("clamp")
        for op in json.loads(done.stdout)["ops"]
        if op["op"] == "matmul"
    }
    assert clamps == {"forward": "tensor", "backward": None}
    done = binade("diff", model, "--policy", tmp_path / "plain.yaml", "--policy",
                  tmp_path / "clamped.yaml")  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "+ f16, sums f32, clamp tensor" in done.stdout
    assert done.stdout.count("\n  + ") == 1


MASKED = STEP.replace(
    "BODY",
    """%m = binade.constant MASK : tensor<3x5xf32> loc("mask")
  %z = binade.add %y, %m
    : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32> loc("masked")""",
).replace("return %y", "return %z")


@pytest.mark.parametrize(
    "mask, smallest",
    [
        ("dense<-1.0e+09>", -65504),
        ("dense<-65000.0>", -64992),
        ("dense<0xFF800000>", -np.inf),
        ("dense<[" + ", ".join(["[0.0, -3.3e+38, 0.0, 0.0, 1.0]"] * 3) + "]>", -65504),
    ],
)
def test_finite_masks_stay_finite(mask, smallest, tmp_path):
    """A rule forces the addition to f16. Without it, a constant beyond f16 keeps it wide."""
    keep = "{match: {name: masked}, class: allow}"
    module, log = materialize(tmp_path, policy(keep), MASKED.replace("MASK", mask))
    overflows = smallest == -65504
    assert ("constant is beyond the range of 'f16'" in log) == overflows
    assert "warning" in log if overflows else not log
    tensors = inputs(1)
    tensors["w"][:] = 0
    found = evaluate(module, tensors)["y"]
    assert np.min(found) == F16(smallest)
    wide, log = materialize(tmp_path, policy("", "bf16"), MASKED.replace("MASK", mask))
    assert not log
    assert np.isfinite(evaluate(wide, tensors)["y"]).all() == (smallest > -np.inf)


@pytest.mark.parametrize("wide", ["f32", "f16"])
def test_matmuls_accumulate_in_f32_unless_a_rule_decides(wide, tmp_path):
    rule = "{match: {op: matmul}, class: allow}"
    module, _ = materialize(tmp_path, policy(rule, wide=wide))
    assert "compute = f16, accumulate = f32" in module
    rule = "{match: {op: matmul}, accumulate: f16}"
    module, _ = materialize(tmp_path, policy(rule, wide=wide))
    assert "compute = f16, accumulate = f16" in module


WEIGHT = np.linspace(-1, 1, 16, dtype=F32).reshape(4, 4)
