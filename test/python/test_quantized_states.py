"""Updates of quantized states: every rule with every format, step by step against the
rule on f32 states and the formats in numpy; recorded traces of other implementations."""

import json

import numpy as np
import pytest
from codec import FLOATS, GOLDEN, Format, formats, load_book
from reference import evaluate
from test_reference_optimizer import (
    RULES, SCALARS, STATES, from_bits, write_scalars,
)  # fmt: skip

F32 = np.float32
# What comes after lr among the hyper-parameters.
HYPERS = {
    "sgd": [0.9, 0, 0, 0], "adam": [0.9, 0.999, 1e-8, 0.01],
    "adamw": [0.9, 0.95, 1e-8, 0.1], "rmsprop": [0.99, 1e-8, 0.01],
    "rmsprop_centered": [0.99, 1e-8, 0.0, 0.9], "adagrad": [0.1, 1e-10, 0],
    "lion": [0.9, 0.99, 0.1], "signum": [0.9, 0.1],
    "ademamix": [0.9, 0.999, 0.9999, 5.0, 1e-8, 0.01, 0, 0],
}  # fmt: skip
# What is never negative.
UNSIGNED = ("exp_avg_sq", "square_avg", "sum")
PAIRS = [("e4m3", "f32"), ("dyn8", "e4m3x")]


def state_names(rule):
    text = (RULES / f"{rule}.mlir").read_text()
    states = text.split("states = [")[1].split("],")[0]
    return [part.split('"')[1] for part in states.split("#binade.setting<")[1:]]


def hyper_count(rule):
    text = (RULES / f"{rule}.mlir").read_text()
    return text.split("hypers = [")[1].split("]}")[0].count("#binade.setting")


def update_module(rule, hypers, size, kept, skip=False):
    """`@step(p, g, step, parts of states...) -> (p, parts...)`; `kept` holds a format,
    or None for f32, per state."""
    arguments, results, operands = [], [], []
    p, scalar = f"tensor<{size}xf32>", "tensor<f32>"
    arguments += [f'%p: {p} {{binade.name = "p"}}', f'%g: {p} {{binade.name = "g"}}',
                  '%t: tensor<i64> {binade.name = "step"}']  # fmt: skip
    if skip:
        arguments.append('%skip: tensor<i1> {binade.name = "skip"}')
    for index, form in enumerate(kept):
        parts = form.parts(size) if form else [(size, "f32")]
        for part, (count, element) in enumerate(parts):
            name, kind = f"s{index}.{part}", f"tensor<{count}x{element}>"
            arguments.append(
                f'%{name.replace(".", "_")}: {kind} {{binade.name = "{name}"}}'
            )
            results.append((kind, name))
            operands.append((f"%{name.replace('.', '_')}", kind))
    formats = ", ".join(form.attribute() if form else "unit" for form in kept)
    scalars = [f"%k#{i}" for i in range(SCALARS[rule])]
    kinds = [p, p, *(kind for _, kind in operands), *[scalar] * len(scalars)]
    kinds += ["tensor<i1>"] * skip
    out = ", ".join([p] + [kind for kind, _ in results])
    named = ", ".join(
        [f'{p} {{binade.name = "p"}}']
        + [f'{kind} {{binade.name = "{name}"}}' for kind, name in results]
    )
    count = 1 + len(results)
    return (
        (RULES / f"{rule}.mlir").read_text()
        + f"""
func.func @step({", ".join(arguments)}) -> ({named}) {{
{write_scalars(rule, hypers)}
  %u:{count} = binade.optimizer_update @{rule} %p, %g
    states({", ".join(name for name, _ in operands)}) scalars({", ".join(scalars)})
    {"skip(%skip)" if skip else ""} {{formats = [{formats}]}} : ({", ".join(kinds)}) -> ({out})
  return {", ".join(f"%u#{i}" for i in range(count))} : {out}
}}
"""
    )


def as_inputs(index, form, parts):
    """Parts under their names, typed as the module has them."""
    typed = {}
    for part, value in enumerate(parts):
        if part == 0 and form and not form.is_book:
            value = value.view(FLOATS[form.element])
        elif part == 0 and form:
            value = value.view(np.int8)
        typed[f"s{index}.{part}"] = value
    return typed


def start(kept, size):
    return [form.start(size) if form else [np.zeros(size, F32)] for form in kept]


def decode(kept, parts, size):
    return [form.decode(part, size) if form else part[0]
            for form, part in zip(kept, parts)]  # fmt: skip


def run_step(module, kept, parts, p, g, step, backend, **more):
    inputs = {"p": p, "g": g, "step": np.int64(step), **more}
    for index, (form, part) in enumerate(zip(kept, parts)):
        inputs |= as_inputs(index, form, part)
    outputs = evaluate(module, inputs, "--function", "step", "--backend", backend)
    new = [[outputs[f"s{index}.{i}"] for i in range(len(part))]
           for index, part in enumerate(parts)]  # fmt: skip
    for form, part in zip(kept, new):
        if form:
            part[0] = part[0].view(np.uint8)
    return outputs["p"], new


def cells(rule):
    """Each format for all states, and pairs of formats."""
    signs = [name not in UNSIGNED for name in state_names(rule)]
    names = [name for name in formats(True) if name != "f32"]
    if len(signs) == 1:
        yield from ((name, [formats(signs[0])[name]]) for name in names)
        return
    for name in names:
        yield name, [formats(signed)[name] for signed in signs]
    for first, rest in PAIRS:
        yield f"{first}+{rest}", [formats(signed)[rest if i else first]
                                  for i, signed in enumerate(signs)]  # fmt: skip


