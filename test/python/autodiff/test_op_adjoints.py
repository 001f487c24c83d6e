"""Compares the gradients of the dialect's ops with PyTorch's, on random shapes.

test/data/make_op_adjoints.py recorded the gradients that PyTorch computes in f64. One
function contains all cases; its loss is the sum of their losses.
"""

import json
import re

import numpy as np
import pytest
from support.gradients import RESULTS_IN_F32, axes, gradients_of
from support.paths import ROOT
from support.reference import tensor_type, type_of

RECORDS = json.loads((ROOT / "test/data/op-adjoints.json").read_text())
OPS = sorted({record["op"] for record in RECORDS})
# Shapes of an op's f32 results after the first, from the shape of the first.
OTHERS = {
    "attention": lambda shape: (shape[:2],),
    "cross_entropy": lambda shape: (shape, shape),
    "layer_norm": lambda shape: (shape[:1], shape[:1]),
    "rms_norm": lambda shape: (shape[:1],),
}
# These ops compute some values in f32; PyTorch computes all in f64.
TOLERANCES = {"attention": 2e-6, "batch_norm": 2e-6, "cross_entropy": 1e-6,
              "layer_norm": 2e-6, "rms_norm": 2e-6}  # fmt: skip
SCALAR = "tensor<f64>"


def read(record):
    return np.array(record["values"], record["type"]).reshape(record["shape"])


def make_weights(shape):
    return np.linspace(-1.0, 1.5, int(np.prod(shape))).reshape(shape)


def write_part(index, record, inputs):
    """Arguments and ops of a case, which compute its loss. Adds the values of the
    arguments to `inputs`."""
    operands = [read(operand) for operand in record["operands"]]
    names = [f"x{index}.{place}" for place in range(len(operands))]
    arguments = []
    for name, operand in zip(names, operands):
        role = "parameter" if operand.dtype == np.float64 else "batch"
        arguments.append(
            f'%{name}: {type_of(operand)} {{binade.name = "{name}", '
            f"binade.role = #binade.role<{role}>}}"
        )
    op, shape = record["op"], tuple(record["y"]["shape"])
    wide = tensor_type(shape, np.float64)
    inputs |= dict(zip(names, operands)) | {f"w{index}": make_weights(shape)}
    arguments.append(
        f'%w{index}: {wide} {{binade.name = "w{index}", '
        "binade.role = #binade.role<batch>}"
    )
    results = [tensor_type(shape, np.float32 if op in RESULTS_IN_F32 else np.float64)]
    if op in OTHERS:
        results += [tensor_type(other, np.float32) for other in OTHERS[op](shape)]
    reads = ", ".join(f"%{name}" for name in names)
    types = ", ".join(map(type_of, operands))
    body = f"""
  %y{index}:{len(results)} = binade.{op} {reads} {{{record["attributes"]}}}
    : ({types}) -> ({", ".join(results)})
  %wide{index} = binade.cast %y{index}#0 : ({results[0]}) -> {wide}
  %part{index} = binade.mul %wide{index}, %w{index} : ({wide}, {wide}) -> {wide}
  %sum{index} = binade.reduce_sum %part{index} {{{axes(*range(len(shape)))}}}
    : ({wide}) -> {SCALAR}
  %loss{index + 1} = binade.add %loss{index}, %sum{index}
    : ({SCALAR}, {SCALAR}) -> {SCALAR}
"""
    return arguments, body


@pytest.fixture(scope="module")
def gradients(tmp_path_factory):
    arguments, body, inputs = [], "", {}
    for index, record in enumerate(RECORDS):
        more, ops = write_part(index, record, inputs)
        arguments += more
        body += ops
    arguments = ",\n    ".join(arguments)
    module = f"""func.func @forward({arguments})
    -> ({SCALAR} {{binade.name = "loss", binade.role = #binade.role<metric>}}) {{
  %loss0 = binade.constant dense<0.0> : {SCALAR}
{body}
  return %loss{len(RECORDS)} : {SCALAR}
}}"""
    return gradients_of(module, inputs, tmp_path_factory.mktemp("adjoints"))


def test_every_differentiable_op_has_a_record():
    page = (ROOT / "docs/generated/Coverage.md").read_text()
    differentiable = re.findall(r"^\| `(\w+)` \| [\w ]+ \| yes \|", page, re.MULTILINE)
    assert OPS == sorted(differentiable)


@pytest.mark.parametrize("op", OPS)
def test_gradients_match_pytorch(op, gradients):
    tolerance = TOLERANCES.get(op, 1e-12)
    for index, record in enumerate(RECORDS):
        if record["op"] != op:
            continue
        types = [operand["type"] for operand in record["operands"]]
        places = [place for place, type in enumerate(types) if type == "float64"]
        for place, expected in zip(places, map(read, record["gradients"]), strict=True):
            scale = max(1.0, np.abs(expected).max(initial=0.0))
            np.testing.assert_allclose(
                gradients[f"x{index}.{place}"], expected, rtol=tolerance,
                atol=tolerance * scale,
                err_msg=f"operand {place} of case {index}: {record['attributes']}",
            )  # fmt: skip
