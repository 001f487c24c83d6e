"""The rows of the tables of kernels: what is compiled, and what it is compared with.

A row is a training step of little but one kernel. Useful bytes are those of its ports,
each read or written once, or as often as `passes` says of gradients.
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
import sys
from collections.abc import Callable

ROOT = pathlib.Path(__file__).resolve().parents[2]
for folder in ("benchmarks", "python"):
    sys.path.insert(0, str(ROOT / folder))

from updates import Shapes, leave_out_statistics, port, shapes, write_module  # noqa: E402


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Of what is measured: those of the goals, or what a simulator can do."""

    layers: int = 12
    width: int = 768
    vocabulary: int = 50257
    rows: int = 16384
    columns: int = 4096


TINY = Sizes(layers=1, width=32, vocabulary=64, rows=256, columns=512)


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    title: str
    options: tuple[str, ...]  # Of `binade compile`.
    share: float | None = None  # Of the bandwidth of a copy, at least.
    # Peers and the most that the time may be of theirs.
    peers: dict[str, float | None] = dataclasses.field(default_factory=dict)
    passes: int = 1

    def write(self, path: pathlib.Path, sizes: Sizes) -> None:
        """The module."""
        raise NotImplementedError

    def count_bytes(self, bytes_of: Callable[[str], int]) -> int:
        """What is read or written at least, from the bytes of the ports of a role."""
        return (
            self.passes * bytes_of("buffer")
            + 2 * (bytes_of("parameter") + bytes_of("state"))
            + bytes_of("output")
        )

    def count_elements(self, sizes: Sizes) -> int:
        raise NotImplementedError


def list_tensors(sizes: Sizes) -> Shapes:
    return shapes(sizes.layers, sizes.width, sizes.vocabulary)


@dataclasses.dataclass(frozen=True)
class Update(Case):
    statistics: bool = False

    def count_elements(self, sizes: Sizes) -> int:
        return sum(map(math.prod, list_tensors(sizes).values()))

    def write(self, path: pathlib.Path, sizes: Sizes) -> None:
        tensors = list_tensors(sizes)
        if self.statistics:
            return write_module(path, tensors, role="buffer")
        whole = path.with_suffix(".whole.mlir")
        write_module(whole, tensors, role="buffer")
        leave_out_statistics(whole, path)
        return whole.unlink()


@dataclasses.dataclass(frozen=True)
class Quantizer(Case):
    body: str = ""  # Of x; leaves each result in a value of its port's name.
    results: tuple[tuple[str, str], ...] = ()
    vectors: tuple[str, ...] = ()

    def count_elements(self, sizes: Sizes) -> int:
        return sizes.rows * sizes.columns

    def write(self, path: pathlib.Path, sizes: Sizes) -> None:
        n, m = sizes.rows, sizes.columns
        types = {
            "WIDE": f"tensor<{n}x{m}xbf16>", "F32": f"tensor<{n}x{m}xf32>",
            "CODES": f"tensor<{n}x{m}xf8E4M3FN>", "ROWS": f"tensor<{n}xf32>",
            "TURNED": f"tensor<{m}x{n}xf8E4M3FN>",
            "COLUMNS": f"tensor<{m}xf32>", "GROUPS": f"tensor<{n}x{m // 128}xf32>",
            "DOWN": f"tensor<{n // 128}x{m}xf32>", "ONE": "tensor<f32>",
        }  # fmt: skip

        def fill(text: str) -> str:
            for name, kind in types.items():
                text = text.replace(f"!{name}", kind)
            return text

        arguments = [f"%x: !WIDE {port('buffer', 'x')}"]
        for vector in self.vectors:
            name, kind = vector.split(":")
            arguments.append(f"%{name}: !{kind} {port('buffer', name)}")
        outputs = [f"!{kind} {port('output', name)}" for name, kind in self.results]
        values = ", ".join(f"%{name}" for name, _ in self.results)
        kinds = ", ".join(f"!{kind}" for _, kind in self.results)
        text = (
            f"func.func @step({', '.join(arguments)}) -> ({', '.join(outputs)}) {{\n"
            f"{self.body}\n  return {values} : {kinds}\n}}\n"
        )
        path.write_text(fill(text))