def check_state(form, part, state, name):
    """That `part` is what the format keeps of `state`, which is known but for the last
    bits: where terms cancel they matter, and most to the least magnitude of a group."""
    scale, power, centre = form.choose(state)
    if form.expand:
        assert (np.abs(part[2] - power) > 0).mean() <= 0.1, name
        np.testing.assert_allclose(part[2], power, rtol=0.1, err_msg=name)
        np.testing.assert_allclose(part[3], centre, rtol=1e-2, err_msg=name)
        same = part[2] == power
        np.testing.assert_allclose(part[1][same], scale[same], rtol=1e-2, err_msg=name)
    else:
        np.testing.assert_allclose(part[1], scale, rtol=1e-6, err_msg=name)
    codes, doubtful = form.encode(state, part[1:])
    got = form.unpack(part[0], len(state))
    assert doubtful.mean() < 0.05, name
    wrong = got[~doubtful] != codes[~doubtful]
    assert wrong.mean() < 0.002, name
    assert np.abs(got.astype(int) - codes).max() <= 1, name


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("rule", STATES)
def test_every_rule_with_every_format(rule, backend):
    size = 2500  # Groups of all sizes, the last of them short and odd.
    hypers = [0.01, *HYPERS[rule]]
    assert len(hypers) == hyper_count(rule)
    plain = update_module(rule, hypers, size, [None] * STATES[rule])
    for name, kept in cells(rule):
        generator = np.random.default_rng(3)
        p = generator.standard_normal(size).astype(F32)
        module = update_module(rule, hypers, size, kept)
        parts = start(kept, size)
        for step in range(3):
            g = (generator.standard_normal(size) * 1e-3).astype(F32)
            g *= np.exp(2 * generator.standard_normal(size)).astype(F32)
            g[generator.random(size) < 0.05] = 0
            before = [[state] for state in decode(kept, parts, size)]
            none = [None] * len(kept)
            wanted, states = run_step(plain, none, before, p, g, step, "reference")
            p, parts = run_step(module, kept, parts, p, g, step, backend)
            expansion = any(form and form.expand for form in kept)
            np.testing.assert_allclose(
                p, wanted, rtol=1e-5 if expansion else 1e-6, atol=1e-6, err_msg=name
            )
            for form, part, (state,) in zip(kept, parts, states):
                if form is None:
                    np.testing.assert_allclose(part[0], state, rtol=1e-5, atol=1e-12)
                    continue
                check_state(form, part, state, name)


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("name", ["e4m3x", "dyn8", "dyn4"])
def test_a_skipped_step_changes_no_bit(name, backend):
    size = 700
    kept = [formats(signed)[name] for signed in (True, False)]
    module = update_module("adamw", [0.01, *HYPERS["adamw"]], size, kept, skip=True)
    generator = np.random.default_rng(5)
    p, g = (generator.standard_normal(size).astype(F32) for _ in range(2))
    go, stop = np.bool_(False), np.bool_(True)
    p, parts = run_step(module, kept, start(kept, size), p, g, 0, backend, skip=go)
    g[7] = np.nan
    again, after = run_step(module, kept, parts, p, g, 1, backend, skip=stop)
    np.testing.assert_array_equal(again, p)
    for before, now in zip(parts, after):
        for mine, theirs in zip(now, before):
            np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_trace_of_adamw_with_expanded_states(backend):
    trace = json.loads((GOLDEN / "coat.json").read_text())["cases"]["adamw_trace"]
    kept = [Format("f8E4M3FN", 128, expand=True)] * 2
    hypers = [trace["lr"], *trace["betas"], trace["eps"], trace["wd"]]
    module = update_module("adamw", hypers, 128, kept)
    p, parts = from_bits(trace["param0"]), start(kept, 128)
    for step, record in enumerate(trace["steps"]):
        p, parts = run_step(
            module, kept, parts, p, from_bits(record["grad"]), step, backend
        )
        np.testing.assert_array_max_ulp(p, from_bits(record["param"]), maxulp=4)
        for part, codes, power in zip(parts, ("m_codes", "v_codes"), ("k_m", "k_v")):
            assert part[2] == F32(record[power])
            apart = part[0].astype(int) - np.array(record[codes])
            assert np.abs(apart).max() <= 1 and (apart != 0).mean() < 0.02


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_trace_of_8_bit_adam(backend):
    trace = json.loads((GOLDEN / "bnb8.json").read_text())["cases"]["adam8"]
    kept = [
        Format(load_book(f"bnb_dynamic_{kind}"), 256) for kind in ("signed", "unsigned")
    ]
    hyper = trace["hyper"]
    module = update_module(
        "adamw", [hyper["lr"], *hyper["betas"], hyper["eps"], hyper["wd"]], 256, kept
    )
    p, parts = from_bits(trace["param0"]), start(kept, 256)
    for step, record in enumerate(trace["steps"]):
        p, parts = run_step(
            module, kept, parts, p, from_bits(record["grad"]), step, backend
        )
        # Its kernels decay after the update, where AdamW decays before.
        np.testing.assert_allclose(p, from_bits(record["param"]), rtol=1e-6, atol=1e-7)
        for part, key in zip(parts, "12"):
            np.testing.assert_allclose(
                part[1], from_bits(record[f"absmax{key}"]), rtol=1e-6
            )
            apart = part[0].astype(int) - np.array(record[f"c{key}"])
            assert np.abs(apart).max() <= 1 and (apart != 0).mean() < 0.02
