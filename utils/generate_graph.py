#!/usr/bin/env python3
"""Writes random valid forward graphs with a loss, as the importer would.

    generate_graph.py --seed 7 --ops 1000 --flavour layers -o graph.mlir

`layers` stacks what networks are made of; `random` draws a graph without sense
from every kind of op, where each value may be read by any later op. Seed, size
and flavour determine the text. Time and memory are linear in the number of ops.
A new op joins both flavours with a line in KINDS or LAYERS.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import random
import sys

LARGEST = 512  # Elements of a value that a kind of op may make larger.
PARAMETERS = 4000  # Weights beyond these are shared.
GROWTH = 3  # Sums and products in a row, before a value is bounded again.
BOUNDED = {"tanh", "sigmoid", "erf", "softmax", "layer_norm", "batch_norm"}
ROLES = ("parameter", "buffer", "rng", "batch")  # In the order of arguments.


@dataclasses.dataclass(slots=True)
class Value:
    name: str
    shape: tuple[int, ...]
    growth: int = 0
    element: str = "f32"
    count: int = 0  # Elements; 0 for none has asked.

    @property
    def type(self) -> str:
        return tensor_type(self.shape, self.element)

    @property
    def size(self) -> int:
        self.count = self.count or math.prod(self.shape)
        return self.count


def tensor_type(shape, element="f32") -> str:
    return f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"


def array(numbers) -> str:
    numbers = list(numbers)
    return f"array<i64: {', '.join(map(str, numbers))}>" if numbers else "array<i64>"


class Graph:
    """A function under construction."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.arguments: dict[str, list[tuple[Value, str, str]]] = {r: [] for r in ROLES}
        self.results: list[tuple[Value, str, str]] = []
        self.weights: dict[tuple, list[Value]] = {}
        self.values: dict[tuple, list[Value]] = {}  # By shape, oldest first.
        self.unread: dict[str, Value] = {}
        self.count = 0  # Of ops.

    # --- Values -------------------------------------------------------------

    def op(self, mnemonic, operands, shapes=None, attributes="", elements=None):
        """Adds an op; returns its result, or a list where `shapes` has several.

        `shapes` is one shape, or a list of them; by default the first operand's.
        """
        many = isinstance(shapes, list)
        shapes = shapes if many else [operands[0].shape if shapes is None else shapes]
        elements = elements or ["f32"] * len(shapes)
        growth = 0 if mnemonic in BOUNDED else max(v.growth for v in operands) + 1
        name = f"%v{self.count}"
        names = [f"{name}#{i}" for i in range(len(shapes))] if many else [name]
        results = [Value(*r, growth, e) for *r, e in zip(names, shapes, elements)]
        inputs = ", ".join(v.type for v in operands)
        outputs = ", ".join(r.type for r in results)
        self.lines.append(
            f"    {name}{f':{len(shapes)}' if many else ''} = binade.{mnemonic} "
            f"{', '.join(v.name for v in operands)} "
            f"{f'{{{attributes}}} ' if attributes else ''}: ({inputs}) -> "
            f'{f"({outputs})" if many else outputs} loc("{mnemonic}_{self.count}")'
        )
        self.count += 1
        for value in operands:
            self.unread.pop(value.name, None)
        if elements[0] == "f32":
            self.unread[results[0].name] = results[0]
            self.values.setdefault(shapes[0], []).append(results[0])
        return results if many else results[0]

    def constant(self, shape, text, element="f32"):
        value = Value(f"%v{self.count}", shape, 0, element)
        self.lines.append(
            f"    {value.name} = binade.constant dense<{text}> : {value.type} "
            f'loc("constant_{self.count}")'
        )
        self.count += 1
        return value

    def argument(self, role, shape, element="f32", name="", init=""):
        name = name or f"{role}.{len(self.arguments[role])}"
        value = Value(f"%{role}{len(self.arguments[role])}", shape, 0, element)
        self.arguments[role].append((value, name, init))
        return value

    def weight(self, *shape, scale=None, mean=0.0):
        """A parameter; one time in eight one that is there already."""
        known = self.weights.setdefault((shape, mean), [])
        full = len(self.arguments["parameter"]) >= PARAMETERS
        if known and (full or self.random.random() < 0.125):
            return self.random.choice(known)
        scale = scale or 1 / math.sqrt(math.prod(shape[1:]) or 1)
        init = f'#binade.random<"normal", {mean:.6e} : f64, {scale:.6e} : f64>'
        known.append(self.argument("parameter", shape, init=init))
        return known[-1]

    def other(self, x: Value) -> Value:
        """A value of the shape of `x`, which may be `x` itself."""
        return self.bounded(self.random.choice(self.values.get(x.shape) or [x]))

    def bounded(self, x: Value) -> Value:
        return self.op("tanh", [x]) if x.growth > GROWTH else x

    def positive(self, x: Value) -> Value:
        return self.op("add", [self.op("sigmoid", [x]), self.splat(x.shape, 0.25)])

    def splat(self, shape, number) -> Value:
        return self.constant(shape, f"{number:.6e}")

    def axis(self, x: Value) -> int:
        return self.random.randrange(len(x.shape))

    # --- The text -----------------------------------------------------------

    def render(self, out) -> None:
        def port(role, name, init=""):
            init = f"binade.init = {init}, " if init else ""
            return (
                f'{{{init}binade.name = "{name}", binade.role = #binade.role<{role}>}}'
            )

        arguments = ", ".join(
            f"{value.name}: {value.type} {port(role, name, init)}"
            for role in ROLES
            for value, name, init in self.arguments[role]
        )
        types = ", ".join(f"{v.type} {port(role, n)}" for v, role, n in self.results)
        out.write(f"module {{\n  func.func @forward({arguments}) -> ({types}) {{\n")
        out.write("\n".join(self.lines))
        values = ", ".join(value.name for value, _, _ in self.results)
        out.write(
            f"\n    return {values} : {', '.join(v.type for v, *_ in self.results)}"
        )
        out.write("\n  }\n}\n")


