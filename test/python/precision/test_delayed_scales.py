"""Delayed scales: computed from the largest magnitudes of earlier steps (amax histories)."""

import json
import re
import subprocess

import ml_dtypes
import numpy as np
import pytest
from support.paths import ROOT
from support.quantized_products import (
    BACKENDS,
    E4M3,
    E5M2,
    OPT,
    STEP,
    check,
    compute,
    draw,
)
from support.reference import evaluate

F32 = np.float32
GOLDEN = json.loads((ROOT / "test/data/golden/fp8_scales.json").read_text())["cases"]
KINDS = {448.0: "f8E4M3FN", 57344.0: "f8E5M2"}


def delay(text, *passes):
    return subprocess.run(
        [OPT, *passes, "--binade-use-delayed-scaling"],
        input=text, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip


def find_buffers(module):
    """Maps the names of the amax buffers to their initial values."""
    found = re.findall(
        r"tensor<(\d*)x?f32> \{binade.init = dense<(.*?)> : [^}]*"
        r'binade.name = "(amax.*?)", binade.role = #binade.role<buffer>',
        module,
    )
    return {
        name: np.full([int(n) for n in [count] if n], float(value), F32)
        for count, value, name in found
    }


@BACKENDS
@pytest.mark.parametrize(
    "trace", GOLDEN["delayed"], ids=lambda t: f"{t['algo']}-{t['len']}-{t['fmax']:g}"
)
def test_scales_match_transformer_engine(trace, backend):
    """Transformer Engine's history has one more element, which is 0 between steps, and its
    `most_recent` is a history of one step. It keeps an infinity in its history; Binade
    stores 0 instead."""
    margin = f", margin = {trace['margin']}" if trace["margin"] else ""
    steps = 1 if trace["algo"] == "most_recent" else trace["len"]
    text = f"""
func.func @step(%x: tensor<2x4xf32> {{binade.name = "x", binade.role = #binade.role<batch>}})
    -> (tensor<f32> {{binade.name = "scale", binade.role = #binade.role<output>}}) {{
  %q:2 = binade.quantize %x {{saturate, format = #binade.quantized<{KINDS[trace["fmax"]]},
      per_tensor, scale = f32, rule = inverse, history = {steps}{margin}>}}
    : (tensor<2x4xf32>) -> (tensor<2x4x{KINDS[trace["fmax"]]}>, tensor<f32>)
  return %q#1 : tensor<f32>
}}
"""
    module = delay(text)
    state = find_buffers(module)
    assert len(state) == 1 + (steps > 1)
    factor = F32(1)  # By which the last step multiplied the elements.
    for amax, wanted in zip(trace["amax_seq"], trace["trace"]):
        x = np.zeros((2, 4), F32)
        x[1, 2] = -float(amax)
        outputs = evaluate(module, state | {"x": x}, "--backend", backend)
        np.testing.assert_array_equal(outputs["scale"], F32(1) / factor)
        state = {name: outputs[name] for name in state}
        factor = F32(wanted["scale"]["f"][0])
        history = [v for name, v in state.items() if name.startswith("amax_history")]
        if history:
            hist = np.array([float(v) for v in wanted["hist"]["f"]], F32)
            hist[np.isinf(hist)] = 0
            np.testing.assert_array_equal(history[0], hist[1:])


@pytest.mark.parametrize("backend", ["reference", "cpu", "simulator"])
@pytest.mark.parametrize("steps", [1, 2, 4])
@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_non_finite_values_do_not_freeze_a_scale(bad, steps, backend):
    """A step with such a value leaves the scale unchanged and enters 0 in the history."""
    module = delay(f"""
func.func @step(%x: tensor<6x32xf32> {{binade.name = "x", binade.role = #binade.role<batch>}})
    -> (tensor<f32> {{binade.name = "scale", binade.role = #binade.role<output>}}) {{
  %q:2 = binade.quantize %x {{saturate, format = #binade.quantized<f8E4M3FN, per_tensor,
      scale = f32, rule = inverse, history = {steps}>}}
    : (tensor<6x32xf32>) -> (tensor<6x32xf8E4M3FN>, tensor<f32>)
  return %q#1 : tensor<f32>
}}
""")
    state = find_buffers(module)
    amax, seen = F32(448), []
    for step, size in enumerate([2, 7, bad, 1.5, 3, bad, bad, 0.3, 0.1, 0.2]):
        x = draw(step)["x"][:6, :32]
        if not np.isfinite(size):
            x[5, 30] = -size
        else:
            x *= F32(size)
        outputs = evaluate(module, state | {"x": x}, "--backend", backend)
        assert outputs["scale"] == F32(1) / (F32(448) / amax)
        largest = np.abs(x).max()
        seen = [*seen, largest if np.isfinite(largest) else F32(0)][-steps:]
        if np.isfinite(largest):
            amax = max(seen)
        state = {name: outputs[name] for name in state}
        kept = {name.split("/")[0]: value for name, value in state.items()}
        assert kept["amax"] == amax
        if steps > 1:
            remembered = seen[1:] if len(seen) == steps else seen
            expected = np.zeros(steps - 1, F32)
            expected[len(expected) - len(remembered) :] = remembered
            np.testing.assert_array_equal(kept["amax_history"], expected)


class Scaled:
    """Quantizes by the largest magnitude of the last `steps` steps."""

    def __init__(self, dtype, steps, margin):
        self.dtype, self.steps = dtype, steps
        self.largest = F32(ml_dtypes.finfo(dtype).max)
        self.peak = self.largest * F32(0.5**margin)
        self.amax, self.seen = self.peak, []

    def read(self, x):
        factor = self.peak / self.amax
        codes = np.clip(x * factor, -self.largest, self.largest).astype(self.dtype)
        return codes.astype(np.float64) * (F32(1) / factor)

    def see(self, x):
        self.seen = [*self.seen, np.abs(x).max()][-self.steps :]
        self.amax = max(self.seen)


class Fading(Scaled):
    """Quantizes by a maximum over all steps that halves every `half_life` steps."""

    def __init__(self, dtype, half_life):
        super().__init__(dtype, 1, 0)
        self.factor, self.kept = F32(2.0 ** (-1 / half_life)), F32(0)

    def see(self, x):
        largest = max(np.abs(x).max(), self.kept * self.factor)
        if np.isfinite(largest):
            self.amax, self.kept = largest, largest


@BACKENDS
@pytest.mark.parametrize("half_life", [1, 3])
def test_magnitudes_fade(half_life, backend, tmp_path):
    """The second step contains an outlier and the fourth an infinity, which does not affect
    the scale of the fifth. Compares scales and the results of matmuls."""
    policy = tmp_path / "p.yaml"
    policy.write_text(
        f"name: p\nextends: fp8-delayed\namax_half_life: {half_life}\nrules:\n"
        "- { match: { op: matmul, role: weight, layer: last }, class: allow }\n"
    )
    module = delay(
        STEP, f"--binade-assign-precision=policy={{{policy}}}",
        "--binade-materialize-precision",
    )  # fmt: skip
    state = find_buffers(module)
    histories = [v for name, v in state.items() if name.startswith("amax_history/")]
    assert len(state) == 6 and {v.shape for v in histories} == {(1,)}
    h, w, dy = (Fading(dtype, half_life) for dtype in (E4M3, E4M3, E5M2))
    for step, size in enumerate([1.0, 1e4, 1.0, np.inf, 0.5, 0.5]):
        v = draw(step, 1.0)
        v["x"] = v["x"] * F32(size if np.isfinite(size) else 1)
        if not np.isfinite(size):
            v["x"][0, 0] = np.inf
        outputs = evaluate(module, state | v, "--backend", backend)
        if np.isfinite(size):
            reads = iter([h.read, w.read])
            check(outputs, compute(v, lambda x: next(reads)(x), dy.read))
        for scaled, x in [(h, -v["x"]), (w, v["w"]), (dy, -v["g"])]:
            scaled.see(x)
        state = {name: outputs[name] for name in state}
        forward = next(v for n, v in state.items() if n.startswith("amax/") and
                       "neg" in n and "backward" not in n)  # fmt: skip
        assert forward == h.amax


@BACKENDS
@pytest.mark.parametrize("margin", [0, 1])
def test_matmuls_over_several_steps(margin, backend, tmp_path):
    more = f"margin: {margin}\n" if margin else ""
    for kind, dtype in [("e4", "f8E4M3FN"), ("e5", "f8E5M2")]:
        (tmp_path / f"{kind}.yaml").write_text(
            f"summary: s\nelement: {dtype}\nper: per_tensor\nrule: inverse\nhistory: 3\n{more}"
        )
    policy = tmp_path / "p.yaml"
    policy.write_text(f"""\
name: p
extends: fp8-delayed
rules:
- match: {{ op: matmul, role: weight }}
  quantize: {{ activation: "{tmp_path}/e4.yaml", weight: "{tmp_path}/e4.yaml",
               gradient: "{tmp_path}/e5.yaml" }}
- match: {{ op: matmul, role: weight, layer: last }}
  class: allow
""")
    module = delay(
        STEP, f"--binade-assign-precision=policy={{{policy}}}",
        "--binade-materialize-precision",
    )  # fmt: skip
    state = find_buffers(module)
    assert len(state) == 6
    h, w, dy = (Scaled(dtype, 3, margin) for dtype in (E4M3, E4M3, E5M2))
    for step, size in enumerate([1.0, 30.0, 0.1, 0.2, 0.3, 0.1]):
        v = draw(step, size)
        v["x"] *= F32(size)
        outputs = evaluate(module, state | v, "--backend", backend)
        reads = iter([h.read, w.read])  # In the order of `compute`.
        check(outputs, compute(v, lambda x: next(reads)(x), dy.read))
        for scaled, x in [(h, -v["x"]), (w, v["w"]), (dy, -v["g"])]:
            scaled.see(x)
        state = {name: outputs[name] for name in state}


def test_a_tensor_with_nan_enters_zero_in_the_history():
    module = delay(
        STEP, "--binade-assign-precision=policy=fp8-delayed",
        "--binade-materialize-precision",
    )  # fmt: skip
    state = find_buffers(module)
    v = draw(1)
    v["x"][0, 0] = np.nan
    outputs = evaluate(module, state | v)
    assert np.isnan(outputs["y"][0]).all()
    own = {n: outputs[n] for n in state if n.startswith("amax_history") and "neg" in n}
    forward = next(v for n, v in own.items() if "backward" not in n)
    assert not forward.any()
    assert all(np.isfinite(v).all() for v in own.values())
