#!/usr/bin/env python3
"""Writes the code books that Binade ships.

usage: utils/code_books.py lib/Precision/CodeBooks

Dynamic books are those of Dettmers et al. (8-bit optimizers via block-wise
quantization, 2022), the same as in bitsandbytes: a sign, a decimal exponent in unary, and
a linear fraction in the remaining bits. f32 arithmetic throughout.
"""

import pathlib
import sys

import numpy as np

F32 = np.float32


def spread(low, high, count):
    """As PyTorch's linspace does it: from both ends towards the middle, each number
    rounded once."""
    low, high = F32(low), F32(high)
    step = np.float64((high - low) / F32(count - 1))
    index = np.arange(count)
    upwards, downwards = low + step * index, high - step * (count - 1 - index)
    return np.where(index < count // 2, upwards, downwards).astype(F32)


def middles(count):
    edges = spread(0.1, 1, count + 1)
    return (edges[:-1] + edges[1:]) / F32(2)


def dynamic(signed, exponents, bits):
    """`exponents` decades; one more bit of fraction in each than in the one below."""
    values = []
    for decade in range(exponents):
        spare = decade + bits - 1 - exponents
        fractions = middles(2 ** (spare if signed else spare + 1))
        scaled = F32(10.0 ** (decade - exponents + 1)) * fractions
        values += list(scaled) + (list(-scaled) if signed else [])
    return sorted([*values, F32(0), F32(1)])


def linear(signed, count):
    return spread(-1, 1, count - 1) if signed else spread(0, 1, count)


BOOKS = {
    "dynamic-signed": ("Dynamic 8-bit codes with a sign", dynamic(True, 7, 8)),
    "dynamic-unsigned": ("Dynamic 8-bit codes without a sign", dynamic(False, 7, 8)),
    "linear-signed": ("255 equal steps from -1 to 1 in f32, whose middle misses 0, and 0",
                      sorted([*linear(True, 256), F32(0)])),
    "linear-unsigned": ("256 equal steps from 0 to 1", linear(False, 256)),
    "dynamic4-signed": ("Dynamic 4-bit codes with a sign", dynamic(True, 3, 4)),
    "linear4-unsigned": ("Sixteenths, without 0", np.arange(1, 17, dtype=F32) / F32(16)),
}  # fmt: skip


def write(path, summary, values):
    lines = [f"# {summary}.", "values:"]
    lines += [f"- {float(value):.9g}" for value in values]
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    for name, (summary, values) in BOOKS.items():
        write(folder / f"{name}.yaml", summary, values)