# --- Kinds of ops -------------------------------------------------------------
# From a graph and a value (rank 2 at least) to another value, of any shape.


def unary(mnemonic, attributes=""):
    return lambda g, x: g.op(mnemonic, [x], attributes=attributes)


def binary(mnemonic):
    return lambda g, x: g.op(mnemonic, [x, g.other(x)])


def reshape(g, x, shape=None):
    if shape is None:
        axis = g.axis(x)
        n = x.shape[axis]
        factor = next((f for f in (2, 3, 5) if n % f == 0), n)
        shape = (*x.shape[:axis], factor, n // factor, *x.shape[axis + 1 :])
        shape = shape if len(shape) <= 5 else (x.shape[0], x.size // x.shape[0])
    return g.op("reshape", [x], shape)


def rows(g, x):
    """The same elements with two axes."""
    if len(x.shape) == 2:
        return x
    return g.op("reshape", [x], (x.size // x.shape[-1], x.shape[-1]))


def image(g, x):
    """The same elements as a batch of images."""
    if len(x.shape) == 4:
        return x
    n = x.size
    height, width = (2 if n % 2 == 0 else 1), (2 if n % 4 == 0 else 1)
    return g.op("reshape", [x], (1, n // height // width, height, width))


def transpose(g, x):
    order = g.random.sample(range(len(x.shape)), len(x.shape))
    shape = tuple(x.shape[axis] for axis in order)
    return g.op("transpose", [x], shape, f"permutation = {array(order)}")


def broadcast(g, x):
    copies = 2 if x.size * 2 <= LARGEST and len(x.shape) < 5 else 1
    axes = array(range(1, len(x.shape) + 1))
    y = g.op("broadcast", [x], (copies, *x.shape), f"axes = {axes}")
    return reshape(g, y, (copies * x.shape[0], *x.shape[1:]))


def slice_(g, x):
    axis, n = (axis := g.axis(x)), x.shape[axis]
    stride = g.random.choice((1, 2))
    length = max(1, n // 2)
    offset = g.random.randrange(n - (length - 1) * stride)
    one = [1] * len(x.shape)
    return g.op(
        "slice", [x], (*x.shape[:axis], length, *x.shape[axis + 1 :]),
        f"offsets = {array([0] * axis + [offset] + [0] * (len(one) - axis - 1))}, "
        f"strides = {array(one[:axis] + [stride] + one[axis + 1 :])}",
    )  # fmt: skip


def pad(g, x):
    if x.size * 2 > LARGEST:
        return slice_(g, x)
    shape = tuple(n + g.random.choice((0, 1)) for n in x.shape)
    zeros, ones = [0] * len(shape), [1] * len(shape)
    return g.op("pad", [x], shape, f"offsets = {array(zeros)}, strides = {array(ones)}")


def concat(g, x):
    if x.size * 2 > LARGEST:
        return slice_(g, x)
    axis, y = g.axis(x), g.other(x)
    shape = (*x.shape[:axis], 2 * x.shape[axis], *x.shape[axis + 1 :])
    return g.op("concat", [x, y], shape, f"axis = {axis} : i64")


def reduce_(mnemonic):
    def build(g, x):
        axis = g.axis(x)
        rest = x.shape[:axis] + x.shape[axis + 1 :]
        y = g.op(mnemonic, [x], rest, f"axes = {array([axis])}")
        if len(rest) >= 2 and g.random.random() < 0.5:
            return y
        axes = array(a for a in range(len(x.shape)) if a != axis)
        back = g.op("broadcast", [y], x.shape, f"axes = {axes}")
        return g.op("sub", [x, back])

    return build


def linear(g, x, width=None, bias=None):
    x = rows(g, x)
    n, k = x.shape
    limit = max(1, LARGEST // n)
    width = width or min(g.random.choice((1, 3, 4, 8, 16)), limit)
    transposed = g.random.random() < 0.5
    weight = g.weight(width, k) if transposed else g.weight(k, width, scale=k**-0.5)
    operands = [x, weight]
    if bias or (bias is None and g.random.random() < 0.5):
        operands.append(g.weight(width, scale=0.1))
    return g.op("matmul", operands, (n, width), "transpose_rhs" if transposed else "")


def gram(g, x):
    *batch, m, _ = x.shape
    if x.size // x.shape[-1] * m > LARGEST:
        return linear(g, x)
    x, y = g.bounded(x), g.other(x)
    y = g.op("mul", [y, g.splat(y.shape, 1 / x.shape[-1])])
    return g.op("matmul", [x, y], (*batch, m, m), "transpose_rhs")


def conv(g, x, channels=None, stride=1):
    x = image(g, x)
    n, c, h, w = x.shape
    channels = channels or min(
        g.random.choice((1, 2, 4, 8)), max(1, LARGEST // (n * h * w))
    )
    groups = 2 if c % 2 == 0 and channels % 2 == 0 and g.random.random() < 0.3 else 1
    size = g.random.choice((1, 3))
    operands = [x, g.weight(channels, c // groups, size, size)]
    if g.random.random() < 0.5:
        operands.append(g.weight(channels, scale=0.1))
    pads = array([size // 2] * 2)
    return g.op(
        "conv", operands, (n, channels, -(-h // stride), -(-w // stride)),
        f"dilations = array<i64: 1, 1>, groups = {groups} : i64, padding_high = {pads}, "
        f"padding_low = {pads}, strides = {array([stride] * 2)}",
    )  # fmt: skip


def layer_norm(g, x):
    width = x.shape[-1]
    operands = [x, g.weight(width, scale=0.1, mean=1.0)]
    if g.random.random() < 0.7:
        operands.append(g.weight(width, scale=0.1))
    shapes = [x.shape, x.shape[:-1], x.shape[:-1]]
    return g.op("layer_norm", operands, shapes, "epsilon = 1.0e-5 : f64")[0]


def rms_norm(g, x):
    last = len(x.shape) - 1
    mean = g.op(
        "reduce_mean", [g.op("mul", [x, x])], x.shape[:-1], f"axes = {array([last])}"
    )
    root = g.op("sqrt", [g.op("add", [mean, g.splat(mean.shape, 1e-5)])])
    scale = g.op("reciprocal", [root])
    scale = g.op("broadcast", [scale], x.shape, f"axes = {array(range(last))}")
    y = g.op("mul", [x, scale])
    y.growth = 0
    return y


def batch_norm(g, x):
    channels = x.shape[1]
    shapes = [(channels,), (channels,)]
    mean, variance = g.op("batch_norm_statistics", [x], shapes, "axis = 1 : i64")
    scale, bias = g.weight(channels, scale=0.1, mean=1.0), g.weight(channels, scale=0.1)
    if len(g.arguments["buffer"]) < 20:
        advance(g, mean, 0.0)
        advance(g, variance, 1.0)
    attributes = "axis = 1 : i64, epsilon = 1.0e-5 : f64, training"
    return g.op("batch_norm", [x, scale, bias, mean, variance], x.shape, attributes)


def advance(g, statistic, start):
    """A running mean of `statistic`."""
    name = f"running.{len(g.arguments['buffer'])}"
    shape = statistic.shape
    init = f"dense<{start:.6e}> : {tensor_type(shape)}"
    old = g.argument("buffer", shape, name=name, init=init)
    kept = g.op("mul", [old, g.splat(shape, 0.875)])
    new = g.op("add", [kept, g.op("mul", [statistic, g.splat(shape, 0.125)])])
    g.unread.pop(new.name)
    g.results.append((new, "buffer", name))


def attention(g, x):
    if len(x.shape) < 3:
        n, width = x.shape
        x = reshape(g, x, (1, n, width))
    lse = x.shape[:-1]
    operands = [g.bounded(x), g.other(x), g.other(x)]
    causal = "causal, " if g.random.random() < 0.5 else ""
    scale = f"{causal}scale = {x.shape[-1] ** -0.5:.6e} : f64"
    return g.op("attention", operands, [x.shape, lse], scale)[0]


def gather(g, x):
    n = x.shape[0]
    picked = [g.random.randrange(n) for _ in range(min(n, 4))]
    index = g.constant((len(picked),), picked, "i64")
    return g.op("gather", [x, index], (len(picked), *x.shape[1:]))


def select(g, x):
    y = g.other(x)
    kind = g.random.choice(("less", "greater_equal"))
    chosen = g.op(
        "compare", [x, y], x.shape, f"comparison = #binade.comparison<{kind}>", ["i1"]
    )
    return g.op("select", [chosen, x, y], x.shape)


def dropout(g, x):
    if not g.arguments["rng"]:
        g.argument("rng", (2,), "i64", "rng", "dense<[1, 0]> : tensor<2xi64>")
    rng = g.arguments["rng"][0][0]
    stream = f"ratio = 0.25 : f64, stream = {g.count} : i64"
    return g.op("dropout", [x, rng], x.shape, stream)


def rounding(g, x):
    element = g.random.choice(("bf16", "f16"))
    narrow = g.op("cast", [x], x.shape, elements=[element])
    return g.op("cast", [narrow], x.shape)


KINDS = {
    # Arithmetic on one value.
    "abs": unary("abs"),
    "erf": unary("erf"),
    "exp": lambda g, x: g.op("exp", [g.op("tanh", [x])]),
    "gelu": unary("gelu"),
    "gelu_tanh": unary("gelu", "approximate = #binade.approximation<tanh>"),
    "log": lambda g, x: g.op("log", [g.positive(x)]),
    "log_softmax": unary("log_softmax"),
    "neg": unary("neg"),
    "reciprocal": lambda g, x: g.op("reciprocal", [g.positive(x)]),
    "relu": unary("relu"),
    "sigmoid": unary("sigmoid"),
    "softmax": unary("softmax"),
    "sqrt": lambda g, x: g.op("sqrt", [g.positive(x)]),
    "tanh": unary("tanh"),
    # On two or three.
    "add": binary("add"),
    "div": lambda g, x: g.op("div", [x, g.positive(g.other(x))]),
    "max": binary("max"),
    "min": binary("min"),
    "mul": binary("mul"),
    "pow": lambda g, x: g.op("pow", [g.positive(x), g.splat(x.shape, 1.5)]),
    "scale": lambda g, x: g.op("mul", [x, g.splat(x.shape, 0.5)]),
    "select": select,
    "sub": binary("sub"),
    # Sums of products.
    "attention": attention,
    "conv": conv,
    "gram": gram,
    "linear": linear,
    # Over axes.
    "batch_norm": batch_norm,
    "layer_norm": layer_norm,
    "reduce_max": reduce_("reduce_max"),
    "reduce_mean": reduce_("reduce_mean"),
    "reduce_sum": reduce_("reduce_sum"),
    "rms_norm": rms_norm,
    # Movement of data.
    "broadcast": broadcast,
    "cast": rounding,
    "concat": concat,
    "dropout": dropout,
    "gather": gather,
    "pad": pad,
    "reshape": reshape,
    "slice": slice_,
    "transpose": transpose,
}

# --- Layers -------------------------------------------------------------------
# From tokens [batch, time, width], or images [batch, channels, height, width], to
# the same shape.


def project(g, x, width):
    """A linear layer over the last axis."""
    y = linear(g, x, width, bias=True)
    return reshape(g, y, (*x.shape[:-1], width))


def perceptron(g, x):
    activation = g.random.choice(("gelu", "relu", "silu"))
    hidden = project(g, layer_norm(g, x), 2 * x.shape[-1])
    if activation == "silu":
        hidden = g.op("mul", [hidden, g.op("sigmoid", [hidden])])
    else:
        hidden = g.op(activation, [hidden])
    return g.op("add", [x, project(g, hidden, x.shape[-1])])


def gated(g, x):
    y = rms_norm(g, x)
    gate, up = project(g, y, 2 * x.shape[-1]), project(g, y, 2 * x.shape[-1])
    hidden = g.op("mul", [g.op("mul", [gate, g.op("sigmoid", [gate])]), up])
    return g.op("add", [x, project(g, hidden, x.shape[-1])])


def self_attention(g, x):
    batch, time, width = x.shape
    heads, depth = 2, width // 2
    every = project(g, layer_norm(g, x), 3 * width)
    parts = []
    for i in range(3):
        part = g.op(
            "slice", [every], x.shape,
            f"offsets = {array([0, 0, i * width])}, strides = {array([1, 1, 1])}",
        )  # fmt: skip
        part = reshape(g, part, (batch, time, heads, depth))
        parts.append(
            g.op(
                "transpose",
                [part],
                (batch, heads, time, depth),
                f"permutation = {array([0, 2, 1, 3])}",
            )
        )
    shapes = [parts[0].shape, (batch, heads, time)]
    y = g.op("attention", parts, shapes, f"causal, scale = {depth**-0.5:.6e} : f64")[0]
    y = g.op(
        "transpose",
        [y],
        (batch, time, heads, depth),
        f"permutation = {array([0, 2, 1, 3])}",
    )
    return g.op("add", [x, project(g, reshape(g, y, x.shape), width)])


def plain(g, x):
    return g.op("relu", [project(g, x, x.shape[-1])])


def residual(g, x):
    y = g.op("relu", [batch_norm(g, conv(g, x, x.shape[1]))])
    y = batch_norm(g, conv(g, y, x.shape[1]))
    return g.op("relu", [g.op("add", [x, y])])


def bottleneck(g, x):
    y = g.op("gelu", [conv(g, x, 2 * x.shape[1])])
    return g.op("add", [x, conv(g, y, x.shape[1])])


LAYERS = {
    "tokens": [perceptron, gated, self_attention, plain],
    "images": [residual, bottleneck],
}


# --- Graphs -------------------------------------------------------------------


def mean_loss(g, x):
    everything = array(range(len(x.shape)))
    return g.op("reduce_mean", [x], (), f"axes = {everything}")


def classify(g, x, classes=5):
    """Cross-entropy of what a linear layer makes of the rows of `x`."""
    logits = linear(g, x, classes, bias=True)
    n = logits.shape[0]
    labels = g.argument("batch", (n,), "i64", "labels")
    ignored = "ignore_index = -100 : i64"
    losses = g.op("cross_entropy", [logits, labels], [(n,), (n,)], ignored)[0]
    total = g.op("reduce_sum", [losses], (), "axes = array<i64: 0>")
    share = g.op("label_weight", [labels], (), ignored)
    g.results.append((logits, "output", "prediction"))
    return g.op("mul", [total, share])


def generate_layers(g: Graph, ops: int) -> Value:
    family = g.random.choice(list(LAYERS))
    batch, width = g.random.choice((2, 3)), g.random.choice((4, 8))
    if family == "images":
        x = g.argument("batch", (batch, width, 4, 4), name="x")
    else:
        tokens = g.argument("batch", (batch, 4), "i64", "tokens")
        table = g.weight(11, width, scale=1.0)
        x = g.op("gather", [table, tokens], (batch, 4, width))
    while g.count < ops - 4:
        x = g.random.choice(LAYERS[family])(g, x)
    if family == "images":
        x = g.op("reduce_mean", [x], x.shape[:2], "axes = array<i64: 2, 3>")
    return classify(g, x)


def generate_random(g: Graph, ops: int) -> Value:
    kinds = list(KINDS.values())
    shapes = [(2, 4), (3, 8), (2, 3, 4), (2, 2, 4, 4)]
    leaves = [
        g.argument("batch", shape, name=f"x{i}") for i, shape in enumerate(shapes)
    ]
    leaves += [g.weight(*shape, scale=1.0) for shape in shapes]
    for leaf in leaves:
        g.values.setdefault(leaf.shape, []).append(leaf)
    recent = list(leaves)
    while g.count < ops - 4:
        x = g.random.choice(recent)
        if x.size < 4 or x.size > LARGEST or len(x.shape) < 2:
            x = g.random.choice(leaves)
        y = g.random.choice(kinds)(g, g.bounded(x))
        # What was made last is read first, what is old now and then.
        recent[g.random.randrange(len(recent))] = y
    # Every value that nothing reads is a part of the loss.
    ends = [mean_loss(g, g.bounded(x)) for x in list(g.unread.values())]
    loss = ends[0] if ends else mean_loss(g, leaves[-1])
    for end in ends[1:]:
        loss = g.op("add", [loss, end])
    return loss


FLAVOURS = {"layers": generate_layers, "random": generate_random}


def generate(seed: int, ops: int, flavour: str) -> Graph:
    """A graph of about `ops` ops."""
    g = Graph(f"{seed} {ops} {flavour}")
    g.results.append((FLAVOURS[flavour](g, ops), "metric", "loss"))
    return g


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ops", type=int, default=100, help="about how many")
    parser.add_argument("--flavour", choices=FLAVOURS, default="layers")
    parser.add_argument("-o", "--output", type=argparse.FileType("w"), default="-")
    args = parser.parse_args()
    generate(args.seed, args.ops, args.flavour).render(args.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
