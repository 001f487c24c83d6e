"""Ops that quantize, on each backend, and recorded values."""

import json

import numpy as np
import pytest
from support.codec import GOLDEN, load_book, write_book
from support.reference import evaluate, tensor_type

backends = pytest.mark.parametrize("backend", ["reference", "cpu", "simulator"])


def bits(values, dtype=np.uint32):
    return np.array([int(x, 16) for x in values], dtype)


def floats(recorded):
    return bits(recorded["x"]).view(np.float32)


def apply(op, operands, results, attributes, backend):
    """The results of one op, operands given as (array, MLIR's element type)."""
    types = [tensor_type(np.shape(x), element) for x, element in operands]
    out = [tensor_type(*result) for result in results]
    names = [f"%x{i}" for i in range(len(operands))]
    values = [f"%y#{i}" for i in range(len(out))] if len(out) > 1 else ["%y"]
    module = f"""
      func.func @f({", ".join(f"{n}: {t}" for n, t in zip(names, types))})
          -> ({", ".join(out)}) {{
        %y{f":{len(out)}" if len(out) > 1 else ""} = binade.{op} {", ".join(names)}
            {{{attributes}}} : ({", ".join(types)}) -> ({", ".join(out)})
        return {", ".join(values)} : {", ".join(out)}
      }}"""
    inputs = {f"arg{i}": x for i, (x, _) in enumerate(operands)}
    outputs = evaluate(module, inputs, "--backend", backend)
    return [outputs[f"result{i}"] for i in range(len(out))]


def quantize(x, form, parts, backend):
    """The parts of a quantized f32 tensor, and its dequantized values."""
    attributes = f"format = #binade.quantized<{form}>, saturate"
    operand = [(x, "f32")]
    got = apply("quantize", operand, parts, attributes, backend)
    typed = [(part, element) for part, (_, element) in zip(got, parts)]
    (back,) = apply("dequantize", typed, [(x.shape, "f32")],
                    f"format = #binade.quantized<{form}>", backend)  # fmt: skip
    return got, back


def load(name):
    return json.loads((GOLDEN / f"{name}.json").read_text())["cases"]


def book(name):
    return write_book(name, load_book(name))
