"""One example of each op of the dialect: its operands, results and attributes.

`7x33xf32` is a tensor of random numbers, `f32>0` of positive ones, `5xi64<11` of
integers below 11. Ops with a syntax of their own are texts of functions.
"""

from __future__ import annotations

import functools
import re

import numpy as np
from support.paths import ROOT
from support.reference import ELEMENTS

UNARY = ["abs", "atan", "ceil", "cos", "erf", "exp", "expm1", "floor", "gelu", "neg",
         "reciprocal", "relu", "round", "save", "sigmoid", "sign", "silu", "sin",
         "softplus", "tanh"]  # fmt: skip
BINARY = ["add", "div", "gelu_grad", "max", "min", "mul", "relu_grad", "silu_grad",
          "sub"]  # fmt: skip
ROWS = "#binade.quantized<f8E4M3FN, per_row, scale = f32>"
WINDOW = """strides = array<i64: 2, 1>, padding_low = array<i64: 1, 0>,
    padding_high = array<i64: 2, 1>, dilations = array<i64: 1, 2>, groups = 2 : i64"""
HEADS = "2x40x16xbf16"

SIMPLE = {
    **{op: "7x33xf32 -> 7x33xf32" for op in UNARY},
    **{op: "7x33xf32, 7x33xf32 -> 7x33xf32" for op in BINARY},
    "and": "65xi64<100, 65xi64<100 -> 65xi64",
    "attention": f"{HEADS}, {HEADS}, {HEADS} -> {HEADS}, 2x40xf32 {{scale = 0.25, causal}}",
    "attention_grad": f"{HEADS}, {HEADS}, {HEADS}, {HEADS}, {HEADS}, 2x40xf32>0 "
    f"-> {HEADS}, {HEADS}, {HEADS} {{scale = 0.25, causal}}",
    "batch_norm": "4x6x9xf32, 6xf32, 6xf32, 6xf32, 6xf32>0 -> 4x6x9xf32 "
    "{axis = 1 : i64, epsilon = 1.0e-5}",
    "batch_norm_grad": "4x6x9xf32, 4x6x9xf32, 6xf32, 6xf32, 6xf32>0, 6xf32, 6xf32 "
    "-> 4x6x9xf32 {axis = 1 : i64, epsilon = 1.0e-5, training}",
    "batch_norm_param_grad": "4x6x9xf32, 4x6x9xf32, 6xf32, 6xf32>0 -> 6xf32, 6xf32 "
    "{axis = 1 : i64, epsilon = 1.0e-5}",
    "batch_norm_statistics": "4x6x9xf32 -> 6xf32, 6xf32 {axis = 1 : i64}",
    "bitcast": "65xf32 -> 65xi32",
    "broadcast": "33xf32 -> 7x33xf32 {axes = array<i64: 1>}",
    "cast": "7x33xf32 -> 7x33xf8E5M2 {saturate}",
    "check_index": "65xi64<10 -> 65xi64 {low = 0 : i64, high = 10 : i64}",
    "choose_scale": f"8xf32>0 -> 8xf32, 8xf32 {{format = {ROWS}}}",
    "compare": "65xf32, 65xf32 -> 65xi1 {comparison = #binade.comparison<less>}",
    "concat": "5x3xf32, 5x6xf32 -> 5x9xf32 {axis = 1 : i64}",
    "conv": f"2x4x9x8xf32, 6x2x3x2xf32, 6xf32 -> 2x6x5x7xf32 {{{WINDOW}}}",
    "conv_input_grad": f"2x6x5x7xf32, 6x2x3x2xf32 -> 2x4x9x8xf32 {{{WINDOW}}}",
    "conv_weight_grad": f"2x6x5x7xf32, 2x4x9x8xf32 -> 6x2x3x2xf32 {{{WINDOW}}}",
    "cross_entropy": "9x37xf32, 9xi64<37 -> 9xf32, 9xf32, 9xf32 {ignore_index = 3 : i64}",
    "cross_entropy_grad": "9xf32, 9x37xf32, 9xi64<37, 9xf32>0, 9xf32>0 -> 9x37xf32 "
    "{ignore_index = 3 : i64}",
    "dequantize": f"8x64xf8E4M3FN, 8xf32>0 -> 8x64xbf16 {{format = {ROWS}}}",
    "dropout": "7x33xf32, 2xi64<50 -> 7x33xf32 {ratio = 0.3, stream = 2 : i64}",
    "dropout_grad": "7x33xf32, 2xi64<50 -> 7x33xf32 {ratio = 0.3, stream = 2 : i64}",
    "encode": f"8x64xf32, 8xf32>0 -> 8x64xf8E4M3FN {{format = {ROWS}, saturate}}",
    "gather": "11x6xf32, 2x3xi64<11 -> 2x3x6xf32",
    "gather_grad": "31x20xf32, 31xi64<11 -> 11x20xf32",
    "gradient_seed": "f32 -> f32",
    "gradient_statistics": "7x33xf32, 40xf32 -> f64, i1",
    "group_max": "8x64xf32 -> 32xf32 {size = 16 : i64}",
    "hadamard": "8x64xf32 -> 8x64xf32 {axis = -1 : i64, size = 16 : i64}",
    "join_halves": "65xbf16, 65xi16<9999 -> 65xf32 {rounded}",
    "label_weight": "65xi64<9 -> f32 {ignore_index = 3 : i64}",
    "layer_norm": "9x70xf32, 70xf32, 70xf32 -> 9x70xf32, 9xf32, 9xf32 {epsilon = 1.0e-5}",
    "layer_norm_grad": "9x70xf32, 9x70xf32, 70xf32, 9xf32, 9xf32>0 -> 9x70xf32",
    "layer_norm_param_grad": "9x70xf32, 9x70xf32, 9xf32, 9xf32>0 -> 70xf32, 70xf32",
    "log": "7x33xf32>0 -> 7x33xf32",
    "log1p": "7x33xf32>0 -> 7x33xf32",
    "log_softmax": "9x70xf32 -> 9x70xf32",
    "log_softmax_grad": "9x70xf32, 9x70xf32 -> 9x70xf32",
    "matmul": "40x24xbf16, 24x32xbf16, 32xf32 -> 40x32xbf16",
    "not": "65xi1 -> 65xi1",
    "or": "65xi64<100, 65xi64<100 -> 65xi64",
    "pad": "5x3xf32 -> 9x7xf32 {offsets = array<i64: 2, 1>, strides = array<i64: 1, 2>}",
    "pow": "7x33xf32>0, 7x33xf32 -> 7x33xf32",
    "quantize": f"8x64xf32 -> 8x64xf8E4M3FN, 8xf32 {{format = {ROWS}, saturate}}",
    "raise_scale": "f32>0, i64<9, i64<9, i64<9, f32>0 -> f32, i64, i1 "
    "{growth = 2.0, check = 2 : i64, limit = 0.1, largest = 9.0e4}",
    "random_uniform": "65xi64<100, 65xi64<100, 65xi64<100 -> 65xf32 {stream = 3 : i64}",
    "reduce_max": "5x7x33xf32 -> 5x33xf32 {axes = array<i64: 1>}",
    "reduce_mean": "9x70xf32 -> 9xf32 {axes = array<i64: 1>}",
    "reduce_sum": "9x70xf32 -> 70xf32 {axes = array<i64: 0>}",
    "reshape": "7x33xf32 -> 33x7xf32",
    "rms_norm": "9x70xf32, 70xf32 -> 9x70xf32, 9xf32 {epsilon = 1.0e-5}",
    "rms_norm_grad": "9x70xf32, 9x70xf32, 70xf32, 9xf32>0 -> 9x70xf32",
    "rms_norm_scale_grad": "9x70xf32, 9x70xf32, 9xf32>0 -> 70xf32",
    "scaled_matmul": "40x64xf8E4M3FN, f32>0, 48x64xf8E5M2, f32>0 -> 40x48xbf16",
    "select": "65xi1, 65xf32, 65xf32 -> 65xf32",
    "slice": "9x7xf32 -> 4x3xf32 {offsets = array<i64: 1, 0>, strides = array<i64: 2, 3>}",
    "softmax": "9x70xf32 -> 9x70xf32",
    "softmax_grad": "9x70xf32, 9x70xf32 -> 9x70xf32",
    "sqrt": "7x33xf32>0 -> 7x33xf32",
    "sum_in_order": "9x16x7xf32 -> 9x1x7xf32 {axis = 1 : i64, by_halves}",
    "transpose": "4x5x6xf32 -> 6x4x5xf32 {permutation = array<i64: 2, 0, 1>}",
    "unscale_factor": "f32>0 -> f32 {batches = 3 : i64}",
    "update_scale": "f32>0, i64<9, i1 -> f32, i64 "
    "{growth = 2.0, backoff = 0.5, interval = 4 : i64}",
    "xor": "65xi64<100, 65xi64<100 -> 65xi64",
}  # fmt: skip

