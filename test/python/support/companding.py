"""Companded formats in numpy, in f32 operation by operation, written from the formulas of
FlashOptim (arXiv 2602.23349) without Binade's code."""

from __future__ import annotations

import dataclasses

import numpy as np
from support.reference import evaluate, tensor_type

F32, F16 = np.float32, np.float16
PARTS = ["codes", "scale"]


def softsign(x):
    with np.errstate(invalid="ignore"):
        return F32(2) * x / (F32(1) + np.abs(x))


def invert_softsign(y):
    return y / (F32(2) - np.abs(y))


def quantize_as_published(x, function, group=32):
    """Codes and scales of `x` by the published formulas, whatever its magnitude."""
    rows = (np.sqrt(x) if function != "softsign" else x).reshape(-1, group)
    absmax = np.maximum(np.abs(rows).max(1), F32(1e-12))
    y = rows / absmax[:, None]
    if function != "sqrt":
        y = softsign(y)
    largest = F32(127 if function == "softsign" else 255)
    codes = np.floor(y * largest + F32(0.5)).ravel()
    word = np.int8 if function == "softsign" else np.uint8
    with np.errstate(over="ignore"):
        return codes.astype(word).view(np.int8), absmax.astype(F16)


def dequantize_as_published(codes, scale, function, group=32):
    word = np.int8 if function == "softsign" else np.uint8
    largest = F32(127 if function == "softsign" else 255)
    y = codes.view(word).astype(F32).reshape(-1, group) / largest
    if function != "sqrt":
        y = invert_softsign(y)
    x = y * scale.astype(F32)[:, None]
    return (x * x if function != "softsign" else x).ravel()


@dataclasses.dataclass
class Companded:
    """A format of states, with the methods of `support.codec.Format`."""

    function: str
    group: int = 32
    expand = packed = False
    is_book = True  # Codes have the type i8.
    word = np.uint8

    @property
    def is_signed(self):
        return self.function == "softsign"

    def attribute(self):
        return (
            f"#binade.quantized<#binade.companded<{self.function}>, "
            f"per_group<{self.group}>, scale = f16>"
        )

    def parts(self, count):
        return [(count, "i8"), (-(-count // self.group), "f16")]

    def rows(self, x):
        """Groups of elements, or of their roots, as rows, padded with zeros."""
        padded = np.zeros(-(-len(x) // self.group) * self.group, F32)
        with np.errstate(invalid="ignore"):
            padded[: len(x)] = x if self.is_signed else np.sqrt(x)
        return padded.reshape(-1, self.group)

    def find_divisors(self, x):
        amax = np.abs(self.rows(x)).max(1)
        limited = np.clip(amax, F32(2.0**-24), F32(65504))
        return np.where(amax == 0, F32(1), np.where(np.isinf(amax), amax, limited))

    def choose(self, x):
        return self.find_divisors(x).astype(F16), None, None

    def round(self, u):
        u = np.where(np.isnan(u), F32(0), np.clip(u, F32(-1), F32(1)))
        y = u if self.function == "sqrt" else softsign(u)
        codes = np.floor(y * F32(127 if self.is_signed else 255) + F32(0.5))
        return codes.astype(np.int8 if self.is_signed else np.uint8).view(np.uint8)

    def encode(self, x, factors):
        """The codes of `x`, and which of them depend on the last bits of a value."""
        with np.errstate(invalid="ignore"):
            u = self.rows(x) / self.find_divisors(x)[:, None]
        u = u.ravel()[: len(x)]
        codes = self.round(u)
        near = [self.round((u * F32(1 + off)).astype(F32)) for off in (-2e-5, 2e-5)]
        return codes, (near[0] != codes) | (near[1] != codes)

    def unpack(self, codes, count):
        return codes.view(np.uint8)[:count]

    def decode(self, parts, count):
        padded = np.zeros(len(parts[1]) * self.group, np.uint8)
        padded[:count] = parts[0].view(np.uint8).ravel()
        with np.errstate(invalid="ignore"):
            x = dequantize_as_published(padded, parts[1], self.function, self.group)
        return x[:count]

    def start(self, count):
        (codes, _), (groups, _) = self.parts(count)
        return [np.zeros(codes, np.uint8), np.ones(groups, F16)]


def quantize(form, x, backend):
    """The parts of `x` and the dequantized values, by name."""
    *kinds, wide = [
        tensor_type((n,), e) for n, e in [*form.parts(len(x)), (len(x), "f32")]
    ]
    parts, attribute = ", ".join(kinds), f"format = {form.attribute()}"
    module = f"""
func.func @f(%x: {wide}) -> ({parts}, {wide}) {{
  %c, %s = binade.quantize %x {{{attribute}, saturate}} : ({wide}) -> ({parts})
  %y = binade.dequantize %c, %s {{{attribute}}} : ({parts}) -> {wide}
  return %c, %s, %y : {parts}, {wide}
}}"""
    found = evaluate(module, {"arg0": x}, "--backend", backend)
    return {name: found[f"result{i}"] for i, name in enumerate([*PARTS, "y"])}
