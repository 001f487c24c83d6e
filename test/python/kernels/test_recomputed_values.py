"""A GPU's backward pass computes saved values again, with the same bits."""

import subprocess

import ml_dtypes
import numpy as np
import pytest
from support.paths import BUILD
from support.reference import evaluate

ROWS, WIDE, HIDDEN = 24, 48, 64
BACK = "binade.phase = #binade.phase<backward>"
X, XB = f"tensor<2x12x{WIDE}xf32>", f"tensor<2x12x{WIDE}xbf16>"
F, FB = f"tensor<{ROWS}x{WIDE}xf32>", f"tensor<{ROWS}x{WIDE}xbf16>"
HB, H3 = f"tensor<{ROWS}x{HIDDEN}xbf16>", f"tensor<2x12x{HIDDEN}xbf16>"
S, V, W = "tensor<2x12xf32>", f"tensor<{WIDE}xf32>", f"tensor<{HIDDEN}x{WIDE}xbf16>"


def write_step(norm):
    """A norm and a feed-forward network with two branches, and their gradients."""
    kinds = {"layer_norm": ("%y, %mean, %rstd", f"{X}, {S}, {S}", ", %bias", f", {V}"),
             "rms_norm": ("%y, %rstd", f"{X}, {S}", "", "")}  # fmt: skip
    results, types, bias, bias_type = kinds[norm]
    statistics = ["%mean", "%rstd"] if norm == "layer_norm" else ["%rstd"]
    saves = "\n".join(f"{s}_s = binade.save {s} : ({S}) -> {S}" for s in statistics)
    order = ", ".join(f"{s}_s" for s in reversed(statistics))
    of_rows = ", ".join([S] * len(statistics))
    return f"""
    module attributes {{binade.target = #binade.target<"cuda:sm_90", piece = 16777216>}} {{
    func.func @step(%r: {X}, %scale: {V}, %bias: {V}, %w: {W}, %u: {W}, %d: {FB})
        -> ({FB}, tensor<{HIDDEN}x{WIDE}xbf16>, tensor<{WIDE}x{HIDDEN}xbf16>, {X}) {{
      {results} = binade.{norm} %r, %scale{bias} {{epsilon = 1.0e-5}}
        : ({X}, {V}{bias_type}) -> ({types})
      {saves}
      %c = binade.cast %y : ({X}) -> {XB}
      %c2 = binade.reshape %c : ({XB}) -> {FB}
      %c_s = binade.save %c2 : ({FB}) -> {FB}
      %h = binade.matmul %c2, %w {{transpose_rhs}} : ({FB}, {W}) -> {HB}
      %h3 = binade.reshape %h : ({HB}) -> {H3}
      %h_s = binade.save %h3 : ({H3}) -> {H3}
      %v = binade.matmul %c2, %u {{transpose_rhs}} : ({FB}, {W}) -> {HB}
      %v3 = binade.reshape %v : ({HB}) -> {H3}
      %v_s = binade.save %v3 : ({H3}) -> {H3}
      %g = binade.gelu %h3 : ({H3}) -> {H3}
      %g_s = binade.save %g : ({H3}) -> {H3}
      %m = binade.mul %g, %v3 : ({H3}, {H3}) -> {H3}
      %m2 = binade.reshape %m : ({H3}) -> {HB}
      %m_s = binade.save %m2 : ({HB}) -> {HB}
      %out = binade.matmul %m2, %w : ({HB}, {W}) -> {FB}
      %dm = binade.matmul %d, %w {{{BACK}, transpose_rhs}} : ({FB}, {W}) -> {HB}
      %dw = binade.matmul %m_s, %d {{{BACK}, transpose_lhs}}
        : ({HB}, {FB}) -> tensor<{HIDDEN}x{WIDE}xbf16>
      %dm3 = binade.reshape %dm {{{BACK}}} : ({HB}) -> {H3}
      %dv = binade.mul %dm3, %g_s {{{BACK}}} : ({H3}, {H3}) -> {H3}
      %dg = binade.mul %dm3, %v_s {{{BACK}}} : ({H3}, {H3}) -> {H3}
      %dh = binade.gelu_grad %dg, %h_s {{{BACK}}} : ({H3}, {H3}) -> {H3}
      %dsum = binade.add %dh, %dv {{{BACK}}} : ({H3}, {H3}) -> {H3}
      %dh2 = binade.reshape %dsum {{{BACK}}} : ({H3}) -> {HB}
      %du = binade.matmul %c_s, %dh2 {{{BACK}, transpose_lhs}}
        : ({FB}, {HB}) -> tensor<{WIDE}x{HIDDEN}xbf16>
      %dc = binade.matmul %dh2, %w {{{BACK}}} : ({HB}, {W}) -> {FB}
      %dc3 = binade.reshape %dc {{{BACK}}} : ({FB}) -> {XB}
      %dy = binade.cast %dc3 {{{BACK}}} : ({XB}) -> {X}
      %dr = binade.{norm}_grad %dy, %r, %scale, {order} {{{BACK}}}
        : ({X}, {X}, {V}, {of_rows}) -> {X}
      return %out, %dw, %du, %dr
        : {FB}, tensor<{HIDDEN}x{WIDE}xbf16>, tensor<{WIDE}x{HIDDEN}xbf16>, {X}
    }}
    }}"""


def recompute(module):
    return subprocess.run(
        [BUILD / "bin/binade-opt", "-", "--binade-recompute-by-costs=min-bytes=0"],
        input=module, capture_output=True, text=True, check=True, timeout=600,
    ).stdout  # fmt: skip


def draw(generator, *shape):
    return generator.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("backend", ["simulator", "cpu"])
@pytest.mark.parametrize("norm", ["layer_norm", "rms_norm"])
def test_recomputed_values_have_the_same_bits(norm, backend):
    module = write_step(norm)
    again = recompute(module)
    generator = np.random.default_rng(7)
    inputs = {"arg0": draw(generator, 2, 12, WIDE), "arg1": draw(generator, WIDE),
              "arg2": draw(generator, WIDE)}  # fmt: skip
    for index, rows in ((3, HIDDEN), (4, HIDDEN), (5, ROWS)):
        inputs[f"arg{index}"] = draw(generator, rows, WIDE).astype(ml_dtypes.bfloat16)
    # The results of the norm, of the function and of the product are not saved.
    assert again.count("binade.save %") == module.count("binade.save %") - 3
    before = evaluate(module, inputs, "--backend", backend)
    after = evaluate(again, inputs, "--backend", backend)
    for index in range(4):
        result = f"result{index}"
        assert before[result].tobytes() == after[result].tobytes(), result
        assert np.isfinite(before[result].astype(np.float32)).all()