UPDATE = """
binade.optimizer @rule {states = [#binade.setting<"m" = 0.0>],
  hypers = [#binade.setting<"lr" = 1.0e-3 min 0.0>]}
func.func private @rule.scalars(%t: i64, %lr: f64) -> f64 {
  %n = arith.sitofp %t : i64 to f64
  %rate = arith.divf %lr, %n : f64
  return %rate : f64
}
func.func private @rule.update(%p: f32, %g: f32, %m: f32, %rate: f32) -> (f32, f32) {
  %sum = arith.addf %m, %g : f32
  %way = arith.mulf %rate, %sum : f32
  %n = arith.subf %p, %way : f32
  return %n, %sum : f32, f32
}
func.func @f(%p: tensor<7x33xf32>, %g: tensor<7x33xf32>, %m: tensor<7x33xf32>,
             %t: tensor<i64>, %lr: tensor<f64>, %factor: tensor<f32>, %skip: tensor<i1>)
    -> (tensor<7x33xf32>, tensor<7x33xf32>) {
  %rate = binade.optimizer_scalars @rule(%t, %lr) : (tensor<i64>, tensor<f64>) -> tensor<f32>
  %n:2 = binade.optimizer_update @rule %p, %g states(%m) scalars(%rate) factors(%factor)
    skip(%skip) : (tensor<7x33xf32>, tensor<7x33xf32>, tensor<7x33xf32>, tensor<f32>,
    tensor<f32>, tensor<i1>) -> (tensor<7x33xf32>, tensor<7x33xf32>)
  return %n#0, %n#1 : tensor<7x33xf32>, tensor<7x33xf32>
}
"""
TILE = """
func.func @f(%x: tensor<8x6xf32>, %w: tensor<6xf32>) -> (tensor<8x6xf32>, tensor<6x6xf32>) {
  %r:2 = binade.tile 4 slices 1 joins 1 (%x, %w) {
  ^bb0(%piece: tensor<2x6xf32>, %all: tensor<6xf32>):
    %wide = binade.broadcast %all {axes = array<i64: 1>} : (tensor<6xf32>) -> tensor<2x6xf32>
    %y = binade.mul %piece, %wide : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
    %s = binade.matmul %piece, %y {transpose_lhs}
      : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<6x6xf32>
    binade.yield %y, %s : tensor<2x6xf32>, tensor<6x6xf32>
  } : (tensor<8x6xf32>, tensor<6xf32>) -> (tensor<8x6xf32>, tensor<6x6xf32>)
  return %r#0, %r#1 : tensor<8x6xf32>, tensor<6x6xf32>
}
"""
TEXTS = {
    "constant": """
func.func @f(%x: tensor<3xf32>) -> tensor<3xf32> {
  %c = binade.constant dense<[0.5, -2.0, 3.0]> : tensor<3xf32>
  %y = binade.mul %x, %c : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %y : tensor<3xf32>
}
""",
    "iota": """
func.func @f(%x: tensor<5x7xf32>) -> tensor<5x7xf32> {
  %i = binade.iota {axis = 1 : i64} : tensor<5x7xi64>
  %n = binade.cast %i : (tensor<5x7xi64>) -> tensor<5x7xf32>
  %y = binade.mul %x, %n : (tensor<5x7xf32>, tensor<5x7xf32>) -> tensor<5x7xf32>
  return %y : tensor<5x7xf32>
}
""",
    "round_to": """
func.func @f(%x: tensor<65xf32>) -> tensor<65xf32> {
  %y = binade.round_to %x {format = tf32} : tensor<65xf32>
  return %y : tensor<65xf32>
}
""",
    "statistics": """
func.func @f(%x: tensor<7x33xf32>) -> (tensor<f32>, tensor<f32>, tensor<i64>, tensor<i64>, tensor<256xi64>) {
  %s:5 = binade.statistics <amax|smallest|zeros|nonfinite|exponents> %x
    : (tensor<7x33xf32>) -> (tensor<f32>, tensor<f32>, tensor<i64>, tensor<i64>, tensor<256xi64>)
  return %s#0, %s#1, %s#2, %s#3, %s#4
    : tensor<f32>, tensor<f32>, tensor<i64>, tensor<i64>, tensor<256xi64>
}
""",
    "optimizer": UPDATE,
    "optimizer_scalars": UPDATE,
    "optimizer_update": UPDATE,
    "tile": TILE,
    "yield": TILE,
}
# Ops that only kernel formation creates.
MADE = {"launch"}
EXAMPLES = sorted([*SIMPLE, *TEXTS])