def quantize(value: str, form: str, scales: str, codes: str, source: str) -> str:
    kind = scales.split(":")[1]
    return f"""
  %{codes}, %{scales.split(":")[0]} = binade.quantize %{value}
    {{format = #binade.quantized<f8E4M3FN, {form}, scale = f32>, saturate}}
    : (!{source}) -> (!CODES, !{kind})"""


ROW = quantize("x", "per_row", "scales:ROWS", "codes", "WIDE")
GROUP = quantize("x", "per_block<1, 128>", "scales:GROUPS", "codes", "WIDE")
# The scale is that of the steps before; this step's largest magnitude comes out.
DELAYED = """
  %codes, %scales = binade.quantize %x by %old
    {format = #binade.quantized<f8E4M3FN, per_tensor, scale = f32, rule = inverse,
     history = 1024>, saturate} : (!WIDE, !ONE) -> (!CODES, !ONE)
  %a = binade.abs %x : (!WIDE) -> !WIDE
  %w = binade.cast %a : (!WIDE) -> !F32
  %amax = binade.reduce_max %w {axes = array<i64: 0, 1>} : (!F32) -> !ONE"""
TURN = """
  %turned = binade.transpose %codes {permutation = array<i64: 1, 0>} : (!CODES) -> !TURNED"""
DOWN = quantize("x", "per_block<128, 1>", "down_scales:DOWN", "down_codes", "WIDE")
NORM = """
  %f = binade.cast %x : (!WIDE) -> !F32
  %squares = binade.mul %f, %f : (!F32, !F32) -> !F32
  %mean = binade.reduce_mean %squares {axes = array<i64: 1>} : (!F32) -> !ROWS
  %epsilon = binade.constant dense<1.0e-5> : !ROWS
  %shifted = binade.add %mean, %epsilon : (!ROWS, !ROWS) -> !ROWS
  %root = binade.sqrt %shifted : (!ROWS) -> !ROWS
  %inverse = binade.reciprocal %root : (!ROWS) -> !ROWS
  %by = binade.broadcast %inverse {axes = array<i64: 0>} : (!ROWS) -> !F32
  %normal = binade.mul %f, %by : (!F32, !F32) -> !F32
  %gain = binade.broadcast %weight {axes = array<i64: 1>} : (!COLUMNS) -> !F32
  %y = binade.mul %normal, %gain : (!F32, !F32) -> !F32"""

CODES, SCALES = ("codes", "CODES"), "scales"
FUSED, UNSCALED = "torch fused AdamW", "torch unscale, clip, fused AdamW"
BITSANDBYTES, TORCHAO = "bitsandbytes AdamW8bit", "torchao AdamWFp8"
COMPILED = "torch.compile"
PASSES = "torch.compile, norm, amax and cast apart"
TWICE = "torch.compile, one layout after the other"


def adamw(states: str) -> tuple[str, ...]:
    return ("--from=optimizer", "--states", states)


CASES = [
    Update("adamw", "AdamW, f32", adamw("f32"), 0.90, {FUSED: 0.95}),
    Update(
        "clip", "norm, check, unscale, clip, AdamW, f32",
        ("--from=autodiff", "--optimizer=adamw", "--lr=1e-3", "--clip=1"),
        None, {UNSCALED: 0.70}, passes=2, statistics=True,
    ),
    Update("e4m3", "AdamW, states in E4M3", adamw("e4m3"), 0.85,
           {FUSED: 0.65, BITSANDBYTES: 0.55, TORCHAO: None}),
    Update("e4m3x", "AdamW, states in E4M3, expanded", adamw("e4m3x"), 0.75,
           {FUSED: None}),
    Update("dyn8", "AdamW, states in dynamic 8 bits", adamw("dyn8"), 0.85,
           {BITSANDBYTES: 0.60, FUSED: None}),
    Update(
        "tiger", "Tiger, accumulated in the momentum",
        ("--from=autodiff", "--optimizer=tiger", "--accumulate=4",
         "--accumulate-in-momentum"),
        0.90, {FUSED: 0.65}, passes=2, statistics=True,
    ),
    Quantizer("row", "bf16 to E4M3, a scale per row", ("--from=programs",), 0.88,
              {COMPILED: None}, body=ROW, results=(CODES, (SCALES, "ROWS"))),
    Quantizer("group", "bf16 to E4M3, 1 x 128", ("--from=programs",), 0.88,
              {COMPILED: None}, body=GROUP, results=(CODES, (SCALES, "GROUPS"))),
    Quantizer("delayed", "bf16 to E4M3, old scale and amax", ("--from=programs",), 0.88,
              {COMPILED: None}, body=DELAYED, vectors=("old:ONE",),
              results=(CODES, (SCALES, "ONE"), ("amax", "ONE"))),
    Quantizer("turned", "bf16 to E4M3 by rows and by columns, old scale and amax",
              ("--from=programs",), 0.88, {COMPILED: None}, body=DELAYED + TURN,
              vectors=("old:ONE",),
              results=(CODES, ("turned", "TURNED"), (SCALES, "ONE"), ("amax", "ONE"))),
    Quantizer("both", "bf16 to E4M3, 1 x 128 and 128 x 1", ("--from=programs",), None,
              {TWICE: 0.75}, body=GROUP + DOWN,
              results=(CODES, (SCALES, "GROUPS"), ("down_codes", "CODES"),
                       ("down_scales", "DOWN"))),
    Quantizer("norm", "RMSNorm, bf16 to E4M3 per row", ("--from=programs",), None,
              {PASSES: 0.40, COMPILED: None}, vectors=("weight:COLUMNS",),
              body=NORM + quantize("y", "per_row", "scales:ROWS", "codes", "F32"),
              results=(CODES, (SCALES, "ROWS"))),
]  # fmt: skip

