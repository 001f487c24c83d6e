"""Times quantizing and dequantizing a tensor against torch.compile, on one thread."""

from __future__ import annotations

import argparse
import pathlib
import tempfile
from collections.abc import Callable

import ml_dtypes
import numpy as np
import torch
from pairs import Ratio, compare
from runtime import Program, compile_step

F32, BF16, CODES = torch.float32, torch.bfloat16, torch.float8_e4m3fn
# Of linear layers, in a cache and not.
SHAPES = [(512, 1024), (8192, 4096)]
FORMATS = {
    "per tensor": "per_tensor, scale = f32, rule = inverse",
    "1x16": "per_group<16>, scale = bf16, rule = amax_offset",
    "1x128": "per_block<1, 128>, scale = f32, rule = inverse_power",
}


def write(kind: str, form: str, shape: tuple[int, int], count: int) -> str:
    """A step that does it once."""
    scale = "bf16" if "bf16" in form else "f32"
    size = "x".join(map(str, shape))
    wide, codes = f"tensor<{size}xbf16>", f"tensor<{size}xf8E4M3FN>"
    scales = f"tensor<{f'{count}x' if count > 1 else ''}{scale}>"
    if "per_block" in form:
        scales = f"tensor<{shape[0]}x{shape[1] // 128}x{scale}>"
    attribute = f"format = #binade.quantized<f8E4M3FN, {form}>"

    def port(role: str, name: str) -> str:
        return f'{{binade.role = #binade.role<{role}>, binade.name = "{name}"}}'

    if kind == "quantize":
        return f"""
func.func @step(%x: {wide} {port("batch", "x")})
    -> ({codes} {port("output", "codes")}, {scales} {port("output", "scales")}) {{
  %q:2 = binade.quantize %x {{{attribute}, saturate}} : ({wide}) -> ({codes}, {scales})
  return %q#0, %q#1 : {codes}, {scales}
}}"""
    return f"""
func.func @step(%codes: {codes} {port("batch", "codes")},
                %scales: {scales} {port("batch", "scales")})
    -> ({wide} {port("output", "y")}) {{
  %d = binade.dequantize %codes, %scales {{{attribute}}}
    : ({codes}, {scales}) -> tensor<{size}xf32>
  %y = binade.cast %d : (tensor<{size}xf32>) -> {wide}
  return %y : {wide}
}}"""


def build_peer(kind: str, group: int) -> Callable[..., object]:
    """The same in PyTorch; of a whole tensor `group` is 0."""

    def quantize(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        rows = (x.reshape(-1, group) if group else x.reshape(1, -1)).float()
        scales = rows.abs().amax(-1, keepdim=True) / 448.0
        return (rows / scales).to(CODES).reshape(x.shape), scales

    def dequantize(codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        rows = codes.reshape(-1, group) if group else codes.reshape(1, -1)
        return (rows.float() * scales).to(BF16).reshape(codes.shape)

    return torch.compile(quantize if kind == "quantize" else dequantize, dynamic=False)


def compare_one(
    folder: pathlib.Path, kind: str, name: str, shape: tuple[int, int], pairs: int
) -> Ratio:
    elements = shape[0] * shape[1]
    group = {"per tensor": 0, "1x16": 16, "1x128": 128}[name]
    text = write(kind, FORMATS[name], shape, elements // group if group else 1)
    source = folder / f"{kind}{group}.mlir"
    source.write_text(text)
    bundle = compile_step(source, source.with_suffix(".bnd"), "--from=programs")
    program = Program(bundle, threads=1)
    x = torch.from_numpy(np.random.default_rng(0).standard_normal(shape, np.float32))
    if kind == "quantize":
        program["batch", "x"][...] = x.numpy().astype(ml_dtypes.bfloat16)
        operands = (x.to(BF16),)
    else:
        operands = build_peer("quantize", group)(x.to(BF16))
        program["batch", "codes"][...] = operands[0].view(torch.uint8).numpy()
        scales = program["batch", "scales"]
        scales[...] = operands[1].numpy().reshape(scales.shape)
    peer = build_peer(kind, group)
    peer(*operands)
    repeats = max(1, (1 << 24) // elements)

    def ours() -> None:
        for _ in range(repeats):
            program.run()

    def theirs() -> None:
        for _ in range(repeats):
            peer(*operands)

    ratio = compare(("binade", ours), ("torch.compile", theirs), pairs)
    speed = 3 * elements * repeats / ratio.ours_ms / 1e6
    print(f"  {kind} {name}, {shape}: {speed:.1f} GB/s, {ratio}", flush=True)
    return ratio


def measure(arguments: argparse.Namespace) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("quantize", "dequantize"):
            for name in FORMATS:
                for shape in SHAPES:
                    compare_one(
                        pathlib.Path(folder), kind, name, shape, arguments.pairs
                    )
    torch.set_num_threads(threads)