@functools.cache
def list_ops() -> set[str]:
    """All ops of the dialect, as the reference page lists them; a test checks the page."""
    page = (ROOT / "docs/generated/Dialect.md").read_text()
    return set(re.findall(r"^### `binade\.(\w+)`", page, re.MULTILINE))


def read(types: str) -> list[tuple[str, str]]:
    """Parses operands into pairs of type and limit."""
    parts = [re.fullmatch(r"([^<>]+)([<>]\d+)?", part) for part in types.split(", ")]
    return [(f"tensor<{part[1]}>", part[2] or "") for part in parts]


def draw(kind: str, limit: str, random: np.random.Generator) -> np.ndarray:
    *sizes, element = kind.removeprefix("tensor<").removesuffix(">").split("x")
    shape, dtype = tuple(map(int, sizes)), ELEMENTS[element]
    if element.startswith("i"):
        most = 2 if element == "i1" else int(limit[1:] or 100)
        return random.integers(0, most, shape).astype(dtype)
    numbers = random.standard_normal(shape)
    return np.asarray(abs(numbers) + 0.1 if limit else numbers).astype(dtype)


def write(op: str, example: str = "") -> tuple[str, dict[str, np.ndarray]]:
    """A module whose function `f` has the op, by default with the operands of its example,
    and the function's inputs."""
    random = np.random.default_rng(len(op))
    if op in TEXTS:
        text = example or TEXTS[op]
        head = re.search(r"func\.func @f\((.*?)\)\s*->", text, re.DOTALL)[1]
        found = re.findall(r"%(\w+): (tensor<[^>]*>)", head)
        inputs = [draw(kind, "<3", random) for _, kind in found]
        return text, {f"arg{i}": array for i, array in enumerate(inputs)}
    types, _, attributes = (example or SIMPLE[op]).partition(" {")
    operands, results = map(read, types.split(" -> "))
    names = [f"%arg{i}" for i in range(len(operands))]
    of, to = (", ".join(kind for kind, _ in side) for side in (operands, results))
    head = ", ".join(f"{n}: {kind}" for n, (kind, _) in zip(names, operands))
    count = len(results)
    values = ", ".join(f"%r#{i}" for i in range(count)) if count > 1 else "%r"
    left = f"%r:{count}" if count > 1 else "%r"
    attributes = "{" + attributes if attributes else ""
    text = f"""
func.func @f({head}) -> ({to}) {{
  {left} = binade.{op} {", ".join(names)} {attributes} : ({of}) -> ({to})
  return {values} : {to}
}}
"""
    inputs = [draw(kind, limit, random) for kind, limit in operands]
    return text, {f"arg{i}": array for i, array in enumerate(inputs)}


def write_all() -> str:
    """A step that contains all examples."""
    return join(list(dict.fromkeys(write(op)[0] for op in EXAMPLES)))


def join(texts: list[str]) -> str:
    """Merges texts that `write` returned into one step."""
    declarations, arguments, lines, results, types = [], [], [], [], []
    for text in texts:
        number = len(lines)
        text = re.sub(r"%(?=\w)", f"%n{number}_", text)
        text = re.sub(r"@rule\b", f"@rule{number}", text)
        before, head, to, body, values = re.fullmatch(
            r"(.*)func\.func @f\((.*?)\)\s*-> ([^{]*) \{\n(.*)  return (.*?)\s* : .*\n\}\n",
            text,
            re.DOTALL,
        ).groups()
        declarations.append(before)
        arguments.append(head)
        lines.append(body)
        results.append(values)
        types.append(to.strip("()"))
    return (
        f"{''.join(declarations)}func.func @step({', '.join(arguments)})\n"
        f"    -> ({', '.join(types)}) {{\n{''.join(lines)}"
        f"  return {', '.join(results)} : {', '.join(types)}\n}}\n"
    )
