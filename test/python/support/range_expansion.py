"""Quantized formats that expand the range of groups: inputs, modules and results."""

from __future__ import annotations

import numpy as np
from support.codec import Format, load_book
from support.reference import evaluate, tensor_type

F32 = np.float32
FORMATS = {
    "e4m3x": Format("f8E4M3FN", 128, expand=True),
    "e5m2x": Format("f8E5M2", 128, expand=True),
    "f16x": Format("f16", 128, expand=True),
    "dyn8x": Format(load_book("bnb_dynamic_signed"), 256, expand=True),
}
PARTS = ["codes", "scale", "power", "centre"]


def draw_groups(name, times):
    """Groups of every kind, the last of them short: narrow and wide, constant, of zeros,
    with subnormals, and with ratios that overflow f32."""
    random, size = np.random.default_rng(17), FORMATS[name].group
    groups = []

    def add(magnitudes):
        signs = random.choice([-1, 1], len(magnitudes))
        groups.append((magnitudes * signs).astype(F32))

    for _ in range(times):
        for sigma in (1e-3, 0.05, 0.3, 1, 3, 8, 20):
            for centre in (-60, -12, 0, 40):
                exponents = centre + sigma * random.standard_normal(size)
                add(2.0 ** np.clip(exponents, -149, 127))
        for low, high in ((-149, 127), (-126, -20), (-100, 3), (-101, 20), (-110, 17)):
            magnitudes = 2.0 ** random.uniform(low, high, size)
            magnitudes[:2] = 2.0**low, 2.0**high
            add(magnitudes)
        add(np.full(size, 0.7))
        add(np.where(np.arange(size) % 2, 1.0, 1 + 2.0**-13))
        add(np.where(np.arange(size) % 2, 1.0, 1 + 2.0**-11))
        add(np.where(np.arange(size) % 3, 0.0, random.uniform(1e-4, 1, size)))
        add(np.where(np.arange(size) == 5, 3e-20, 0.0))
        add(np.zeros(size))
    add(random.uniform(1e-6, 1e-3, size // 2 + 3))
    return np.concatenate(groups)


def types(name, count):
    """The MLIR types of the parts and of the dequantized values."""
    parts = [tensor_type((n,), element) for n, element in FORMATS[name].parts(count)]
    return [*parts, tensor_type((count,), "f32")]


def body(name, count):
    """Ops that quantize %x into its parts and dequantize these to %y."""
    *parts, numbers = types(name, count)
    values = ", ".join(f"%{part}" for part in PARTS)
    form = f"format = {FORMATS[name].attribute()}"
    return f"""
  {values} = binade.quantize %x {{{form}, saturate}} : ({numbers}) -> ({", ".join(parts)})
  %y = binade.dequantize {values} {{{form}}} : ({", ".join(parts)}) -> {numbers}
  return {values}, %y : {", ".join([*parts, numbers])}
"""


def write_module(name, count):
    """A step whose input is a buffer."""

    def port(role, port):
        return f'{{binade.role = #binade.role<{role}>, binade.name = "{port}"}}'

    kinds = types(name, count)
    results = ", ".join(
        f"{kind} {port('output', part)}" for kind, part in zip(kinds, [*PARTS, "y"])
    )
    return (
        f"func.func @step(%x: {kinds[-1]} {port('buffer', 'x')}) -> ({results}) {{"
        f"{body(name, count)}}}\n"
    )


def quantize(name, x, backend):
    """The parts of a quantized tensor and the dequantized values, by name."""
    kinds = types(name, len(x))
    module = f"func.func @f(%x: {kinds[-1]}) -> ({', '.join(kinds)}) {{{body(name, len(x))}}}"
    values = evaluate(module, {"arg0": x}, "--backend", backend)
    return {part: values[f"result{i}"] for i, part in enumerate([*PARTS, "y"])}
