"""Codes of the operands of a weight gradient in a compiled step."""

import re
import sys

import numpy as np
from support.nvfp4 import same
from support.paths import ROOT
from support.philox import draw_elements
from support.quantized_products import (
    IN,
    OUT,
    build_step,
    check,
    draw,
    materialize,
    product,
    return_also,
)
from support.reference import evaluate

sys.path.append(str(ROOT / "test/data"))
import make_nvfp4 as published  # noqa: E402

SEED, STEP = 77, 3


def find_codes(module):
    """Returns, in the order of the step, the parts of each value that is quantized by columns, and
    the streams of its random numbers."""
    found = re.findall(
        r"(%\w+):3 = binade\.quantize .*per_block<16, 1>(.*) -> \((.*), (.*), (.*)\)\n", module
    )  # fmt: skip
    parts = [
        [(f"{name}#{i}", one) for i, one in enumerate(types)]
        for name, _, *types in found
    ]
    streams = [re.search(r"stream = (\d+)", rest) for _, rest, *_ in found]
    return parts, [int(stream[1]) if stream else None for stream in streams]


def run(policy, rows, backend, step=STEP, **values):
    """Returns the outputs of a step, its values, and the codes of the operands of wgrad: for each,
    its parts, and its random numbers if it is rounded stochastically."""
    v = draw(21, rows=rows) | values
    module = materialize(policy, build_step(rows))
    parts, streams = find_codes(module)
    module = return_also(module, [one for group in parts for one in group])
    random = {"rng": np.array([SEED, step])} if '"rng"' in module else {}
    outputs = evaluate(module, v | random, "--backend", backend)
    codes = [np.asarray(outputs[f"result{i}"]) for i in range(3 * len(parts))]
    random = [
        None
        if stream is None
        else draw_elements(rows * width, SEED, step, stream).reshape(rows, width).T
        for stream, width in zip(streams, (IN, OUT))
    ]
    return outputs, v, list(zip([codes[:3], codes[3:]], random))


def check_gradient(outputs, codes, operands):
    """Compares codes and the gradient of the weight, where `operands` are transformed."""
    read = []
    for (found, random), x in zip(codes, operands):
        parts = published.quantize(x.T.copy(), random=random)
        same(found, (parts[0].T, parts[1].T, parts[2]))
        read.append(published.dequantize(*parts).T.astype(float))
    check(outputs, {"w": product(read[0].T, read[1])})
