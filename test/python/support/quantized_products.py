"""A linear layer with quantized operands, forward and backward, and its results in numpy."""

import subprocess

import ml_dtypes
import numpy as np
import pytest
from support.paths import BUILD

F32 = np.float32
OPT = BUILD / "bin/binade-opt"
E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
BACKENDS = pytest.mark.parametrize("backend", ["reference", "cpu"])
ROWS, IN, OUT = 24, 48, 40


def build_step(rows=ROWS):
    """The layer for a batch of `rows`, over which the gradient of the weight sums. The gradient
    of the output is an argument, so that the test knows it; made by the backward part, as a
    gradient is."""
    return f"""
func.func @step(%x: tensor<{rows}x{IN}xf32> {{binade.name = "x", binade.role = #binade.role<batch>}},
                %g: tensor<{rows}x{OUT}xf32> {{binade.name = "g", binade.role = #binade.role<batch>}},
                %w: tensor<{IN}x{OUT}xf32> {{binade.name = "w", binade.role = #binade.role<parameter>}},
                %b: tensor<{OUT}xf32> {{binade.name = "b", binade.role = #binade.role<parameter>}},
                %l: tensor<{OUT}x1xf32> {{binade.name = "last", binade.role = #binade.role<parameter>}})
    -> (tensor<{rows}x{OUT}xf32> {{binade.name = "y"}}, tensor<{rows}x1xf32> {{binade.name = "z"}},
        tensor<{rows}x{IN}xf32> {{binade.name = "dx"}},
        tensor<{IN}x{OUT}xf32> {{binade.name = "w", binade.role = #binade.role<gradient>}}) {{
  %h = binade.neg %x : (tensor<{rows}x{IN}xf32>) -> tensor<{rows}x{IN}xf32>
  %kept = binade.save %h : (tensor<{rows}x{IN}xf32>) -> tensor<{rows}x{IN}xf32>
  %y = binade.matmul %h, %w, %b : (tensor<{rows}x{IN}xf32>, tensor<{IN}x{OUT}xf32>, tensor<{OUT}xf32>) -> tensor<{rows}x{OUT}xf32>
  %z = binade.matmul %y, %l : (tensor<{rows}x{OUT}xf32>, tensor<{OUT}x1xf32>) -> tensor<{rows}x1xf32>
  %dy = binade.neg %g {{binade.phase = #binade.phase<backward>}} : (tensor<{rows}x{OUT}xf32>) -> tensor<{rows}x{OUT}xf32>
  %dx = binade.matmul %dy, %w {{transpose_rhs, binade.phase = #binade.phase<backward>}}
    : (tensor<{rows}x{OUT}xf32>, tensor<{IN}x{OUT}xf32>) -> tensor<{rows}x{IN}xf32>
  %dw = binade.matmul %kept, %dy {{transpose_lhs, binade.phase = #binade.phase<backward>}}
    : (tensor<{rows}x{IN}xf32>, tensor<{rows}x{OUT}xf32>) -> tensor<{IN}x{OUT}xf32>
  return %y, %z, %dx, %dw : tensor<{rows}x{OUT}xf32>, tensor<{rows}x1xf32>, tensor<{rows}x{IN}xf32>, tensor<{IN}x{OUT}xf32>
}}
"""


STEP = build_step()


def materialize(policy, step=STEP):
    return subprocess.run(
        [OPT, f"--binade-assign-precision=policy={{{policy}}}",
         "--binade-materialize-precision"],
        input=step, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip


def return_also(module, values):
    """The module with `values`, pairs (name, type), as further results of its step."""
    names, types = (", ".join(part) for part in zip(*values))
    head, tail = module.rsplit("    return ", 1)
    results, rest = tail.split(" : ", 1)
    types_before, end = rest.split("\n", 1)
    begin = head.index(" -> (") + len(" -> (")
    return (
        f"{head[:begin]}{types}, {head[begin:]}    return {names}, {results} : "
        f"{types}, {types_before}\n{end}"
    )


def quantize(x, dtype, power=False):
    """Quantizes and dequantizes `x`; returns f64."""
    largest = F32(ml_dtypes.finfo(dtype).max)
    amax = np.abs(x).max()
    factor = largest / amax if np.isfinite(amax) and amax > 0 else F32(1)
    factor = np.minimum(factor, np.finfo(F32).max)
    if power:
        factor = (factor.view(np.uint32) & np.uint32(0xFF800000)).view(F32)
    codes = np.clip(x * factor, -largest, largest).astype(dtype)
    return codes.astype(np.float64) * (F32(1) / factor)


def draw(seed, scale=1.0, rows=ROWS):
    generator = np.random.default_rng(seed)
    shapes = {"x": (rows, IN), "g": (rows, OUT), "w": (IN, OUT), "b": (OUT,),
              "last": (OUT, 1)}  # fmt: skip
    values = {k: generator.standard_normal(s).astype(F32) for k, s in shapes.items()}
    values["g"] *= F32(scale)
    return values


def compute(v, read, gradient):
    """Results for operands that `read` rounds, and gradients that `gradient` rounds. The bias
    is rounded to the format of the result."""
    h, w, dy = read(-v["x"]), read(v["w"]), gradient(-v["g"])
    return {"y": product(h, w, round_bias(v["b"])), "dx": product(dy, w.T),
            "w": product(h.T, dy)}  # fmt: skip


def round_bias(bias):
    return bias.astype(ml_dtypes.bfloat16).astype(float)


def check(outputs, wanted):
    for name, (exact, size) in wanted.items():
        # Rounded once, to bf16; sums in f32 move what cancels.
        off = np.abs(outputs[name] - exact)
        assert (off <= 2.0**-8 * np.abs(exact) + 1e-6 * size).all(), name


def product(x, y, bias=0.0):
    """A matmul, and the sum of the magnitudes of its summands."""
    return x @ y + bias, np.abs(x) @ np.abs(y) + np.abs(bias)
