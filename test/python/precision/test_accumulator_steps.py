"""Steps whose policy models an accumulator, compared bit for bit with exact arithmetic."""

import ml_dtypes
import numpy as np
import pytest
from support import accumulation as model
from support.accumulation import E4M3, E5M2, F32
from support.paths import ROOT
from support.quantized_products import BACKENDS, build_step, draw, materialize
from support.reference import evaluate

BF16 = ml_dtypes.bfloat16
PAGE = (ROOT / "docs/Quantization.md").read_text()


def write_example(tmp_path):
    """The policy of the page."""
    text = PAGE.split("### Accumulators of GPUs")[1].split("```yaml\n")[1]
    policy = tmp_path / "hopper.yaml"
    policy.write_text(text.split("```")[0])
    return policy


def quantize(x, dtype):
    """Codes and scale by the rule `inverse`."""
    largest = F32(ml_dtypes.finfo(dtype).max)
    factor = largest / np.abs(x).max()
    return np.clip(x * factor, -largest, largest).astype(dtype), F32(1) / factor


def multiply(left, right, promote, bias=0):
    """Multiplies rows of both, as a matmul with a result in bf16."""
    (x, x_scale), (y, y_scale) = left, right
    totals = model.multiply(
        x, lambda *_: x_scale, y, lambda *_: y_scale, 14, 32, promote
    )
    return (totals + F32(bias)).astype(BF16).astype(F32)


def transpose(operand):
    return np.ascontiguousarray(operand[0].T), operand[1]


@BACKENDS
@pytest.mark.parametrize("policy", ["fp8-hopper", "example"])
def test_a_scale_for_each_tensor(policy, backend, tmp_path):
    rows = 200  # Sums of the gradient of the weight are promoted twice.
    v = draw(1, 1e-3, rows=rows)
    forward = 0 if policy == "fp8-hopper" else 128
    policy = write_example(tmp_path) if policy == "example" else policy
    outputs = evaluate(materialize(policy, build_step(rows)), v, "--backend", backend)
    h, w = quantize(-v["x"], E4M3), quantize(v["w"], E4M3)
    dy = quantize(-v["g"], E5M2)
    bias = v["b"].astype(BF16).astype(F32)
    wanted = {
        "y": multiply(h, transpose(w), forward, bias),
        "dx": multiply(dy, w, 128),
        "w": multiply(transpose(h), transpose(dy), 128),
    }
    for name, value in wanted.items():
        np.testing.assert_array_equal(outputs[name].astype(F32), value, name)
    plain = evaluate(materialize("fp8-current", build_step(rows)), v)
    assert any((plain[name] != outputs[name]).any() for name in wanted)


def quantize_blocks(x, rows, columns):
    """Codes, and the scales of blocks: powers of two by the rule `inverse_power`."""
    codes, shape = (
        np.zeros(x.shape, E4M3),
        [-(-n // b) for n, b in zip(x.shape, (rows, columns))],
    )
    scales = np.zeros(shape, F32)
    for i, j in np.ndindex(*shape):
        part = (slice(i * rows, (i + 1) * rows), slice(j * columns, (j + 1) * columns))
        factor = F32(448) / np.abs(x[part]).max()
        factor = np.exp2(np.floor(np.log2(factor))).astype(F32)
        codes[part] = np.clip(x[part] * factor, -448, 448).astype(E4M3)
        scales[i, j] = 1 / factor
    return codes, scales


@BACKENDS
def test_a_scale_for_each_block(backend):
    rows = 140
    v = draw(2, rows=rows)
    outputs = evaluate(
        materialize("fp8-block-hopper", build_step(rows)), v, "--backend", backend
    )

    def product(left, left_rows, right, right_rows, bias=0):
        (x, x_scales), (y, y_scales) = left, right
        totals = model.multiply(
            x, lambda i, b: x_scales[i // left_rows, b],
            y, lambda j, b: y_scales[j // right_rows, b], 14, 32, 128, 128,
        )  # fmt: skip
        return (totals + F32(bias)).astype(BF16).astype(F32)

    h, w, dy = -v["x"], v["w"], -v["g"]
    bias = v["b"].astype(BF16).astype(F32)
    wanted = {
        "y": product(quantize_blocks(h, 1, 128), 1, quantize_blocks(w.T, 128, 128), 128, bias),
        "dx": product(quantize_blocks(dy, 1, 128), 1, quantize_blocks(w, 128, 128), 128),
        "w": product(quantize_blocks(h.T, 1, 128), 1, quantize_blocks(dy.T, 1, 128), 1),
    }  # fmt: skip
    for name, value in wanted.items():
        np.testing.assert_array_equal(outputs[name].astype(F32), value, name)


ROWWISE = """\
name: rows
extends: fp8-current
rules:
- match: { op: matmul, role: weight }
  quantize:
    fprop: { activation: e4m3-row, weight: e4m3-row }
    dgrad: { gradient: e4m3-row, weight: e4m3-tensor }
  accumulate: { bits: 14, promote: 32 }
- match: { op: matmul, role: weight, layer: last }
  class: allow
"""


@BACKENDS
def test_a_scale_for_each_row(backend, tmp_path):
    (tmp_path / "rows.yaml").write_text(ROWWISE)
    v = draw(3)
    module = materialize(tmp_path / "rows.yaml")
    # The gradient of the weight is not quantized, and the last layer is bf16.
    assert module.count("binade.scaled_matmul") == 2
    outputs = evaluate(module, v, "--backend", backend)
    exact = {"y": -v["x"] @ v["w"] + v["b"], "dx": -v["g"] @ v["w"].T}
    for name, value in exact.items():
        error = np.abs(outputs[name] - value).max() / np.abs(value).max()
        assert error < 0.05, name
    assert (evaluate(module, v)["y"] == outputs["y"]).all()
