"""What a policy does about numbers that a narrow format does not hold: clamps after
named ops, constants beyond the range, narrow sums, gradients that vanish."""

import json

import numpy as np
import pytest
from support.paths import ROOT
from support.reference import (
    F16,
    ONE_WEIGHT,
    binade,
    evaluate,
    evaluate_op,
    opt,
    safetensors,
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
    """The module with types and casts, and what the tool said."""
    (folder / "policy.yaml").write_text(policy)
    (folder / "step.mlir").write_text(step.replace("BODY", "").replace("OTHERS", ""))
    done = opt(
        folder / "step.mlir",
        f"--binade-assign-pipeline=policy={folder / 'policy.yaml'}",
        "--binade-materialize-pipeline",
    )
    return done.stdout, done.stderr


def policy(rule, narrow="f16", wide="f32"):
    return f"{{name: p, narrow: {narrow}, wide: {wide}, rules: [{rule}]}}"


#
# Clamps.
#


def inputs(peak, poison=None):
    random = np.random.default_rng(2)
    x = random.standard_normal((3, 4)).astype(F32)
    x[1] *= F32(peak)
    if poison is not None:
        x[2, 0] = poison
    return {"x": x, "w": random.standard_normal((4, 5)).astype(F32)}


def product(tensors):
    with np.errstate(over="ignore", invalid="ignore"):
        x, w = (tensors[n].astype(F16).astype(np.float64) for n in ("x", "w"))
        return (x @ w).astype(F16)


def clamp_of_t5(h):
    """HuggingFace's modeling_t5, retold; torch.clamp rounds its bounds to f16."""
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
def test_what_overflows_stays_finite(remedy, peak, poison, backend, tmp_path):
    rule = f"{{match: {{name: ffn}}, clamp: {remedy}}}"
    module, _ = materialize(tmp_path, policy(rule))
    tensors = inputs(peak, poison)
    found = evaluate(module, tensors, "--backend", backend)["y"]
    h = product(tensors)
    assert np.isinf(h).any() == (peak > 1)
    expected = REMEDIES[remedy](h)
    assert not np.isinf(found).any()
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    # Sums of products may differ in the last bit; bounds may not.
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
def test_recorded_numbers_are_clamped(remedy, backend, tmp_path):
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


def test_a_clamp_is_made_once(tmp_path):
    rule = "{match: {name: ffn}, clamp: tensor}"
    module, _ = materialize(tmp_path, policy(rule))
    (tmp_path / "once.mlir").write_text(module)
    again = opt(tmp_path / "once.mlir", "--binade-materialize-pipeline")
    assert again.stdout == module and module.count("binade.reduce_max") == 1


def test_a_clamp_is_part_of_what_is_explained_and_compared(tmp_path):
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


#
# Constants.
#

MASKED = STEP.replace(
    "BODY",
    """%m = binade.constant MASK : tensor<3x5xf32> loc("mask")
  %z = binade.add %y, %m
    : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32> loc("masked")""",
).replace("return %y", "return %z")


@pytest.mark.parametrize(
    "mask, least",
    [
        ("dense<-1.0e+09>", -65504),
        ("dense<-65000.0>", -64992),
        ("dense<0xFF800000>", -np.inf),
        ("dense<[" + ", ".join(["[0.0, -3.3e+38, 0.0, 0.0, 1.0]"] * 3) + "]>", -65504),
    ],
)
def test_masks_stay_finite_where_they_were(mask, least, tmp_path):
    """A rule keeps the sum in f16; without one a constant that f16 lacks keeps it wide."""
    keep = "{match: {name: masked}, class: allow}"
    module, said = materialize(tmp_path, policy(keep), MASKED.replace("MASK", mask))
    overflows = least == -65504
    assert ("constant is beyond the range of 'f16'" in said) == overflows
    assert "warning" in said if overflows else not said
    tensors = inputs(1)
    tensors["w"][:] = 0
    found = evaluate(module, tensors)["y"]
    assert np.min(found) == F16(least)
    wide, said = materialize(tmp_path, policy("", "bf16"), MASKED.replace("MASK", mask))
    assert not said
    assert np.isfinite(evaluate(wide, tensors)["y"]).all() == (least > -np.inf)


#
# Sums.
#


@pytest.mark.parametrize("wide", ["f32", "f16"])
def test_sums_are_f32_unless_a_rule_says_otherwise(wide, tmp_path):
    rule = "{match: {op: matmul}, class: allow}"
    module, _ = materialize(tmp_path, policy(rule, wide=wide))
    assert "compute = f16, accumulate = f32" in module
    rule = "{match: {op: matmul}, accumulate: f16}"
    module, _ = materialize(tmp_path, policy(rule, wide=wide))
    assert "compute = f16, accumulate = f16" in module


#
# Gradients that vanish.
#

RAISE = (
    "growth = 2.0 : f64, check = 3 : i64, limit = 0.25 : f64, largest = 1000.0 : f64"
)
CASES = [
    # count, vanished, nonzero, amax: raised, infeasible
    ((3, 26, 100, 500), (1, 0)),
    ((6, 100, 100, 0), (1, 0)),
    ((3, 25, 100, 1), (0, 0)),
    ((4, 26, 100, 1), (0, 0)),
    ((0, 26, 100, 1), (0, 0)),
    ((-3, 26, 100, 1), (0, 0)),
    ((3, 0, 0, 1), (0, 0)),
    ((3, 26, 100, 500.0001), (0, 1)),
    ((3, 26, 100, np.inf), (0, 1)),
    ((4, 26, 100, 5000), (0, 0)),
    ((3 * 10**12, 26, 100, 1), (1, 0)),
    ((3 * 10**12 - 1, 26, 100, 1), (0, 0)),
]  # fmt: skip


@pytest.mark.parametrize("case, expected", CASES)
def test_when_a_scale_is_raised(case, expected):
    count, vanished, nonzero, amax = case
    scale, new_count, infeasible = evaluate_op(
        "raise_scale",
        [F32(64), np.int64(count), np.int64(vanished), np.int64(nonzero), F32(amax)],
        [((), F32), ((), np.int64), ((), np.bool_)],
        RAISE,
    )
    raised = bool(expected[0])
    assert (scale, new_count, infeasible) == (
        128 if raised else 64, 0 if raised else count, bool(expected[1]),
    )  # fmt: skip


WEIGHT = np.linspace(-1, 1, 16, dtype=F32).reshape(4, 4)


def train(folder, row, scaling, steps=12):
    pytest.importorskip("onnx")
    model = write_model(folder, ONE_WEIGHT, ["weight"], WEIGHT)
    x = np.tile(F32(row), (steps, 1))
    safetensors.save(folder / "data.safetensors", {"x": x})
    (folder / "policy.yaml").write_text(
        f"{{extends: fp16-amp, name: p, loss_scale: {{{scaling}}}, "
        "rules: [{match: {op: mul}, class: deny}]}"
    )
    done = binade(
        "train", model, "--data", folder / "data.safetensors",
        "--steps", steps, "--policy", folder / "policy.yaml", "--optimizer", "sgd",
        "--lr", 0, "--out", folder / "run",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = (folder / "run" / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line)["loss_scale"] for line in lines], done.stderr


def vanished(row, scale):
    """The share of the weight's gradient that f16 rounds to 0, and its amax."""
    x = F16(row).astype(F32)
    product = (x @ WEIGHT.astype(F16).astype(F32)).astype(F16).astype(F32)
    upstream = (2 * product * F32(scale) / 8).astype(F16).astype(F32)
    exact = x.T @ upstream
    rounded = exact.astype(F16)
    return np.sum((exact != 0) & (rounded == 0)) / np.sum(exact != 0), np.max(
        np.abs(rounded)
    )


def least_gradient(row, scale):
    """The smallest magnitude of the weight's gradient that is not 0."""
    x = F16(row).astype(F32)
    product = (x @ WEIGHT.astype(F16).astype(F32)).astype(F16).astype(F32)
    upstream = (2 * product * F32(scale) / 8).astype(F16).astype(F32)
    exact = np.abs(x.T @ upstream)
    return exact[exact > 0].min()


def test_the_scale_follows_what_vanishes(tmp_path):
    row = [[1, 1, 1, 3e-7]] * 2
    scales, said = train(tmp_path, row, "init: 0.0625, underflow: 0.01, check: 2")
    expected, scale = [], 0.0625
    for step in range(12):
        expected.append(scale)
        # After two good steps.
        if step % 2 == 1 and vanished(row, scale)[0] > 0.01:
            scale *= 2
    assert scales == expected and len(set(scales)) > 2
    assert vanished(row, scales[-1])[0] == 0 < vanished(row, scales[0])[0]
    assert "no feasible scale" not in said


def test_no_feasible_scale_is_said_with_what_proves_it(tmp_path):
    row = [[400, 400, 400, 0], [0, 0, 0, 1e-6]]
    scales, said = train(tmp_path, row, "init: 0.25, underflow: 0.01, check: 2")
    share, amax = vanished(row, scales[-1])
    assert share > 0.01 and 2 * amax > 65504 / 4
    scale, least = scales[-1], least_gradient(row, scales[-1])
    # What rounds to nearest is finite below 65520, and not 0 above 2^-25.
    overflow, zero = scale * 65520 / amax, scale * 2.0**-25 / least
    assert zero > overflow
    line = next(line for line in said.splitlines() if "no feasible scale" in line)
    assert said.count("no feasible scale") == 1
    assert (
        f"the gradient of 'weight' reaches {amax:.4g} at a scale of {scale:g} and "
        f"overflows from a scale of {overflow:.4g} on, and that of 'weight' has elements "
        f"of {least:.4g}, which become 0 up to a scale of {zero:.4g} "
        f"({100 * share:.3g}% of it has)"
    ) in line


def test_where_a_scale_would_do_nothing_is_claimed(tmp_path):
    """A share vanishes and the largest gradient has no room for another growth, but the
    smallest are near: a scale in between holds both."""
    row = [[400, 400, 400, 0], [0, 0, 0, 2.0**-11]]
    scales, said = train(tmp_path, row, "init: 0.5, underflow: 0.01, check: 2")
    share, amax = vanished(row, scales[-1])
    least = least_gradient(row, scales[-1])
    assert share > 0.01 and 2 * amax > 65504 / 4
    assert least * 65520 / amax > 2.0**-25 > least and set(scales) == {0.5}
    assert "no feasible scale" not in said


def test_without_the_setting_nothing_grows(tmp_path):
    scales, _ = train(tmp_path, [[1, 1, 1, 3e-7]] * 2, "init: 0.0625")
    assert set(scales) == {0.0625}


def test_gradients_that_are_not_rounded_cannot_be_watched(tmp_path):
    with pytest.raises(AssertionError, match="but all gradients are 'f32'"):
        train(tmp_path, [[1, 1, 1, 1]] * 2, "underflow: 0.01}, narrow: f32, "
              "evidence: {overflow: 0")  # fmt: skip
