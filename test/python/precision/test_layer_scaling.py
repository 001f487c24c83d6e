"""Adaptive loss scaling: a gradient scale for each layer (arXiv 1910.12385), compared with
the rule in numpy."""

import json
import math

import numpy as np
import pytest
from support.paths import ROOT
from support.reference import F16, evaluate, opt

F32, F64 = np.float32, np.float64
UNDERFLOW, BOUND, GATHERED = 1e-3, 16.0, 1024.0
NARROW = "{name: p, narrow: f16, wide: f32"

# Three layers; the gradient of the output is the input `k` times the gradient seed.
STEP = """
func.func @step(
    %x: tensor<6x8xf32> {binade.role = #binade.role<batch>, binade.name = "x"},
    %k: tensor<6x4xf32> {binade.role = #binade.role<batch>, binade.name = "k"},
    %w1: tensor<8x16xf32> {binade.role = #binade.role<parameter>, binade.name = "w1"},
    %w2: tensor<16x16xf32> {binade.role = #binade.role<parameter>, binade.name = "w2"},
    %w3: tensor<16x4xf32> {binade.role = #binade.role<parameter>, binade.name = "w3"})
    -> (tensor<8x16xf32> {binade.role = #binade.role<gradient>, binade.name = "w1"},
        tensor<16x16xf32> {binade.role = #binade.role<gradient>, binade.name = "w2"},
        tensor<16x4xf32> {binade.role = #binade.role<gradient>, binade.name = "w3"}) {
  %h1 = binade.matmul %x, %w1 : (tensor<6x8xf32>, tensor<8x16xf32>) -> tensor<6x16xf32>
  %r1 = binade.relu %h1 : (tensor<6x16xf32>) -> tensor<6x16xf32>
  %h2 = binade.matmul %r1, %w2 : (tensor<6x16xf32>, tensor<16x16xf32>) -> tensor<6x16xf32>
  %r2 = binade.relu %h2 : (tensor<6x16xf32>) -> tensor<6x16xf32>
  %seed = binade.gradient_seed {binade.phase = #binade.phase<backward>} : () -> tensor<f32>
  %all = binade.broadcast %seed {axes = array<i64>, binade.phase = #binade.phase<backward>}
    : (tensor<f32>) -> tensor<6x4xf32>
  %dy = binade.mul %k, %all {binade.phase = #binade.phase<backward>}
    : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  %dw3 = binade.matmul %r2, %dy {transpose_lhs, binade.phase = #binade.phase<backward>}
    : (tensor<6x16xf32>, tensor<6x4xf32>) -> tensor<16x4xf32>
  %dr2 = binade.matmul %dy, %w3 {transpose_rhs, binade.phase = #binade.phase<backward>}
    : (tensor<6x4xf32>, tensor<16x4xf32>) -> tensor<6x16xf32> loc("third")
  JOIN
  %dh2 = binade.relu_grad %JOINED, %r2 {binade.phase = #binade.phase<backward>}
    : (tensor<6x16xf32>, tensor<6x16xf32>) -> tensor<6x16xf32>
  %dw2 = binade.matmul %r1, %dh2 {transpose_lhs, binade.phase = #binade.phase<backward>}
    : (tensor<6x16xf32>, tensor<6x16xf32>) -> tensor<16x16xf32>
  %dr1 = binade.matmul %dh2, %w2 {transpose_rhs, binade.phase = #binade.phase<backward>}
    : (tensor<6x16xf32>, tensor<16x16xf32>) -> tensor<6x16xf32> loc("second")
  %dh1 = binade.relu_grad %dr1, %r1 {binade.phase = #binade.phase<backward>}
    : (tensor<6x16xf32>, tensor<6x16xf32>) -> tensor<6x16xf32>
  %dw1 = binade.matmul %x, %dh1 {transpose_lhs, binade.phase = #binade.phase<backward>}
    : (tensor<6x8xf32>, tensor<6x16xf32>) -> tensor<8x16xf32>
  return %dw1, %dw2, %dw3 : tensor<8x16xf32>, tensor<16x16xf32>, tensor<16x4xf32>
}
"""
# A second path of the output's gradient, which bypasses the third layer.
JOIN = """%wide = binade.pad %dy {offsets = array<i64: 0, 6>, strides = array<i64: 1, 1>,
    binade.phase = #binade.phase<backward>} : (tensor<6x4xf32>) -> tensor<6x16xf32>
  %both = binade.add %dr2, %wide {binade.phase = #binade.phase<backward>}
    : (tensor<6x16xf32>, tensor<6x16xf32>) -> tensor<6x16xf32>"""


