"""Ranges of values: counted as numpy counts them, recorded by a run, and heeded by
assignment."""

import collections
import json
import math

import numpy as np
import pytest
from support.paths import ROOT
from support.reference import (
    BF16,
    F16,
    ONE_WEIGHT,
    binade,
    evaluate,
    safetensors,
    type_of,
    write_model,
)

pytest.importorskip("onnx")

F32 = np.float32
MEMBERS = ["amax", "smallest", "zeros", "nonfinite", "exponents"]
TYPES = dict(zip(MEMBERS, ["f32", "f32", "i64", "i64", "256xi64"]))

#
# The op.
#


def module(x, members):
    results = ", ".join(f"tensor<{TYPES[member]}>" for member in members)
    names = ", ".join(f"%r#{i}" for i in range(len(members)))
    names = names if len(members) > 1 else "%r"
    count = f":{len(members)}" if len(members) > 1 else ""
    return f"""
func.func @f(%x: {type_of(x)}) -> ({results}) {{
  %r{count} = binade.statistics <{"|".join(members)}> %x
      : ({type_of(x)}) -> ({results})
  return {names} : {results}
}}"""


def recount(x):
    """By numpy alone; the exponents are those of the bits of f32."""
    x = np.asarray(x).astype(F32)
    magnitudes = np.abs(x)
    nonzero = magnitudes[magnitudes > 0]
    exponents = (magnitudes.view(np.int32) >> 23).ravel()
    return {
        "amax": F32(np.max(magnitudes, initial=0)),
        "smallest": F32(np.min(nonzero[~np.isnan(nonzero)], initial=np.inf)),
        "zeros": np.sum(x == 0),
        "nonfinite": np.sum(~np.isfinite(x)),
        "exponents": np.bincount(exponents, minlength=256),
    }


def samples():
    random = np.random.default_rng(7)
    wild = random.integers(0, 2**32, (3, 50001), dtype=np.uint32).view(F32)
    some = np.where(
        random.random((123, 45)) < 0.4, 0, random.standard_normal((123, 45))
    )
    yield "all bits", wild
    yield "finite", np.where(np.isfinite(wild), wild, -0.0).astype(F32)
    yield "sparse", some.astype(F32)
    yield "bf16", (some * 1e-39).astype(BF16)
    yield "f16", (random.standard_normal(16384 * 2) * 1e-6).astype(F16)
    yield "zeros", np.zeros((2, 3), F32)
    yield "one number", F32(-3e-42)
    yield "infinite", np.full(17, -np.inf, F32)
    yield "nothing", np.zeros((0, 5), F32)


@pytest.mark.parametrize("backend", ["reference", "cpu", "simulator"])
@pytest.mark.parametrize("x", [pytest.param(x, id=name) for name, x in samples()])
def test_statistics_are_a_recount(x, backend):
    outputs = evaluate(module(x, MEMBERS), {"arg0": x}, "--backend", backend)
    expected = recount(x)
    for index, member in enumerate(MEMBERS):
        found = outputs[f"result{index}"]
        np.testing.assert_array_equal(found, expected[member], err_msg=member)


def load_gradients():
    text = (ROOT / "test/data/golden/misc.json").read_text()
    case = json.loads(text)["cases"]["stats"]
    return case, np.array([int(x, 16) for x in case["g"]["x"]], np.uint32).view(F32)


def sized(text, g):
    """A module of 1000 elements, for as many as were recorded."""
    return text.replace("<1000x", f"<{g.size}x")


