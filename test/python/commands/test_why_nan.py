"""`binade why-nan` finds the first value that is not finite, and a policy that avoids it."""

import json
import re

import numpy as np
import pytest
from support.paths import BUILD
from support.reference import binade, safetensors
from support.traced_models import F16, F32, F64, TWO_LAYERS, train, write

pytest.importorskip("onnx")
pytestmark = pytest.mark.skipif(
    not (BUILD / "bin/binade-why-nan").exists(), reason="the tools are not built"
)
RANDOM = np.random.default_rng(11)
X = RANDOM.standard_normal((40, 8)).astype(F32)
FIRST = RANDOM.standard_normal((8, 8)).astype(F32)
PLAIN = "name: plain\nnarrow: f16\nwide: f32\n"
QUOTIENT = """
<ir_version: 10, opset_import: ["" : 18]>
g (float[4, 8] x) => (float loss) <float[8, 8] first = {FIRST}, float scale = {SCALE}> {
  [up] hidden = MatMul(x, first)
  [scaling] small = Mul(x, scale)
  [squaring] squares = Mul(small, small)
  [dividing] quotient = Div(hidden, squares)
  [mean] loss = ReduceMean <keepdims = 0> (quotient)
}
"""


def why(run, *more):
    process = binade("why-nan", run, "--json", *more)
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "plain.yaml").write_text(PLAIN)
    return tmp_path


def f16(x):
    with np.errstate(over="ignore"):
        return np.asarray(x, F64).astype(F16).astype(F64)


def test_an_overflowing_weight_is_found(folder):
    """One layer overflows in f16, on the batch of step 7, after a checkpoint."""
    second = 5 * RANDOM.standard_normal((8, 8)).astype(F32)
    x = X.copy()
    x[24:28] *= 2000
    write(folder, TWO_LAYERS, x, first=FIRST, second=second)
    run = train(folder, folder / "run", "plain.yaml", "--save-every", 2, steps=10, lr=0,
                code=4, cwd=folder)  # fmt: skip
    report = why(run)
    assert report["step"] == 7 and report["other_steps"] == []
    origin = report["origin"]
    assert (origin["kind"], origin["node"], origin["phase"]) == (
        "matmul",
        "down",
        "forward",
    )
    assert (origin["format"], origin["limit"]) == ("f16", 65504)
    kept = np.maximum(f16(f16(x[24:28]) @ f16(FIRST)), 0)
    product = kept @ f16(second)
    assert origin["nonfinite"] == np.sum(np.isinf(f16(product))) > 0
    assert origin["exact"] == pytest.approx(np.max(np.abs(product)), rel=1e-12)
    assert origin["rule"] == "class allow"
    assert {op["node"] for op in origin["readers"]} == {"square"}
    read = {value["node"]: value["largest"] for value in origin["operands"]}
    assert read["second"] == np.max(np.abs(f16(second)))
    assert [op["node"] for op in origin["producers"]][:3] == ["act", "up", "x"]
    assert report["finite"] and {"match": {"name": "down"}, "class": "deny"} in [
        rule | {"match": {"name": rule["match"]["name"]}} for rule in report["rules"]
    ]


def test_the_written_policy_avoids_the_overflow(folder):
    second = 400 * RANDOM.standard_normal((8, 8)).astype(F32)
    write(folder, TWO_LAYERS, 60 * X, first=FIRST, second=second)
    run = train(folder, folder / "run", "plain.yaml", steps=3, lr=0, code=4, cwd=folder)
    process = binade("why-nan", run, "-o", folder / "fixed.yaml")
    assert process.returncode == 0, process.stderr
    assert "with this policy the step is finite (tried: loss " in process.stdout
    text = (folder / "fixed.yaml").read_text()
    assert "name: fixed\nextends: plain.yaml\n" in text and "down" in text
    assert "{name: up}" not in text and "{name: up, phase: forward}" not in text
    train(folder, folder / "again", folder / "fixed.yaml", steps=3, lr=0)


