"""`binade interpret --backend cpu` compiles functions. Results are within the error bounds of the
reference."""

import subprocess

import numpy as np
import pytest
from support.paths import BUILD
from support.reference import BF16, F16, op_module, safetensors, tensor_type

RNG = np.random.default_rng(1)


def check(module, inputs, folder, *flags):
    """Compares compiled code with the reference; returns the process."""
    (folder / "module.mlir").write_text(module)
    safetensors.save(folder / "in.safetensors", inputs)
    return subprocess.run(
        [BUILD / "bin" / "binade", "interpret", folder / "module.mlir", "--inputs",
         folder / "in.safetensors", "--backend", "cpu", "--check", *flags],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip


def normal(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


OPS = {
    "gelu": ([normal(7, 33)], [((7, 33), "f32")], ""),
    "add": ([normal(5, dtype=BF16), normal(5, dtype=BF16)], [((5,), "bf16")], ""),
    "neg": ([np.float32(3)], [((), "f32")], ""),
    "reduce_sum": ([normal(3, 70)], [((3,), "f32")], "axes = array<i64: 1>"),
    "transpose": (
        [normal(4, 5, 6, dtype=F16)],
        [((6, 4, 5), "f16")],
        "permutation = array<i64: 2, 0, 1>",
    ),
    "matmul": ([normal(2, 9, 17), normal(2, 17, 5)], [((2, 9, 5), "f32")], ""),
    "gather": (
        [normal(11, 6), RNG.integers(0, 11, (2, 3))],
        [((2, 3, 6), "f32")],
        "",
    ),
}


@pytest.mark.parametrize("op", OPS)
def test_single_ops(op, tmp_path):
    operands, results, attributes = OPS[op]
    module = op_module(op, operands, results, attributes)
    inputs = {f"arg{i}": array for i, array in enumerate(operands)}
    process = check(module, inputs, tmp_path)
    assert process.returncode == 0, process.stdout + process.stderr
    assert "of the bound" in process.stdout


@pytest.mark.parametrize("columns", [2, 8, 64])
def test_sums_of_many_rows_are_exact(columns, tmp_path):
    """As exact as PyTorch's for all axes. Adding 8192 elements in order would have an
    error of 1e-5."""
    rows = RNG.random((8192, columns), np.float32)
    module = op_module(
        "reduce_sum", [rows], [((columns,), "f32")], "axes = array<i64: 0>"
    )
    (tmp_path / "module.mlir").write_text(module)
    safetensors.save(tmp_path / "in.safetensors", {"arg0": rows})
    subprocess.run(
        [BUILD / "bin" / "binade", "interpret", tmp_path / "module.mlir", "--inputs",
         tmp_path / "in.safetensors", "--backend", "cpu", "--out",
         tmp_path / "out.safetensors"],
        check=True, timeout=600,
    )  # fmt: skip
    (found,) = safetensors.load(tmp_path / "out.safetensors").values()
    np.testing.assert_allclose(found, rows.sum(axis=0, dtype=np.float64), rtol=4e-7)


def attention_module(shape, dtype, attributes, key_shape=None):
    tensor, lse = tensor_type(shape, dtype), tensor_type(shape[:-1], "f32")
    keys = tensor_type(key_shape or shape, dtype)
    three = ", ".join([tensor, keys, keys])
    return f"""
func.func @f(%q: {tensor}, %k: {keys}, %v: {keys}, %d: {tensor})
    -> ({tensor}, {lse}, {three}) {{
  %y, %l = binade.attention %q, %k, %v {{{attributes}}} : ({three}) -> ({tensor}, {lse})
  %g:3 = binade.attention_grad %d, %q, %k, %v, %y, %l {{{attributes}}}
    : ({", ".join([tensor, three, tensor])}, {lse}) -> ({three})
  return %y, %l, %g#0, %g#1, %g#2 : {tensor}, {lse}, {three}
}}
"""


# Tiles of all heads, of a few heads, and of some queries of one head.
@pytest.mark.parametrize(
    "shape",
    [(2, 3, 20, 8), (3, 2, 256, 4), (2, 640, 4), (1, 1, 512, 4), (9, 2, 24, 4)],
    ids=str,
)
@pytest.mark.parametrize("causal", ["", ", causal"])
@pytest.mark.parametrize("dtype", [np.float32, BF16], ids=["f32", "bf16"])
def test_attention_in_tiles(shape, causal, dtype, tmp_path):
    module = attention_module(shape, dtype, "scale = 0.5" + causal)
    inputs = {f"arg{i}": normal(*shape, dtype=dtype) for i in range(4)}
    process = check(module, inputs, tmp_path)
    assert process.returncode == 0, process.stdout + process.stderr


# Tiles of all samples, of one sample, and of some queries of one head.
@pytest.mark.parametrize(
    "shape", [(3, 20, 8), (2, 3, 24, 4), (9, 2, 3, 24, 4), (1, 2, 512, 4)], ids=str
)
@pytest.mark.parametrize("dtype", [np.float32, BF16], ids=["f32", "bf16"])
def test_heads_share_keys(shape, dtype, tmp_path):
    keys = (*shape[:-3], 1, *shape[-2:])
    module = attention_module(shape, dtype, "scale = 0.5, causal", keys)
    shapes = (shape, keys, keys, shape)
    inputs = {f"arg{i}": normal(*x, dtype=dtype) for i, x in enumerate(shapes)}
    process = check(module, inputs, tmp_path)
    assert process.returncode == 0, process.stdout + process.stderr


def test_scores_are_not_stored_as_a_whole(tmp_path):
    """No buffer of the plan contains all attention scores of a long sequence."""
    module = attention_module((2, 2048, 4), np.float32, "scale = 1.0")
    (tmp_path / "f.mlir").write_text(module.replace("@f", "@step"))
    process = subprocess.run(
        [BUILD / "bin" / "binade", "compile", tmp_path / "f.mlir", "--from",
         "materialize", "--to", "plan", "-o", tmp_path / "plan.json"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    import json

    plan = json.loads((tmp_path / "plan.json").read_text())
    largest = max(buffer["bytes"] for buffer in plan["buffers"])
    scores = 4 * 2 * 2048 * 2048
    assert 4 * 2 * 2048 * 4 <= largest <= scores // 8


def test_a_tile_yields_what_it_has_already(tmp_path):
    """Two views of one value, an operand's piece, a whole operand, a constant."""
    module = """
func.func @f(%x: tensor<8x6xf32>, %w: tensor<5xf32>)
    -> (tensor<8x6xf32>, tensor<24x2xf32>, tensor<8x3x2xf32>, tensor<20xf32>, tensor<8xf32>) {
  %r:5 = binade.tile 4 slices 1 joins 5 (%x, %w) {
  ^bb0(%piece: tensor<2x6xf32>, %all: tensor<5xf32>):
    %e = binade.exp %piece : (tensor<2x6xf32>) -> tensor<2x6xf32>
    %v = binade.reshape %e : (tensor<2x6xf32>) -> tensor<6x2xf32>
    %p = binade.reshape %piece : (tensor<2x6xf32>) -> tensor<2x3x2xf32>
    %c = binade.constant dense<[1.0, 2.0]> : tensor<2xf32>
    binade.yield %e, %v, %p, %all, %c
      : tensor<2x6xf32>, tensor<6x2xf32>, tensor<2x3x2xf32>, tensor<5xf32>, tensor<2xf32>
  } : (tensor<8x6xf32>, tensor<5xf32>)
    -> (tensor<8x6xf32>, tensor<24x2xf32>, tensor<8x3x2xf32>, tensor<20xf32>, tensor<8xf32>)
  return %r#0, %r#1, %r#2, %r#3, %r#4
    : tensor<8x6xf32>, tensor<24x2xf32>, tensor<8x3x2xf32>, tensor<20xf32>, tensor<8xf32>
}
"""
    x, w = normal(8, 6), normal(5)
    out = tmp_path / "out.safetensors"
    process = check(module, {"arg0": x, "arg1": w}, tmp_path, "--out", out)
    assert process.returncode == 0, process.stdout + process.stderr
    found = safetensors.load(out)
    np.testing.assert_array_equal(found["result1"], found["result0"].reshape(24, 2))
    np.testing.assert_array_equal(found["result2"], x.reshape(8, 3, 2))
    np.testing.assert_array_equal(found["result3"], np.tile(w, 4))
    np.testing.assert_array_equal(found["result4"], np.tile(np.float32([1, 2]), 4))


def test_a_tile_with_a_remainder(tmp_path):
    """Pieces of rows, a copied constant, and sums, of 11 rows in three pieces of 3 and one of 2."""
    module = """
func.func @f(%x: tensor<11x4xf32>, %y: tensor<22xf32>)
    -> (tensor<11x4xf32>, tensor<11xf32>, tensor<22xf32>, tensor<4x4xf32>) {
  %r:4 = binade.tile 3 of 3 remainder 2 slices 2 joins 3 (%x, %y) {
  ^bb0(%piece: tensor<3x4xf32>, %other: tensor<6xf32>):
    %n = binade.neg %piece : (tensor<3x4xf32>) -> tensor<3x4xf32>
    %c = binade.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
    %s = binade.matmul %piece, %piece {transpose_lhs}
      : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<4x4xf32>
    binade.yield %n, %c, %other, %s
      : tensor<3x4xf32>, tensor<3xf32>, tensor<6xf32>, tensor<4x4xf32>
  } remainder {
  ^bb0(%piece: tensor<2x4xf32>, %other: tensor<4xf32>):
    %n = binade.neg %piece : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %c = binade.constant dense<[7.0, 8.0]> : tensor<2xf32>
    %s = binade.matmul %piece, %piece {transpose_lhs}
      : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
    binade.yield %n, %c, %other, %s
      : tensor<2x4xf32>, tensor<2xf32>, tensor<4xf32>, tensor<4x4xf32>
  } : (tensor<11x4xf32>, tensor<22xf32>)
    -> (tensor<11x4xf32>, tensor<11xf32>, tensor<22xf32>, tensor<4x4xf32>)
  return %r#0, %r#1, %r#2, %r#3
    : tensor<11x4xf32>, tensor<11xf32>, tensor<22xf32>, tensor<4x4xf32>
}
"""
    # Small integers: the products and their sum are exact.
    x, y = np.float32(np.arange(44).reshape(11, 4) % 7 - 3), normal(22)
    out = tmp_path / "out.safetensors"
    process = check(module, {"arg0": x, "arg1": y}, tmp_path, "--out", out)
    assert process.returncode == 0, process.stdout + process.stderr
    found = safetensors.load(out)
    np.testing.assert_array_equal(found["result0"], -x)
    np.testing.assert_array_equal(found["result1"], [1, 2, 3] * 3 + [7, 8])
    np.testing.assert_array_equal(found["result2"], y)
    np.testing.assert_array_equal(found["result3"], x.T @ x)


# Producers of the saved value: an elementwise op, whose kernel includes the cast of the
# save, and a library call, which cannot include it.
@pytest.mark.parametrize(
    "producer",
    ["binade.exp %x : (tensor<6x6xf32>)",
     "binade.matmul %x, %x : (tensor<6x6xf32>, tensor<6x6xf32>)"],
)  # fmt: skip
@pytest.mark.parametrize("kept", ["bf16", "f16", "f64"])
def test_saves_in_another_format(producer, kept, tmp_path):
    wide, narrow = "tensor<6x6xf32>", f"tensor<6x6x{kept}>"
    module = f"""
func.func @f(%x: {wide}) -> ({wide}, {wide}) {{
  %h = {producer} -> {wide}
  %s = binade.save %h : ({wide}) -> {narrow}
  %t = binade.tanh %h : ({wide}) -> {wide}
  %w = binade.cast %s {{binade.phase = #binade.phase<backward>}} : ({narrow}) -> {wide}
  %g = binade.mul %w, %w {{binade.phase = #binade.phase<backward>}}
    : ({wide}, {wide}) -> {wide}
  return %t, %g : {wide}, {wide}
}}
"""
    process = check(module, {"arg0": normal(6, 6)}, tmp_path)
    assert process.returncode == 0, process.stdout + process.stderr


def test_constants_that_library_calls_read(tmp_path):
    module = """
func.func @f(%x: tensor<3x2xf32>) -> (tensor<3x2xf32>, tensor<2x2xf32>) {
  %c = binade.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %y = binade.matmul %x, %c : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  return %y, %c : tensor<3x2xf32>, tensor<2x2xf32>
}
"""
    process = check(module, {"arg0": normal(3, 2)}, tmp_path)
    assert process.returncode == 0, process.stdout + process.stderr


def test_constants_in_external_files(tmp_path, monkeypatch):
    """Files next to the module are read, not files of the same name in the working directory."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "c.bin").write_bytes(np.float32([1, 2, 3]).tobytes())
    (tmp_path / "c.bin").write_bytes(np.float32([4, 5, 6]).tobytes())
    monkeypatch.chdir(tmp_path)
    module = """
func.func @f(%x: tensor<3xf32>) -> tensor<3xf32> {
  %c = binade.constant #binade.external<"c.bin", 0, 12> : tensor<3xf32>
  %y = binade.mul %x, %c : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %y : tensor<3xf32>
}
"""
    out = folder / "out.safetensors"
    process = check(module, {"arg0": np.float32([1, 1, 1])}, folder, "--out", out)
    assert process.returncode == 0, process.stdout + process.stderr
    np.testing.assert_array_equal(safetensors.load(out)["result0"], [1, 2, 3])


def test_index_out_of_range(tmp_path):
    operands = [normal(4, 3), np.array([1, 9])]
    module = op_module("gather", operands, [((2, 3), "f32")])
    inputs = {f"arg{i}": array for i, array in enumerate(operands)}
    (tmp_path / "module.mlir").write_text(module)
    safetensors.save(tmp_path / "in.safetensors", inputs)
    process = subprocess.run(
        [BUILD / "bin" / "binade", "interpret", tmp_path / "module.mlir", "--inputs",
         tmp_path / "in.safetensors", "--backend", "cpu"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert process.returncode == 3 and "out of range" in process.stderr
