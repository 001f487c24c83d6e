"""A step stores each result in the memory of the argument that it replaces, and no value
is overwritten before its last use.

Steps are written by hand, compiled, and run twice through the C interface. NumPy
computes the expected tensors.
"""

import json
import resource

import numpy as np
import pytest
from support.reference import binade
from support.runtime import LIBRARY, Runtime

pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason=f"{LIBRARY} is not built")

ROW, SQUARE = "tensor<4xf32>", "tensor<2x2xf32>"


def port(role, name):
    return f'{{binade.role = #binade.role<{role}>, binade.name = "{name}"}}'


def compile_step(folder, arguments, body, results):
    """Compiles a step and returns the program and the plan. `arguments` are names and
    `results` is {name: (value, type)}. Results without an argument become outputs."""
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
# Name: (body of the step, results as {name: (value, type)}, their values in NumPy,
# number of copies in the plan).
STEPS = {
    "swap": (
        "",
        {"a": ("%b", ROW), "b": ("%a", ROW)},
        lambda a, b, c, d: {"a": b, "b": a},
        3,
    ),
    "rotation": (
        "",
        {"a": ("%b", ROW), "b": ("%c", ROW), "c": ("%a", ROW)},
        lambda a, b, c, d: {"a": b, "b": c, "c": a},
        4,
    ),
    "chain": (
        NEG,
        {"a": ("%n", ROW), "b": ("%a", ROW), "c": ("%b", ROW)},
        lambda a, b, c, d: {"a": -a, "b": a, "c": b},
        3,
    ),
    "fan": (
        "",
        {"a": ("%c", ROW), "b": ("%a", ROW), "c": ("%a", ROW)},
        lambda a, b, c, d: {"a": c, "b": a, "c": a},
        3,  # c is copied from b, without a temporary.
    ),
    "swap_next_to_a_sum": (
        SUM,
        {"a": ("%b", ROW), "b": ("%a", ROW), "c": ("%s", ROW), "sum": ("%s", ROW)},
        lambda a, b, c, d: {"a": b, "b": a, "c": a + b, "sum": a + b},
        3,
    ),
    "output_of_an_argument": (
        NEG,
        {"a": ("%n", ROW), "old": ("%a", ROW)},
        lambda a, b, c, d: {"a": -a, "old": a},
        2,
    ),
    "output_of_a_view": (
        f"{VIEW}\n{NEG}",
        {"old": ("%v", SQUARE), "a": ("%n", ROW), "again": ("%a", ROW)},
        lambda a, b, c, d: {"old": a.reshape(2, 2), "a": -a, "again": a},
        3,
    ),
    "two_cycles": (
        "",
        {"b": ("%d", ROW), "a": ("%c", ROW), "c": ("%a", ROW), "d": ("%b", ROW)},
        lambda a, b, c, d: {"a": c, "b": d, "c": a, "d": b},
        6,
    ),
    "view_of_the_new": (
        f"{NEG}\n  %v = binade.reshape %n : ({ROW}) -> {SQUARE}",
        {"a": ("%n", ROW), "new": ("%v", SQUARE)},
        lambda a, b, c, d: {"a": -a, "new": -a.reshape(2, 2)},
        0,
    ),
    "swap_and_outputs": (
        VIEW,
        {"old": ("%v", SQUARE), "a": ("%b", ROW), "b": ("%a", ROW)},
        lambda a, b, c, d: {"old": a.reshape(2, 2), "a": b, "b": a},
        3,
    ),
}


@pytest.mark.parametrize("kind", STEPS)
def test_no_value_is_overwritten_before_its_last_use(kind, tmp_path):
    body, results, expected, copies = STEPS[kind]
    program, plan = compile_step(tmp_path, "abcd", body, results)
    labels = [r["label"] for r in plan["records"] if r["kind"] == "copy"]
    assert len(labels) == copies
    assert set(labels) <= {f"copy {name}" for name in results}
    state = {
        name: np.arange(4, dtype=np.float32) + 10 * i + 1
        for i, name in enumerate("abcd")
    }
    for name, array in state.items():
        assert program.assign("buffer", name, array) == 0
    for _ in range(2):
        assert program.run() == 0
        values = {name: array.copy() for name, array in expected(**state).items()}
        state |= {name: values[name] for name in values if name in state}
        for name, array in values.items():
            role = "buffer" if name in "abcd" else "output"
            np.testing.assert_array_equal(program.find(role, name), array, name)


LONG = "tensor<64xf32>"
# Name: (arguments and results as (type, role, name), the argument that all results
# return, the error).
INVALID = {
    "other_type": (
        [(ROW, "buffer", "a"), (LONG, "batch", "x")],
        [(LONG, "buffer", "a")],
        "%1",
        f"expected the result that replaces buffer 'a' to have its type '{ROW}', "
        f"but got '{LONG}'",
    ),
    "two_successors": (
        [(ROW, "buffer", "a")],
        [(ROW, "buffer", "a"), (ROW, "buffer", "a")],
        "%0",
        "expected at most one result with the role and name buffer 'a'",
    ),
    "two_outputs": (
        [(ROW, "buffer", "a")],
        [(ROW, "output", "y"), (ROW, "output", "y")],
        "%0",
        "expected at most one result with the role and name output 'y'",
    ),
    "two_arguments": (
        [(ROW, "buffer", "a"), (ROW, "buffer", "a")],
        [(ROW, "buffer", "a")],
        "%1",
        "expected at most one argument with the role and name buffer 'a'",
    ),
}


@pytest.mark.parametrize("kind", INVALID)
def test_a_result_must_match_the_argument_that_it_replaces(kind, tmp_path):
    arguments, results, returned, message = INVALID[kind]
    inputs = ", ".join(
        f"%{i}: {type_} {port(role, name)}"
        for i, (type_, role, name) in enumerate(arguments)
    )
    outputs = ", ".join(f"{type_} {port(role, name)}" for type_, role, name in results)
    values = ", ".join(returned for _ in results)
    types = ", ".join(type_ for type_, _, _ in results)
    (tmp_path / "step.mlir").write_text(
        f"func.func @step({inputs}) -> ({outputs}) {{\n"
        f"  return {values} : {types}\n}}\n"
    )
    process = binade(
        "compile", tmp_path / "step.mlir", "--from", "materialize", "-o",
        tmp_path / "step.bnd",
    )  # fmt: skip
    assert process.returncode == 3, process.stderr
    assert f"step.mlir:1:1: error: {message}" in process.stderr
    assert not (tmp_path / "step.bnd").exists()


def test_many_ports_take_no_quadratic_time(tmp_path):
    """8000 arguments take 0.3 s of CPU time; a linear search for each one takes 12 s."""
    count = 8000
    names = [f"b{i}" for i in range(count)]
    inputs = ", ".join(f"%{n}: {ROW} {port('buffer', n)}" for n in names)
    outputs = ", ".join(f"{ROW} {port('buffer', n)}" for n in names)
    values = ", ".join(f"%{n}" for n in names[1:] + names[:1])
    (tmp_path / "step.mlir").write_text(
        f"func.func @step({inputs}) -> ({outputs}) {{\n"
        f"  return {values} : {', '.join([ROW] * count)}\n}}\n"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    process = binade(
        "compile", tmp_path / "step.mlir", "--from", "materialize", "-o",
        tmp_path / "step.bnd",
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 4