def test_an_overflowing_gradient_is_found(folder):
    """A constant loss scale makes a gradient overflow; the forward pass is finite."""
    second = RANDOM.standard_normal((8, 8)).astype(F32)
    write(folder, TWO_LAYERS, X, first=FIRST, second=second)
    (folder / "scaled.yaml").write_text(PLAIN.replace("plain", "scaled") +
                                        "loss_scale: { init: 65536.0 }\n")  # fmt: skip
    run = train(folder, folder / "run", folder / "scaled.yaml")
    report = why(run)
    assert report["step"] == 1 and np.isfinite(report["loss"])
    origin = report["origin"]
    assert origin["phase"] == "backward" and origin["format"] == "f16"
    kept = np.maximum(f16(f16(X[:4]) @ f16(FIRST)), 0)
    product = f16(kept @ f16(second))
    dy = 2 * f16(f16(65536 / 32) * product)
    expected = {
        "scaled": f16(dy), "weight": f16(kept.T @ dy), "input": f16(dy @ f16(second).T),
    }  # fmt: skip
    bad = {name: int(np.sum(~np.isfinite(value))) for name, value in expected.items()}
    assert bad["scaled"] == 0 < bad["weight"]
    assert origin["node"] == "down" and origin["nonfinite"] in (
        bad["weight"],
        bad["input"],
    )
    text = binade("why-nan", run).stdout
    assert "loss scale 65536, skipped" in text
    assert "occasional skipped steps are part of dynamic loss scaling" in text


def test_an_underflowing_divisor_is_found(folder):
    """The square underflows to 0 in f16: it is the cause, not the division."""
    x = np.abs(X) + 1
    write(folder, QUOTIENT, x, first=FIRST, scale=np.float32(1e-4))
    (folder / "plain.yaml").write_text(
        PLAIN + "rules:\n- { match: { op: mul, phase: forward }, class: allow }\n"
    )
    run = train(folder, folder / "run", "plain.yaml", lr=0, code=4, cwd=folder)
    report = why(run)
    origin = report["origin"]
    assert origin["node"] == "dividing" and origin["exact"] is None
    squares = next(v for v in origin["operands"] if v["node"] == "squaring")
    small = f16(x[:4] * np.float32(1e-4).astype(F64))
    assert squares["zeros"] == np.sum(f16(f16(small) * f16(small)) == 0) > 0
    blamed = [rule["match"]["name"] for rule in report["rules"]]
    assert "squaring" in blamed and report["finite"]


LOGARITHM = """
<ir_version: 10, opset_import: ["" : 18]>
g (float[4, 8] x) => (float loss) <float[8, 8] first = {FIRST}, float eps = {1e-8}> {
  [up] hidden = MatMul(x, first)
  [act] kept = Relu(hidden)
  [shift] shifted = Add(kept, eps)
  [log] logarithm = Log(shifted)
  [mean] loss = ReduceMean <keepdims = 0> (logarithm)
}
"""


@pytest.mark.parametrize("scale", ["", "loss_scale: { init: 1024.0 }\n"])
def test_the_forward_pass_is_blamed_first(scale, folder):
    """1e-8 is 0 in f16: the logarithm and its gradient are infinite. The rule is for the op
    whose constant underflows, independent of the backward pass."""
    first = np.abs(FIRST)
    write(folder, LOGARITHM, -np.abs(X), first=first)
    (folder / "narrow.yaml").write_text(
        "name: narrow\nnarrow: f16\nwide: f32\n"
        "rules:\n- { match: { name: shift }, class: allow }\n" + scale
    )
    run = train(folder, folder / "run", "narrow.yaml", "--max-skipped", 3, steps=5, lr=0,
                code=4, cwd=folder)  # fmt: skip
    report = why(run)
    origin = report["origin"]
    assert (origin["node"], origin["phase"]) == ("log", "forward")
    assert origin["exact"] is None and report["loss"] is None
    assert [rule["match"]["name"] for rule in report["rules"]] == ["shift"]
    assert report["finite"]
    process = binade("why-nan", run, "-o", folder / "fixed.yaml")
    assert process.returncode == 0, process.stderr
    train(folder, folder / "again", folder / "fixed.yaml", steps=3, lr=0)


