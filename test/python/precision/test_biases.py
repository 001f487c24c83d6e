"""`biases: narrow`: a contraction adds a rounded bias to its sum, as PyTorch's autocast does.

All operands have few bits, so that sums in f32 are exact in any order, and only the roundings of
the operands, of the bias and of the result determine the bits.
"""

import re
import subprocess

import ml_dtypes
import numpy as np
import pytest
from support.explanations import explain
from support.paths import BUILD, ROOT
from support.reference import binade, evaluate, tensor_type

MINI = ROOT / "examples/char-gpt/mini.onnx"
M, K, N = 24, 40, 56
NARROW = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}
LINEAR = "transpose_rhs"
CONV = (
    "strides = array<i64: 1, 1>, padding_low = array<i64: 0, 0>, padding_high = "
    "array<i64: 0, 0>, dilations = array<i64: 1, 1>, groups = 1"
)


def make_operands(op):
    draw = np.random.default_rng(7)
    x, w = (draw.integers(-8, 9, size) / 8 for size in ((M, K), (N, K)))
    # 0.0037 is not a multiple of the last bit of such numbers in f16 or bf16.
    bias = draw.integers(-8, 9, N) / 4 + draw.choice([-1, 1], N) * 0.0037
    x, w, bias = (value.astype(np.float32) for value in (x, w, bias))
    if op == "conv":
        # A position is a row: batch, channels, height, width.
        return (
            x.reshape(2, M // 2, K, 1).swapaxes(1, 2).copy(),
            w.reshape(N, K, 1, 1),
            bias,
        )
    return x, w, bias


def multiply(op, x, w, bias, dtype):
    """Rounds to `dtype` once, after the bias is added to the exact sum."""
    x, w = x.astype(np.float64), w.astype(np.float64)
    if op == "matmul":
        return (x @ w.T + bias).astype(np.float32).astype(dtype)
    y = np.einsum("nchw,oc->nohw", x, w[:, :, 0, 0]) + bias[:, None, None]
    return y.astype(np.float32).astype(dtype)


def write_policy(folder, narrow, biases="narrow"):
    path = folder / f"{biases}.yaml"
    path.write_text(f"{{name: p, narrow: {narrow}, wide: f32, biases: {biases}}}")
    return path


def compute(op, operands, shape, narrow, folder, backend):
    types = [tensor_type(value.shape, value.dtype) for value in operands]
    result, out = tensor_type(shape, "f32"), tensor_type(shape, narrow)
    module = f"""
func.func @step(%x: {types[0]}, %w: {types[1]}, %b: {types[2]}) -> {result} {{
  %y = binade.{op} %x, %w, %b {{{LINEAR if op == "matmul" else CONV}}}
    : ({", ".join(types)}) -> {result}
  return %y : {result}
}}"""
    assign = f"--binade-assign-precision=policy={write_policy(folder, narrow)}"
    rounded = subprocess.run(
        [BUILD / "bin" / "binade-opt", "-", assign, "--binade-materialize-precision"],
        input=module, capture_output=True, text=True, check=True, timeout=600,
    ).stdout  # fmt: skip
    assert f"tensor<{N}x{narrow}>) -> {out}" in rounded
    inputs = {f"arg{i}": value for i, value in enumerate(operands)}
    return evaluate(rounded, inputs, "--backend", backend)["result0"]


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("narrow", NARROW)
@pytest.mark.parametrize("op", ["matmul", "conv"])
def test_a_bias_is_rounded_before_it_is_added(op, narrow, backend, tmp_path):
    dtype = NARROW[narrow]
    x, w, bias = make_operands(op)
    expected = multiply(op, x, w, bias.astype(dtype).astype(np.float64), dtype)
    got = compute(op, (x, w, bias), expected.shape, narrow, tmp_path, backend)
    np.testing.assert_array_equal(got, expected.astype(np.float32))
    # With a bias in f32, other bits would result.
    assert (multiply(op, x, w, bias.astype(np.float64), dtype) != expected).any()


@pytest.mark.parametrize("op", ["matmul", "conv"])
def test_the_sum_is_that_of_pytorch_autocast(op, tmp_path):
    torch = pytest.importorskip("torch")
    x, w, bias = make_operands(op)
    run = {"matmul": torch.nn.functional.linear, "conv": torch.nn.functional.conv2d}[op]
    with torch.autocast("cpu", torch.bfloat16):
        expected = run(*map(torch.from_numpy, (x, w, bias)))
    assert expected.dtype == torch.bfloat16
    expected = expected.float().numpy()
    got = compute(op, (x, w, bias), expected.shape, "bf16", tmp_path, "cpu")
    np.testing.assert_array_equal(got, expected)


def test_reports_name_the_format(tmp_path):
    """`explain` shows it with each decision, `policy show` with the policy."""
    for biases, shown in (
        ("narrow", "bf16, sums f32, bias bf16"), ("wide", "bf16, sums f32")
    ):  # fmt: skip
        policy = write_policy(tmp_path, "bf16", biases)
        assert f"biases      {biases}\n" in binade("policy", "show", policy).stdout
        done = binade("explain", MINI, "--policy", policy, "--op", "blocks.0.mlp.0/Add")
        assert re.search(rf"^{shown} +matmul at ", done.stdout, re.MULTILINE), (
            done.stdout
        )
        decided = [
            op["operands"] for op in explain(MINI, policy)["ops"] if "operands" in op
        ]
        assert decided == [[None, None, "bf16"]] * len(decided)
        assert bool(decided) == (biases == "narrow")
