"""Results go where the arguments of their name are, and every value that is read after
the step is the one that the IR names, whatever was overwritten on the way.

Steps are written by hand, compiled, and run twice through the C interface; NumPy says
what each tensor holds then.
"""

import json

import numpy as np
import pytest
from reference import binade
from test_runtime import LIBRARY, Runtime

pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason=f"{LIBRARY} is not built")

ROW, SQUARE = "tensor<4xf32>", "tensor<2x2xf32>"


def port(role, name):
    return f'{{binade.role = #binade.role<{role}>, binade.name = "{name}"}}'


def compile_step(folder, arguments, body, results):
    """Arguments as names; results as {name: value and type}: those that are no
    argument's are outputs."""
    inputs = ", ".join(f"%{n}: {ROW} {port('buffer', n)}" for n in arguments)
    outputs = ", ".join(
        f"{type_} {port('buffer' if name in arguments else 'output', name)}"
        for name, (_, type_) in results.items()
    )
    values = ", ".join(value for value, _ in results.values())
    types = ", ".join(type_ for _, type_ in results.values())
    (folder / "step.mlir").write_text(
        f"func.func @step({inputs}) -> ({outputs}) {{\n{body}\n"
        f"  return {values} : {types}\n}}\n"
    )
    for target in ("step.bnd", "plan.json"):
        options = ["--to", "plan"] if target == "plan.json" else []
        process = binade(
            "compile", folder / "step.mlir", "--from", "materialize", *options, "-o",
            folder / target,
        )  # fmt: skip
        assert process.returncode == 0, process.stderr
    runtime = Runtime()
    code, program = runtime.load(folder / "step.bnd")
    assert code == 0, runtime.error()
    return program, json.loads((folder / "plan.json").read_text())


NEG = f"  %n = binade.neg %a : ({ROW}) -> {ROW}"
VIEW = f"  %v = binade.reshape %a : ({ROW}) -> {SQUARE}"
SUM = f"  %s = binade.add %a, %b : ({ROW}, {ROW}) -> {ROW}"
# Each: what the step computes, its results as (value, type), their values in NumPy, and
# how many copies there have to be.
STEPS = {
    "swap": (
        "",
        {"a": ("%b", ROW), "b": ("%a", ROW)},
        lambda a, b, c: {"a": b, "b": a},
        3,
    ),
    "rotation": (
        "",
        {"a": ("%b", ROW), "b": ("%c", ROW), "c": ("%a", ROW)},
        lambda a, b, c: {"a": b, "b": c, "c": a},
        4,
    ),
    "chain": (
        NEG,
        {"a": ("%n", ROW), "b": ("%a", ROW), "c": ("%b", ROW)},
        lambda a, b, c: {"a": -a, "b": a, "c": b},
        3,
    ),
    "fan": (
        "",
        {"a": ("%c", ROW), "b": ("%a", ROW), "c": ("%a", ROW)},
        lambda a, b, c: {"a": c, "b": a, "c": a},
        4,
    ),
    "swap_beside_a_sum": (
        SUM,
        {"a": ("%b", ROW), "b": ("%a", ROW), "c": ("%s", ROW), "sum": ("%s", ROW)},
        lambda a, b, c: {"a": b, "b": a, "c": a + b, "sum": a + b},
        3,
    ),
    "output_of_an_argument": (
        NEG,
        {"a": ("%n", ROW), "old": ("%a", ROW)},
        lambda a, b, c: {"a": -a, "old": a},
        2,
    ),
    "output_of_a_view": (
        f"{VIEW}\n{NEG}",
        {"old": ("%v", SQUARE), "a": ("%n", ROW), "again": ("%a", ROW)},
        lambda a, b, c: {"old": a.reshape(2, 2), "a": -a, "again": a},
        3,
    ),
    "view_of_the_new": (
        f"{NEG}\n  %v = binade.reshape %n : ({ROW}) -> {SQUARE}",
        {"a": ("%n", ROW), "new": ("%v", SQUARE)},
        lambda a, b, c: {"a": -a, "new": -a.reshape(2, 2)},
        0,
    ),
    "swap_and_outputs": (
        VIEW,
        {"old": ("%v", SQUARE), "a": ("%b", ROW), "b": ("%a", ROW)},
        lambda a, b, c: {"old": a.reshape(2, 2), "a": b, "b": a},
        4,
    ),
}


@pytest.mark.parametrize("kind", STEPS)
def test_every_value_is_the_one_that_is_named(kind, tmp_path):
    body, results, expected, copies = STEPS[kind]
    program, plan = compile_step(tmp_path, "abc", body, results)
    assert sum(record["kind"] == "copy" for record in plan["records"]) == copies
    state = {
        name: np.arange(4, dtype=np.float32) + 10 * i + 1
        for i, name in enumerate("abc")
    }
    for name, array in state.items():
        assert program.assign("buffer", name, array) == 0
    for _ in range(2):
        assert program.run() == 0
        values = {name: array.copy() for name, array in expected(**state).items()}
        state |= {name: values[name] for name in values if name in state}
        for name, array in values.items():
            role = "buffer" if name in "abc" else "output"
            np.testing.assert_array_equal(program.find(role, name), array, name)