# What moves as much as a copy, where there is no other copy.
COPY = Quantizer(
    "copy", "negation, bf16", ("--from=programs",), body="\n  %y = binade.neg %x : (!WIDE) -> !WIDE",
    results=(("y", "WIDE"),),
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Product(Case):
    """An FP8 matmul with a scale for each operand, of `SMALL_ROWS` rows."""

    terms: int = 0
    columns: int = 0

    def shapes(self) -> dict[str, tuple[int, int]]:
        return {"x": (SMALL_ROWS, self.terms), "w": (self.columns, self.terms)}

    def write(self, path: pathlib.Path, sizes: Sizes) -> None:
        form = "#binade.quantized<f8E4M3FN, per_tensor, scale = f32>"
        body, arguments = "", []
        for name, (rows, terms) in self.shapes().items():
            kinds = [f"tensor<{rows}x{terms}x{e}>" for e in ("bf16", "f8E4M3FN")]
            arguments.append(f"%{name}: {kinds[0]} {port('buffer', name)}")
            body += (
                f"  %{name}c, %{name}s = binade.quantize %{name} {{format = {form}, "
                f"saturate}} : ({kinds[0]}) -> ({kinds[1]}, tensor<f32>)\n"
                f"  %{name}d = binade.dequantize %{name}c, %{name}s {{format = {form}}} "
                f": ({kinds[1]}, tensor<f32>) -> {kinds[0]}\n"
            )
        x, w = (f"tensor<{n}x{m}xbf16>" for n, m in self.shapes().values())
        y = f"tensor<{SMALL_ROWS}x{self.columns}xbf16>"
        path.write_text(
            f"func.func @step({', '.join(arguments)}) -> ({y} {port('output', 'y')}) {{\n"
            f"{body}  %y = binade.matmul %xd, %wd {{transpose_rhs}} : ({x}, {w}) -> {y}\n"
            f"  return %y : {y}\n}}\n"
        )


SMALL_ROWS = 48
# By the library's FP8 product, and in bf16 where it has none of that shape.
PRODUCTS = [
    Product(f"product-{terms}x{columns}", f"FP8 matmul, {terms} terms, {columns} columns",
            ("--from=programs",), terms=terms, columns=columns)
    for terms, columns in [(64, 32), (50, 32), (64, 20), (17, 5)]
]  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Empty(Update):
    """An update of a few tensors, some of them without elements."""

    def write(self, path: pathlib.Path, sizes: Sizes) -> None:
        write_module(path, self.tensors(), role="buffer")

    def tensors(self) -> Shapes:
        return {"weight": (32, 48), "empty": (0, 48), "bias": (48,), "none": (0,)}


EMPTY = [
    Empty(f"empty-{states}", f"AdamW, states in {states}, tensors without elements",
          ("--from=autodiff", "--optimizer=adamw", "--states", states))
    for states in ("f32", "e4m3x", "dyn8")
]  # fmt: skip