MOMENTS = """
func.func @f(%g: tensor<1000x1xf32>)
    -> (tensor<f32>, tensor<f32>, tensor<1xf32>, tensor<1xf32>) {
  %max = binade.reduce_max %g {axes = array<i64: 0, 1>} : (tensor<1000x1xf32>) -> tensor<f32>
  %n = binade.neg %g : (tensor<1000x1xf32>) -> tensor<1000x1xf32>
  %min = binade.reduce_max %n {axes = array<i64: 0, 1>} : (tensor<1000x1xf32>) -> tensor<f32>
  %m:2 = binade.batch_norm_statistics %g {axis = 1 : i64}
      : (tensor<1000x1xf32>) -> (tensor<1xf32>, tensor<1xf32>)
  return %max, %min, %m#0, %m#1 : tensor<f32>, tensor<f32>, tensor<1xf32>, tensor<1xf32>
}
"""


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_moments_of_recorded_gradients(backend):
    case, g = load_gradients()
    outputs = evaluate(sized(MOMENTS, g), {"arg0": g[:, None]}, "--backend", backend)
    largest, least, mean, variance = (outputs[f"result{i}"] for i in range(4))
    assert (largest, -least) == (F32(case["max"]), F32(case["min"]))
    np.testing.assert_allclose(mean, case["mean"], rtol=1e-6)
    np.testing.assert_allclose(np.sqrt(variance), case["std_pop"], rtol=1e-6)
    unbiased = np.sqrt(variance * g.size / (g.size - 1))
    np.testing.assert_allclose(unbiased, case["std_unbiased"], rtol=1e-6)


ROUNDED = """
func.func @f(%g: tensor<1000xf32>, %scale: tensor<f32>)
    -> (tensor<f32>, tensor<i64>, tensor<i64>, tensor<256xi64>, tensor<i64>, tensor<256xi64>,
        tensor<i64>, tensor<f64>, tensor<i1>) {
  %all = binade.broadcast %scale {axes = array<i64>} : (tensor<f32>) -> tensor<1000xf32>
  %y = binade.mul %g, %all : (tensor<1000xf32>, tensor<1000xf32>) -> tensor<1000xf32>
  %h = binade.cast %y : (tensor<1000xf32>) -> tensor<1000xf16>
  %b = binade.cast %y : (tensor<1000xf32>) -> tensor<1000xbf16>
  %given:3 = binade.statistics <amax|zeros|exponents> %y
      : (tensor<1000xf32>) -> (tensor<f32>, tensor<i64>, tensor<256xi64>)
  %half:3 = binade.statistics <zeros|nonfinite|exponents> %h
      : (tensor<1000xf16>) -> (tensor<i64>, tensor<i64>, tensor<256xi64>)
  %brain = binade.statistics <zeros> %b : (tensor<1000xbf16>) -> tensor<i64>
  %s:2 = binade.gradient_statistics %y : (tensor<1000xf32>) -> (tensor<f64>, tensor<i1>)
  return %given#0, %given#1, %half#0, %half#2, %half#1, %given#2, %brain, %s#0, %s#1
      : tensor<f32>, tensor<i64>, tensor<i64>, tensor<256xi64>, tensor<i64>, tensor<256xi64>,
        tensor<i64>, tensor<f64>, tensor<i1>
}
"""


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("scale", [1, 65536])
def test_what_becomes_of_recorded_gradients(scale, backend):
    """All of them, as they are and in f16 and bf16 behind a scale."""
    case, g = load_gradients()
    wanted = case["by_scale"][str(scale)]
    outputs = evaluate(
        sized(ROUNDED, g), {"arg0": g, "arg1": F32(scale)}, "--backend", backend
    )
    amax, zeros, half, in_half, infinite, given, brain, squares, is_bad = (
        outputs[f"result{i}"] for i in range(9)
    )
    assert amax == F32(case["absmax"]) * scale
    np.testing.assert_allclose(np.sqrt(squares), case["l2"] * scale, rtol=1e-12)
    assert not is_bad
    assert g.size - zeros == wanted["nonzero_in"]
    assert half - zeros == wanted["flushed_to_zero_f16"]
    assert infinite == wanted["overflow_f16"]
    assert brain - zeros == wanted["flushed_to_zero_bf16"]
    # Normal numbers of f16 begin at 2^-14, the others at 2^-24.
    assert in_half[: 127 - 14].sum() - half == wanted["subnormal_f16"]
    assert given[: 127 - 24].sum() - zeros == wanted["below_min_sub"]


@pytest.mark.parametrize(
    "members", [["exponents"], ["zeros", "nonfinite"], ["smallest"]]
)
def test_some_statistics(members):
    x = np.float32([[0, 1, -2.5], [np.inf, 1e-30, 0]])
    outputs = evaluate(module(x, members), {"arg0": x}, "--backend", "cpu")
    for index, member in enumerate(members):
        np.testing.assert_array_equal(outputs[f"result{index}"], recount(x)[member])


