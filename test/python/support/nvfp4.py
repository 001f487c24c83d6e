"""Tensors in formats with a scale of the tensor above those of blocks."""

import numpy as np
from support.reference import evaluate, tensor_type

SHAPES = [(3, 48), (4, 40), (16, 32), (20, 24), (1, 16), (33, 7)]


def parts_of(shape, rows=1, columns=16, scale="f8E4M3FN"):
    down, across = -(-shape[0] // rows), -(-shape[1] // columns)
    return [(shape, "i8"), ((down, across), scale), ((), "f32")]


def same(found, expected):
    """Compares parts with (codes, codes of scales, tensor scale). Where a scale is NaN, the
    codes mean nothing."""
    codes, scales, tensor = (np.asarray(part) for part in found)
    np.testing.assert_array_equal(scales.view(np.uint8), expected[1])
    np.testing.assert_array_equal(tensor, expected[2])
    if not np.isnan(expected[2]):
        np.testing.assert_array_equal(codes.view(np.uint8), expected[0])


def quantize_all(tensors, form, backend, rows=1, columns=16):
    """The parts of each tensor, from one module. `form` has places for the size of a block."""
    form = f"#binade.quantized<{form.format(rows, columns)}>"
    lines, names, results = [], [], []
    for index, x in enumerate(tensors):
        types = [tensor_type(*part) for part in parts_of(x.shape, rows, columns)]
        lines.append(
            f"%y{index}:3 = binade.quantize %x{index} {{format = {form}, saturate}} : "
            f"({tensor_type(x.shape, 'f32')}) -> ({', '.join(types)})"
        )
        names += [f"%y{index}#{part}" for part in range(3)]
        results += types
    arguments = ", ".join(
        f"%x{i}: {tensor_type(x.shape, 'f32')}" for i, x in enumerate(tensors)
    )
    module = "\n".join(
        [f"func.func @f({arguments}) -> ({', '.join(results)}) {{", *lines,
         f"return {', '.join(names)} : {', '.join(results)}", "}"]
    )  # fmt: skip
    inputs = {f"arg{i}": x for i, x in enumerate(tensors)}
    outputs = evaluate(module, inputs, "--backend", backend)
    return [
        [outputs[f"result{3 * i + part}"] for part in range(3)]
        for i in range(len(tensors))
    ]
