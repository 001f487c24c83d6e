"""Updates by rules that depend on whole tensors, evaluated for one parameter."""

import numpy as np
from support.paths import ROOT
from support.reference import evaluate
from support.rules import Rule

F32 = np.float32
# Of forms that draw.
SEED, PLACE = 77, (7 << 32) + 41
GOLDEN = ROOT / "test/data/golden"


def from_bits(record, dtype=F32):
    word = f"u{np.dtype(dtype).itemsize}"
    return np.array([int(x, 16) for x in record["x"]], word).view(dtype)


def run(module, state, backend, **more):
    inputs = state | more
    if "%seed" in module:
        inputs = {"seed": np.int64(SEED), "place": np.int64(PLACE)} | inputs
    outputs = evaluate(module, inputs, "--function", "step", "--backend", backend)
    return {name: outputs[name] for name in state}


def start(rule, p, form, **more):
    shapes = Rule(rule).state_shapes(p.shape, form)
    return {"p": p} | {f"s{i}": np.zeros(s, F32) for i, s in enumerate(shapes)} | more


def draw(generator, *shape, scale=1.0):
    return (scale * generator.standard_normal(shape)).astype(F32)
