"""Damaged or malicious MLIR modules. The numbers in names are those of the cases in
docs/Security.md."""

import pytest
from support.hostile import refuse, run

SPLAT = """func.func @f() -> tensor<{0}xf32> {{
  %0 = binade.constant dense<{1}> : tensor<{0}xf32>
  return %0 : tensor<{0}xf32>
}}
"""
RESOURCE = """func.func @step() -> tensor<4xf32> {
  %0 = binade.constant dense_resource<blob> : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
BLOB = """{-#
  dialect_resources: { builtin: { blob: "0x040000000102" } }
#-}
"""
# The format fields are the operands (quantized values first) and their types.
DEQUANTIZED = """func.func @step(%c: tensor<4xf8E4M3FN>, %s: tensor<2xf32>, %t: tensor<bf16>) -> tensor<4xf32> {{
  %x = binade.dequantize {} {{format = #binade.quantized<f8E4M3FN, per_tensor, scale = f32>}} : ({}) -> tensor<4xf32>
  return %x : tensor<4xf32>
}}
"""
KEPT = "m.mlir:2:8: error: 'binade.dequantize' op expects #binade.quantized<f8E4M3FN, per_tensor, scale = f32> to keep a tensor of shape [4] as ('tensor<4xf8E4M3FN>', 'tensor<f32>'), got "
ELSEWHERE = "m.mlir:2:8: error: expected elements as dense<...> or #binade.external, got builtin.dense_resource"
MODULES = {
    "49 syntax": ("module {", "m.mlir:1:7: error: expected operation name in quotes"),
    "49 dialect": ('"foo.bar"() : () -> ()', "m.mlir:1:1"),
    "49 op": ('"binade.bar"() : () -> ()', "m.mlir:1:1"),
    "50 braces": ("module {" * 20_000, "error: nesting deeper than 256 levels"),
    "50 types": ("func.func private @f(" + "tuple<" * 100_000, "error: nesting deeper"),
    "50 lists": ("module attributes {a = " + "[" * 100_000, "error: nesting deeper"),
    "50 minuses": ("module attributes {a = " + "-" * 100_000 + "1}", "error: nesting deeper"),
    "51 bytecode": (b"ML\xefR\x0dMLIR22\0" + bytes(60), "this is MLIR bytecode"),
    "52 product": (SPLAT.format("4294967296x4294967296", "0.0"), "m.mlir:2:8: error: has a tensor of more than 2^48 elements"),
    "52 length": (SPLAT.format("9223372036854775807x2", "0.0"), "m.mlir:2:8: error: has a tensor of more than 2^48 elements"),
    "52 resource": (RESOURCE + BLOB, ELSEWHERE),
    "52 no resource": (RESOURCE, ELSEWHERE),
    "52 splat": (SPLAT.format("65536x65536x65536x65536", "0.0"), "m.mlir:2:8: error: has a tensor of more than 2^48 elements"),
    "53 no scale": (DEQUANTIZED.format("%c", "tensor<4xf8E4M3FN>"), KEPT + "('tensor<4xf8E4M3FN>')"),
    "53 scales of another shape": (DEQUANTIZED.format("%c, %s", "tensor<4xf8E4M3FN>, tensor<2xf32>"), KEPT + "('tensor<4xf8E4M3FN>', 'tensor<2xf32>')"),
    "53 scale of another type": (DEQUANTIZED.format("%c, %t", "tensor<4xf8E4M3FN>, tensor<bf16>"), KEPT + "('tensor<4xf8E4M3FN>', 'tensor<bf16>')"),
    "53 codes and scale swapped": (DEQUANTIZED.format("%s, %c", "tensor<2xf32>, tensor<4xf8E4M3FN>"), KEPT + "('tensor<2xf32>', 'tensor<4xf8E4M3FN>')"),
    "52 short": (SPLAT.format("4", '"0x0000"'), "m.mlir:2:24: error: elements hex data size is invalid"),
}  # fmt: skip


@pytest.mark.parametrize("case", MODULES)
def test_49_to_53_module(case, tmp_path):
    path = tmp_path / "m.mlir"
    text, words = MODULES[case]
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    refuse(3, words, "binade", "explain", path)
    refuse(3, words, "binade", "compile", path, "--from", "kernels", "-o",
           tmp_path / "x.bnd")  # fmt: skip
    assert not (tmp_path / "x.bnd").exists()


BYTECODE = MODULES["51 bytecode"][0]


@pytest.mark.parametrize("reader", [
    ["binade", "explain"], ["binade", "verify"], ["binade", "inspect"], ["binade-interpret"],
    ["binade-run"], ["binade", "compile", "--from", "assign", "-o", "x.bnd"],
    ["binade", "train", "--data", "x.safetensors", "--out", "x", "--steps", "1"],
    ["binade", "convert", "-o", "x.onnx"], ["binade", "import"],
])  # fmt: skip
@pytest.mark.parametrize("suffix", [".mlir", ".onnx", ".bnd", ".mlirbc"])
def test_51_every_reader_rejects_bytecode(reader, suffix, tmp_path):
    """With any name, the file never reaches MLIR's bytecode reader."""
    path = tmp_path / f"m{suffix}"
    path.write_bytes(BYTECODE)
    tool, *words = reader
    done = run(tool, *words[:1], path, *words[1:], cwd=tmp_path)
    assert done.returncode in (2, 3), done.stderr
    assert b"bytecode version" not in done.stderr
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("kind", ["50 braces", "50 types", "50 lists", "50 minuses"])
def test_50_binade_opt(kind, tmp_path):
    """binade-opt uses MLIR's parser and exit codes, with the same limit of nesting."""
    path = tmp_path / "m.mlir"
    path.write_text(MODULES[kind][0])
    done = run("binade-opt", path)
    assert done.returncode == 1, done.stderr
    assert b": error: nesting deeper than 256 levels" in done.stderr
