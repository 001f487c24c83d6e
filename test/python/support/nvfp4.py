"""Tensors in formats with a scale of the tensor above those of blocks."""

import numpy as np
from support.reference import evaluate, tensor_type

SHAPES = [(3, 48), (4, 40), (16, 32), (20, 24), (1, 16), (33, 7)]


def parts_of(shape, rows=1, columns=16, scale="f8E4M3FN"):
    blocks = list(shape)
    for axis, size in ((-1, columns), (-2, rows)):
        if len(shape) >= -axis:
            blocks[axis] = -(-shape[axis] // size)
    return [(shape, "i8"), (tuple(blocks), scale), ((), "f32")]


def same(found, expected):
    """Compares parts with (codes, codes of scales, tensor scale). Where a scale is NaN, the
    codes mean nothing."""
    codes, scales, tensor = (np.asarray(part) for part in found)
    np.testing.assert_array_equal(scales.view(np.uint8), expected[1])
    np.testing.assert_array_equal(tensor, expected[2])
    if not np.isnan(expected[2]):
        np.testing.assert_array_equal(codes.view(np.uint8), expected[0])


def quantize_all(tensors, form, backend, rows=1, columns=16, random=None):
    """The parts of each tensor, from one module. `form` has places for the size of a block.
    `random` is (seed, step, stream) of a format that draws random numbers."""
    form = f"#binade.quantized<{form.format(rows, columns)}>"
    rng, stream, types_of_rng = "", "", ""
    if random:
        rng, types_of_rng = " rng(%rng)", ", tensor<2xi64>"
        stream = f", stream = {random[2]} : i64"
    lines, names, results = [], [], []
    for index, x in enumerate(tensors):
        types = [tensor_type(*part) for part in parts_of(x.shape, rows, columns)]
        lines.append(
            f"%y{index}:3 = binade.quantize %x{index}{rng} {{format = {form}, saturate{stream}}} "
            f": ({tensor_type(x.shape, 'f32')}{types_of_rng}) -> ({', '.join(types)})"
        )
        names += [f"%y{index}#{part}" for part in range(3)]
        results += types
    arguments = ", ".join(
        f"%x{i}: {tensor_type(x.shape, 'f32')}" for i, x in enumerate(tensors)
    )
    arguments += ", %rng: tensor<2xi64>" if random else ""
    module = "\n".join(
        [f"func.func @f({arguments}) -> ({', '.join(results)}) {{", *lines,
         f"return {', '.join(names)} : {', '.join(results)}", "}"]
    )  # fmt: skip
    inputs = {f"arg{i}": x for i, x in enumerate(tensors)}
    if random:
        inputs[f"arg{len(tensors)}"] = np.array(random[:2])
    outputs = evaluate(module, inputs, "--backend", backend)
    return [
        [outputs[f"result{3 * i + part}"] for part in range(3)]
        for i in range(len(tensors))
    ]