def make(folder, policy, joined=False, step=STEP):
    step = step.replace("%JOINED", "%both" if joined else "%dr2")
    (folder / "step.mlir").write_text(step.replace("JOIN", JOIN if joined else ""))
    (folder / "policy.yaml").write_text(policy)
    return opt(
        folder / "step.mlir",
        f"--binade-assign-pipeline=policy={{{folder / 'policy.yaml'}}}",
        "--binade-materialize-pipeline",
    ).stdout


def tensors(size):
    random = np.random.default_rng(4)
    shapes = {"x": (6, 8), "k": (6, 4), "w1": (8, 16), "w2": (16, 16), "w3": (16, 4)}
    values = {n: random.standard_normal(s).astype(F32) for n, s in shapes.items()}
    values["k"] *= F32(size)
    for name in ("w1", "w2", "w3"):
        values[name] *= F32(0.25)
    return values


def erfinv(p):
    low, high = 0.0, 6.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if math.erf(middle) < p else (low, middle)
    return high


def rule(g, w, fan, gathered, bound=BOUND, limit=GATHERED, underflow=UNDERFLOW):
    """The scale of a layer, as the authors' ada_loss/core.py computes it."""
    g, w = g.astype(F64), w.astype(F64)
    spread = math.sqrt((g.var() + g.mean() ** 2) * (w.var() + w.mean() ** 2))
    spread *= math.sqrt(0.5 * fan)
    if spread == 0:
        return 1.0
    z = math.sqrt(2) * erfinv(underflow)
    scale = max(1.0, 2.0**-24 / (z * spread))
    extremes = [a * b for a in (g.min(), g.max()) for b in (w.min(), w.max())]
    scale = min(scale, (65504 / fan) / max(map(abs, extremes)))
    scale = min(scale, limit / gathered, bound)
    return 2.0 ** math.floor(math.log2(scale))


def numpy_step(t, narrow, joined=False, **settings):
    """Gradients and scales. With `narrow`, values that the policy makes f16 are rounded."""
    wide = lambda x: x.astype(F32)
    half = (lambda x: x.astype(F16).astype(F32)) if narrow else (lambda x: x)

    def matmul(a, b):
        with np.errstate(over="ignore"):
            return half((half(a).astype(F64) @ half(b).astype(F64)).astype(F32))

    h1 = matmul(t["x"], t["w1"])
    h2 = matmul(np.maximum(h1, 0), t["w2"])
    dy = t["k"]
    third = rule(dy, t["w3"], 4, 1.0, **settings) if narrow else 1.0
    dr2, gathered = matmul(wide(dy * F32(third)), t["w3"].T), third
    if joined:
        dr2, gathered = dr2 / F32(third) + np.pad(dy, ((0, 0), (6, 6))), 1.0
    dh2 = np.where(h2 > 0, dr2, 0)
    second = rule(dh2, t["w2"], 16, gathered, **settings) if narrow else 1.0
    dh1 = np.where(h1 > 0, matmul(wide(dh2 * F32(second)), t["w2"].T), 0)
    return {
        "w3": matmul(np.maximum(h2, 0).T, dy),
        "w2": matmul(np.maximum(h1, 0).T, dh2) / F32(gathered),
        "w1": matmul(t["x"].T, dh1) / F32(gathered * second),
        "scale layer third": F32(third),
        "scale layer second": F32(second),
    }


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("size", [3e-8, 1e-6, 1e-2, 3e4])
def test_scales_and_gradients_match_the_rule(size, joined, backend, tmp_path):
    module = make(
        tmp_path, NARROW + ", loss_scale: {static: 1, per_layer: {}}}", joined
    )
    t = tensors(size)
    found = evaluate(module, t, "--backend", backend)
    expected = numpy_step(t, True, joined)
    for name, value in expected.items():
        if name.startswith("scale"):
            assert found[name] == value, (name, found[name], value)
        else:
            peak = np.max(np.abs(value[np.isfinite(value)]))
            np.testing.assert_allclose(found[name], value, rtol=2e-3, atol=2e-3 * peak)
    assert (expected["scale layer third"] > 1) == (size < 1e-5)