#
# Recorded by a run.
#

WEIGHT = np.linspace(-1, 1, 16, dtype=F32).reshape(4, 4)


def train(folder, x, *more, model=None, record="ranges.json", lr=0):
    safetensors.save(folder / "data.safetensors", {"x": x})
    model = model or write_model(folder, ONE_WEIGHT, ["weight"], WEIGHT)
    process = binade(
        "train", model, "--data", folder / "data.safetensors", "--order", "sequential",
        "--steps", len(x) // 2, "--lr", lr, "--out", folder / "run",
        "--record", f"ranges={folder / record}", *more,
    )  # fmt: skip
    return process


def record(folder, x, *more, **options):
    process = train(folder, x, "--optimizer", "sgd", *more, **options)
    assert process.returncode == 0, process.stderr
    return json.loads((folder / options.get("record", "ranges.json")).read_text())


def expected_range(values):
    values = np.asarray(values, F32)
    found = np.abs(values[values != 0].astype(np.float64))
    exponents = collections.Counter(math.floor(math.log2(v)) for v in found)
    return {
        "count": values.size, "zeros": int(np.sum(values == 0)), "nonfinite": 0,
        "amax": np.max(found), "smallest": np.min(found),
        "exponents": {str(e): n for e, n in sorted(exponents.items())},
    }  # fmt: skip


def steps_of(x):
    """What the model computes in each step, whose weight stays as it is."""
    batches = x.reshape(-1, 2, 4)
    product = batches @ WEIGHT
    gradient = 2 * product / 8
    return {
        "batch x": batches,
        "parameter weight": np.stack([WEIGHT] * len(batches)),
        "forward matmul hidden": product,
        "forward mul square": product * product,
        "backward matmul hidden": batches.transpose(0, 2, 1) @ gradient,
    }


@pytest.fixture
def x():
    x = np.random.default_rng(1).standard_normal((10, 4)).astype(F32)
    x[3] = 0
    return (x * np.logspace(-10, 0, 10)[:, None]).astype(F32)


def compare(found, expected, tolerance=1e-5):
    found = {value.pop("value"): value for value in found["values"]}
    for name, values in expected.items():
        range, wanted = found[name], expected_range(values)
        for key in ("amax", "smallest"):
            assert range.pop(key) == pytest.approx(wanted.pop(key), rel=tolerance)
        assert range == wanted, name


def test_a_run_records_what_its_values_were(x, tmp_path):
    ranges = record(tmp_path, x)
    assert (ranges["policy"], ranges["steps"]) == ("fp32", 5)
    compare(ranges, steps_of(x))


def test_a_bundle_records_when_it_was_compiled_so(x, tmp_path):
    model = write_model(tmp_path, ONE_WEIGHT, ["weight"], WEIGHT)
    for flags in [("--record", "ranges"), ()]:
        done = binade("compile", model, "--optimizer", "sgd", *flags, "-o",
                      tmp_path / "step.bnd")  # fmt: skip
        assert done.returncode == 0, done.stderr
        done = train(tmp_path, x, model=tmp_path / "step.bnd")
        if flags:
            assert done.returncode == 0, done.stderr
            compare(json.loads((tmp_path / "ranges.json").read_text()), steps_of(x))
    assert done.returncode == 2
    assert "compile it with --record ranges" in done.stderr


def test_gradients_are_recorded_as_if_the_loss_had_no_scale(x, tmp_path):
    policy = tmp_path / "scaled.yaml"
    policy.write_text("{name: p, narrow: f32, wide: f32, loss_scale: {init: 4096}}")
    plain = record(tmp_path, x)
    scaled = record(tmp_path, x, "--policy", policy, record="scaled.json")
    assert plain["values"] == scaled["values"]


