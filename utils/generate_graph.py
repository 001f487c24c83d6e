#!/usr/bin/env python3
"""Writes random valid forward graphs with a loss, as the importer would.

    generate_graph.py --seed 7 --ops 1000 --flavour layers -o graph.mlir

`layers` stacks common layers of networks. `random` connects ops of all kinds at random, so
that any later op may read a value. Seed, size and flavour determine the text. Time and
memory are linear in the number of ops. A line in KINDS (graph_kinds.py) or LAYERS adds an
op to both flavours.
"""

from __future__ import annotations

import argparse
import sys

from graph_kinds import (
    KINDS,
    LARGEST,
    batch_norm,
    conv,
    layer_norm,
    linear,
    reshape,
    rms_norm,
)
from graph_text import Graph, Value, array

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
    hidden = g.op(activation, [hidden])
    return g.op("add", [x, project(g, hidden, x.shape[-1])])


def gated(g, x):
    y = rms_norm(g, x)
    gate, up = project(g, y, 2 * x.shape[-1]), project(g, y, 2 * x.shape[-1])
    hidden = g.op("mul", [g.op("silu", [gate]), up])
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
    losses = g.op("cross_entropy", [logits, labels], 3 * [(n,)], ignored)[0]
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
    # A few ops may read no parameter. The compiler rejects a model with nothing to train.
    if not any(value.name in g.read for value, *_ in g.arguments["parameter"]):
        ends.append(mean_loss(g, leaves[-1]))
    loss = ends[0]
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
    parser.add_argument("--seed", type=int, default=0, help="random seed (default: 0)")
    parser.add_argument(
        "--ops", type=int, default=100, help="approximate number of ops (default: 100)"
    )
    parser.add_argument(
        "--flavour", choices=FLAVOURS, default="layers",
        help="common layers, or random connections (default: layers)",
    )  # fmt: skip
    parser.add_argument(
        "-o", "--output", type=argparse.FileType("w"), default="-", metavar="FILE.mlir",
        help="module to write (default: standard output)",
    )  # fmt: skip
    args = parser.parse_args()
    generate(args.seed, args.ops, args.flavour).render(args.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
