"""Matmuls of quantized operands, forward and backward, compared with numpy, which quantizes by
Transformer Engine's rule for current scaling and multiplies in f64."""

import collections
import json

import ml_dtypes
import numpy as np
import pytest
from support.paths import ROOT
from support.quantized_products import (
    BACKENDS,
    IN,
    check,
    compute,
    draw,
    materialize,
    product,
    quantize,
    round_bias,
)
from support.reference import binade, evaluate

F32 = np.float32
E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2


@BACKENDS
@pytest.mark.parametrize("scale", [1.0, 1e-12, 1e6])
def test_a_scale_for_each_tensor(scale, backend):
    v = draw(1, scale)
    outputs = evaluate(materialize("fp8-current"), v, "--backend", backend)
    exact = compute(v, lambda x: quantize(x, E4M3), lambda x: quantize(x, E5M2))
    check(outputs, exact)
    # Matmuls of operands that are not quantized fail the check.
    plain = compute(v, lambda x: x.astype(float), lambda x: x.astype(float))
    for name in plain:
        with pytest.raises(AssertionError):
            check(outputs, {name: plain[name]})
    # A bias in f32 fails it, too.
    y = product(quantize(-v["x"], E4M3), quantize(v["w"], E4M3), v["b"])
    with pytest.raises(AssertionError):
        check(outputs, {"y": y})


@BACKENDS
def test_scales_that_are_powers_of_two(tmp_path, backend):
    (tmp_path / "e4.yaml").write_text(
        "summary: s\nelement: f8E4M3FN\nper: per_tensor\nrule: inverse_power\n"
    )
    policy = tmp_path / "p.yaml"
    policy.write_text(f"""\
name: p
extends: fp8-current
rules:
- match: {{ op: matmul, role: weight }}
  quantize: {{ activation: "{tmp_path}/e4.yaml", weight: "{tmp_path}/e4.yaml" }}
""")
    v = draw(2)
    outputs = evaluate(materialize(policy), v, "--backend", backend)
    bf16 = ml_dtypes.bfloat16
    check(outputs, compute(v, lambda x: quantize(x, E4M3, power=True),
                           lambda x: x.astype(bf16).astype(float)))  # fmt: skip


@BACKENDS
def test_gradients_in_e4m3(backend):
    v = draw(2)
    outputs = evaluate(materialize("fp8-lm"), v, "--backend", backend)
    check(outputs, compute(v, *[lambda x: quantize(x, E4M3, power=True)] * 2))


@BACKENDS
def test_zero_gradients_and_nan(backend):
    v = draw(3)
    v["g"][:] = 0
    outputs = evaluate(materialize("fp8-current"), v, "--backend", backend)
    np.testing.assert_array_equal(outputs["dx"], 0)
    np.testing.assert_array_equal(outputs["w"], 0)
    v = draw(4)
    v["x"][3, 5] = np.nan
    outputs = evaluate(materialize("fp8-current"), v, "--backend", backend)
    assert np.isnan(outputs["y"][3]).all() and np.isnan(outputs["w"][5]).all()
    assert not np.isnan(outputs["dx"]).any()


def test_the_last_layer_stays_in_bf16():
    v = draw(5)
    outputs = evaluate(materialize("fp8-current"), v)
    bf16 = ml_dtypes.bfloat16
    y = outputs["y"].astype(float)
    check(outputs, {"z": product(y, v["last"].astype(bf16).astype(float))})


SAVES = """
func.func @step(%x: tensor<3x40xf32> {binade.name = "x"}) -> (tensor<3x40xf32> {binade.name = "y"}, tensor<3x40xf32> {binade.name = "read"}) {
  %y = binade.exp %x : (tensor<3x40xf32>) -> tensor<3x40xf32>
  %kept = binade.save %y : (tensor<3x40xf32>) -> tensor<3x40xf32>
  %read = binade.neg %kept {binade.phase = #binade.phase<backward>} : (tensor<3x40xf32>) -> tensor<3x40xf32>
  return %y, %read : tensor<3x40xf32>, tensor<3x40xf32>
}
"""


@BACKENDS
def test_saved_values_are_quantized_by_groups(tmp_path, backend):
    """As in COAT, elements are divided by the f32 scale, which is then stored in bf16. Rows
    of 40 end in the middle of a group of 16."""
    policy = tmp_path / "p.yaml"
    policy.write_text("name: p\nnarrow: bf16\nwide: f32\nrules:\n"
                      "- { match: { op: exp }, saved: coat-group }\n")  # fmt: skip
    x = np.random.default_rng(6).standard_normal((3, 40)).astype(F32) * 3
    x[1, :16] = -np.inf  # exp of it is 0: a group of zeros
    outputs = evaluate(materialize(policy, SAVES), {"x": x}, "--backend", backend)
    wanted = []
    for begin in range(0, 120, 16):
        group = outputs["y"].ravel()[begin : begin + 16]
        scale = (np.abs(group).max() + F32(1e-10)) / F32(448)
        codes = np.clip(group / scale, -448, 448).astype(E4M3).astype(F32)
        wanted.append(codes * scale.astype(ml_dtypes.bfloat16).astype(F32))
    np.testing.assert_array_equal(-outputs["read"].ravel(), np.concatenate(wanted))
    assert (outputs["y"] != -outputs["read"]).mean() > 0.5