def test_recording_changes_no_bit_of_the_run(x, tmp_path):
    record(tmp_path, x, lr=0.5)
    recorded = safetensors.load(tmp_path / "run" / "final.safetensors")
    done = binade("train", tmp_path / "model.onnx", "--data",
                  tmp_path / "data.safetensors", "--order", "sequential", "--steps", 5,
                  "--lr", 0.5, "--optimizer", "sgd", "--out", tmp_path / "plain")  # fmt: skip
    assert done.returncode == 0, done.stderr
    plain = safetensors.load(tmp_path / "plain" / "final.safetensors")
    assert plain.keys() == recorded.keys()
    for name, value in plain.items():
        np.testing.assert_array_equal(value, recorded[name])


def test_what_was_seen_is_kept_when_the_numbers_end_the_run(x, tmp_path):
    x[6] = np.inf
    done = train(tmp_path, x, "--optimizer", "sgd")
    assert done.returncode == 4, done.stderr
    assert json.loads((tmp_path / "ranges.json").read_text())["steps"] == 3


#
# Heeded by assignment.
#


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
    # Limits that nothing passes are as good as none.
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
    # The first value that does not fit gives the reason: here the result. The share
    # is that of numpy's own rounding.
    product = steps_of(x)[name]
    flushed = np.sum((product != 0) & (product.astype(F16) == 0)) / np.sum(product != 0)
    assert 0.01 < flushed < 0.5
    seen = op["evidence"][0]
    assert seen["underflow"] == flushed and seen["overflow"] == 0
    assert op["rule"].startswith(f"ranges.json: {100 * flushed:.3g}% of matmul")
    assert "underflows in f16, more than 1%" in op["rule"]
    # A limit above the share allows it again.
    policy = write_policy(tmp_path, f"evidence: {{underflow: {flushed + 0.3}}}")
    assert explain(tmp_path, policy, *ranges)[name]["format"] == "f16"
    # bf16 has the range.
    assert explain(tmp_path, "bf16-amp", *ranges)[name]["format"] == "bf16"


def test_a_value_that_overflows_is_kept_wide(x, tmp_path):
    x[9] = [60000, 60000, -60000, 1]
    record(tmp_path, x)
    ops = explain(tmp_path, "fp16-amp", "--ranges", tmp_path / "ranges.json")
    assert "overflows in f16, more than 0%" in ops["forward matmul hidden"]["rule"]
    product = steps_of(x)["forward matmul hidden"]
    with np.errstate(over="ignore"):
        share = np.mean(~np.isfinite(product.astype(F16)))
    seen = ops["forward matmul hidden"]["evidence"][0]
    assert 0 < seen["overflow"] <= share
    assert ops["forward matmul hidden"]["format"] == "f32"


def test_a_users_rule_goes_before_evidence(x, tmp_path):
    record(tmp_path, x)
    rule = "rules: [{match: {op: matmul, phase: forward}, class: allow}]"
    ops = explain(tmp_path, write_policy(tmp_path, rule), "--ranges",
                  tmp_path / "ranges.json")  # fmt: skip
    assert ops["forward matmul hidden"]["format"] == "f16"


def test_the_printed_change_overrules_the_evidence(x, tmp_path):
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
def test_a_cut_has_the_formats_that_fit_left(formats, chosen, reason, x, tmp_path):
    record(tmp_path, x)
    policy = tmp_path / "cut.yaml"
    policy.write_text(CUT.format(formats=formats))
    (tmp_path / "costs.yaml").write_text(COSTS)
    name = "forward matmul hidden"
    assert explain(tmp_path, policy)[name]["format"] == "f16"
    op = explain(tmp_path, policy, "--ranges", tmp_path / "ranges.json")[name]
    assert op["format"] == chosen
    assert "of matmul at 'hidden' underflows in f16, more than 1%" in op[reason]


def test_gradients_are_judged_at_the_scale_of_the_loss(tmp_path):
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


#
# What is wrong with a file.
#

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
def test_a_wrong_file_is_refused(text, tmp_path):
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


def test_a_record_has_a_kind(x, tmp_path):
    safetensors.save(tmp_path / "data.safetensors", {"x": x})
    done = binade("train", write_model(tmp_path, ONE_WEIGHT, ["weight"], WEIGHT), "--data",
                  tmp_path / "data.safetensors", "--steps", 1, "--out", tmp_path / "run",
                  "--record", "file.json")  # fmt: skip
    assert done.returncode == 2
    assert "--record expects ranges=FILE, got 'file.json'" in done.stderr