def test_a_division_by_zero_in_every_format(folder):
    """No policy avoids it, and none is written."""
    x = X.copy()
    x[0, 0] = 0
    write(folder, QUOTIENT, x, first=FIRST, scale=np.float32(1))
    run = train(folder, folder / "run", "fp32", code=4)
    process = binade("why-nan", run, "-o", folder / "fixed.yaml")
    assert process.returncode == 3 and not (folder / "fixed.yaml").exists()
    assert (
        "first not finite: 1 of 32 elements of div at 'dividing', in f32"
        in process.stdout
    )
    assert (
        "no policy helps: in f64 the loss of the step is not finite" in process.stdout
    )
    assert "not written, for no policy that helps was found" in process.stderr


def test_a_non_finite_batch_is_found(folder):
    x = X.copy()
    x[5, 3] = np.nan
    write(folder, TWO_LAYERS, x, first=FIRST, second=FIRST)
    run = train(folder, folder / "run", "fp32", steps=4, code=4)
    report = why(run)
    origin = report["origin"]
    assert (report["step"], origin["kind"], origin["node"]) == (2, "batch", "x")
    assert (origin["nonfinite"], origin["elements"]) == (1, 32)
    assert report["rules"] == []


def test_finite_steps_are_reported(folder):
    write(folder, TWO_LAYERS, X, first=FIRST, second=FIRST)
    run = train(folder, folder / "run", "fp32", steps=3)
    process = binade("why-nan", run)
    assert process.returncode == 3
    assert "all 3 steps are finite and none was skipped" in process.stderr
    process = binade("why-nan", run, "--step", 2)
    assert process.returncode == 0
    last = "every value of the step is finite, as the reference computes it"
    assert process.stdout.splitlines()[-1] == last
    process = binade("why-nan", run, "--step", 4)
    assert process.returncode == 3 and "has done steps 1 to 3, not 4" in process.stderr


def test_a_run_of_a_bundle_cannot_be_analyzed(folder):
    write(folder, TWO_LAYERS, X, first=FIRST, second=FIRST)
    step = folder / "step.bnd"
    binade("compile", folder / "model.onnx", "-o", step)
    process = binade("train", step, "--data", folder / "data.safetensors", "--steps", 2,
                     "--out", folder / "run")  # fmt: skip
    assert process.returncode == 0, process.stderr
    process = binade("why-nan", folder / "run", "--step", 2)
    assert process.returncode == 3 and "got a safetensors file" in process.stderr, (
        process.stderr
    )


def test_save_inputs_writes_what_the_step_reads(folder):
    """`--save-inputs` writes the state before the last step, and its batch."""
    write(folder, TWO_LAYERS, X, first=FIRST, second=FIRST)
    file = folder / "inputs.safetensors"
    run = train(folder, folder / "run", "fp32", "--save-inputs", file, "--save-every", 1,
                steps=5)  # fmt: skip
    inputs = safetensors.load(file)
    before = safetensors.load(run / "checkpoints/step-000004/state.safetensors")
    assert inputs["parameter/first"].tobytes() == before["first"].tobytes()
    np.testing.assert_array_equal(inputs["batch/x"], X[16:20])
    assert inputs["hyper/lr"] == 0.01


def test_parameters_that_diverged_are_reported(folder):
    """The first update makes the parameters so large that every later loss is useless."""
    write(folder, TWO_LAYERS, X, first=FIRST, second=FIRST)
    run = train(
        folder, folder / "run", "plain.yaml", steps=2, lr=100, code=4, cwd=folder
    )
    process = binade("why-nan", run)
    assert process.returncode == 0, process.stderr
    assert process.stdout.startswith("step 2: loss not finite")
    assert (
        "times the first one of the run: unless the batch is unusual" in process.stdout
    )
    assert re.search(r"tried: loss [0-9.]+e\+[0-9]+\)", process.stdout), process.stdout