def round_down_to_power(x):
    """Rounds down to a power of two."""
    return (np.asarray(x, F32).view(np.uint32) & np.uint32(0xFF800000)).view(F32)


def block_factor(amax, rule):
    """The factor of a block's elements, by Transformer Engine's rule or that of MX."""
    if rule == "inverse_power":
        return round_down_to_power(F32(448) / amax)
    scale = amax * F32(1 / 448)
    power = round_down_to_power(scale)
    return F32(1) / (power * (F32(1) if power == scale else F32(2)))


def quantize_blocks(x, rows, columns, rule):
    values = np.zeros(x.shape)
    for i in range(0, x.shape[0], rows):
        for j in range(0, x.shape[1], columns):
            block = x[i : i + rows, j : j + columns]
            factor = block_factor(np.abs(block).max(), rule)
            codes = np.clip(block * factor, -448, 448).astype(E4M3)
            values[i : i + rows, j : j + columns] = codes.astype(float) / factor
    return values


@BACKENDS
@pytest.mark.parametrize("policy, size, rule, square", [
    ("fp8-block", 128, "inverse_power", True), ("mxfp8", 32, "round_up", False),
])  # fmt: skip
def test_blocks_along_the_reduction_axis(policy, size, rule, square, backend):
    """Elements share a scale along the axis that the matmul reduces, forward and backward.
    The blocks of fp8-block's weights are square."""
    v = draw(7, 1e-3)
    # Features of very different magnitude: with one scale, the small ones would become 0.
    v["x"] *= np.exp2(-(np.arange(IN) % 24)).astype(F32)
    outputs = evaluate(materialize(policy), v, "--backend", backend)

    def along(x, axis):
        extent = (size, 1) if axis == 0 else (1, size)
        return quantize_blocks(x, *extent, rule)

    def weight(x, axis):
        return quantize_blocks(x, size, size, rule) if square else along(x, axis)

    h, dy, w = -v["x"], -v["g"], v["w"]
    check(outputs, {"y": product(along(h, 1), weight(w, 0), round_bias(v["b"])),
                    "dx": product(along(dy, 1), weight(w, 1).T),
                    "w": product(along(h, 0).T, along(dy, 0))})  # fmt: skip
    with pytest.raises(AssertionError):
        check(outputs, {"w": product(along(h, 1).T, along(dy, 0))})


GPT = ROOT / "examples/char-gpt/mini.onnx"


def run_binade(*arguments):
    process = binade(*arguments)
    assert process.returncode == 0, process.stderr
    return process.stdout


def saved_bytes(policy, folder):
    """Bytes of values saved for backward by dtype, from the plan, if none is recomputed. Views
    of one buffer count once."""
    run_binade("compile", GPT, "--policy", policy, "--activation-memory", "100%",
               "-o", folder / f"{policy}.bnd")  # fmt: skip
    plan = json.loads(run_binade("inspect", folder / f"{policy}.bnd", "--json"))
    places = {}
    for buffer in plan["buffers"]:
        if buffer["category"] == "saved":
            place = buffer["offset"], buffer["bytes"]
            places.setdefault(place, buffer["dtype"])
    totals = collections.Counter()
    for (_, size), dtype in places.items():
        totals[dtype] += size
    return totals


def test_coat_saves_values_in_8_bits(tmp_path):
    plain = saved_bytes("bf16-amp", tmp_path)
    coat = saved_bytes("coat", tmp_path)
    assert not any(dtype.startswith("F8") for dtype in plain)
    assert coat["F8_E4M3"] > 0.5 * sum(coat.values())
    assert coat["F32"] < 0.05 * sum(coat.values()) < plain["F32"]
    assert sum(coat.values()) < 0.75 * sum(plain.values())


def test_explain_names_the_operands():
    text = run_binade("explain", GPT, "--policy", "fp8-current", "--op",
                      "blocks.0.mlp.2/Add")  # fmt: skip
    assert "operands f8E4M3FN per tensor x f8E4M3FN per tensor" in text
    assert "operands f8E5M2 per tensor x f8E4M3FN per tensor" in text
    assert "quantize gradient f8E5M2" in run_binade("policy", "show", "fp8-current")