def test_gradients_that_would_underflow_are_kept(tmp_path):
    t = tensors(1e-7)
    exact = numpy_step(t, False)["w1"]
    errors = []
    for layers in ("", ", per_layer: {bound: 4096, gathered: 1048576}"):
        module = make(tmp_path, NARROW + f", loss_scale: {{static: 1{layers}}}}}")
        found = evaluate(module, t)["w1"]
        errors.append(np.linalg.norm(found - exact) / np.linalg.norm(exact))
    assert errors[0] > 0.2 and errors[1] < 0.02


def test_bounds_are_settings(tmp_path):
    settings = {"bound": 4.0, "limit": 8.0, "underflow": 0.01}
    module = make(
        tmp_path,
        NARROW + ", loss_scale: {static: 1, per_layer: {bound: 4, gathered: 8, "
        "underflow: 0.01}}}",
    )
    t = tensors(1e-8)
    found, expected = evaluate(module, t), numpy_step(t, True, **settings)
    scales = [found["scale layer third"], found["scale layer second"]]
    assert scales == [expected["scale layer third"], expected["scale layer second"]]
    assert scales == [4, 2]


LAYER = """
func.func @step(
    %g: tensor<8x16xf32> {binade.role = #binade.role<batch>, binade.name = "g"},
    %w: tensor<16x32xf32> {binade.role = #binade.role<parameter>, binade.name = "w"})
    -> (tensor<8x32xf32> {binade.role = #binade.role<output>, binade.name = "dx"}) {
  %seed = binade.gradient_seed {binade.phase = #binade.phase<backward>} : () -> tensor<f32>
  %all = binade.broadcast %seed {axes = array<i64>, binade.phase = #binade.phase<backward>}
    : (tensor<f32>) -> tensor<8x16xf32>
  %dy = binade.mul %g, %all {binade.phase = #binade.phase<backward>}
    : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  %dx = binade.matmul %dy, %w {binade.phase = #binade.phase<backward>}
    : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32> loc("own")
  return %dx : tensor<8x32xf32>
}
"""
RECORDED = json.loads((ROOT / "test/data/golden/misc.json").read_text())["cases"]


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize(
    "case", RECORDED["adaloss"], ids=lambda case: str(case["scale_pow2"])
)
def test_scales_match_recorded_ones(case, backend, tmp_path):
    """Recorded with the authors' code, without bounds."""
    layers = "per_layer: {bound: 65536, gathered: 1048576}"
    policy = NARROW + f", loss_scale: {{static: 1, {layers}}}}}"
    g, w = (
        np.array([int(x, 16) for x in case[name]["x"]], np.uint32)
        .view(F32)
        .reshape(case[f"{name}shape"])
        for name in "gW"
    )
    module = make(tmp_path, policy, step=LAYER)
    found = evaluate(module, {"g": g, "w": w}, "--backend", backend)
    assert found["scale layer own"] == case["scale_pow2"]


@pytest.mark.parametrize("value", [0, np.inf, np.nan])
def test_zero_and_non_finite_gradients_are_not_scaled(value, tmp_path):
    module = make(tmp_path, NARROW + ", loss_scale: {static: 1, per_layer: {}}}")
    t = tensors(1)
    t["k"][:] = value
    found = evaluate(module, t, "--backend", "cpu")
    assert found["scale layer third"] == 1
    assert (
        np.all(found["w3"] == 0) if value == 0 else not np.isfinite(found["w3"]).any()
    )


def test_materializing_twice_adds_no_second_scale(tmp_path):
    module = make(tmp_path, NARROW + ", loss_scale: {static: 1, per_layer: {}}}")
    (tmp_path / "once.mlir").write_text(module)
    again = opt(tmp_path / "once.mlir", "--binade-materialize-pipeline")
    assert again.stdout == module


def test_f32_needs_no_scale(tmp_path):
    policy = (
        "{name: p, narrow: f32, wide: f32, rules: [{match: {op: relu}, class: deny}]"
    )
    plain = make(tmp_path, policy + "}")
    scaled = make(tmp_path, policy + ", loss_scale: {static: 1, per_layer: {}}}")
    t = tensors(1e-6)
    one, other = evaluate(plain, t), evaluate(scaled, t)
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name])
    assert other["scale layer third"] == other["scale layer second"] == 1
