"""The cap of an update's norm relative to that of its parameter (`max_update_norm`, in
bitsandbytes `max_unorm`), for every rule. numpy computes the expected values."""

import subprocess

import numpy as np
import pytest
from support.paths import BUILD
from support.reference import evaluate
from support.storage_runs import Mlp

F32 = np.float32
SHAPES = {"matrix": (23, 41), "vector": (57,)}


def gradient_module():
    arguments, gradients, values = [], [], []
    for name, shape in SHAPES.items():
        kind = f"tensor<{'x'.join(map(str, shape))}xf32>"
        arguments.append(f'%{name}: {kind} {{binade.name = "{name}", '
                         "binade.role = #binade.role<parameter>}")  # fmt: skip
        gradients.append(f'{kind} {{binade.name = "{name}", '
                         "binade.role = #binade.role<gradient>}")  # fmt: skip
        values.append((f"%g_{name}", kind))
    batches = [f'{value}: {kind} {{binade.name = "{value[1:]}", '
               "binade.role = #binade.role<batch>}" for value, kind in values]  # fmt: skip
    kinds = ", ".join(kind for _, kind in values)
    return f"""
      func.func @gradient({", ".join(arguments + batches)}) -> (
          tensor<f32> {{binade.name = "loss", binade.role = #binade.role<metric>}},
          {", ".join(gradients)}) {{
        %loss = binade.reduce_sum %vector {{axes = array<i64: 0>}}
          : (tensor<57xf32>) -> tensor<f32>
        return %loss, {", ".join(value for value, _ in values)} : tensor<f32>, {kinds}
      }}"""


def append(rule, settings, groups=""):
    options = f"optimizer={{{rule}}} settings={','.join(settings)}"
    if groups:
        options += f" group={groups}"
    process = subprocess.run(
        [BUILD / "bin/binade-opt", f"--binade-append-optimizer={options}"],
        input=gradient_module(), capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    return process


# Each function computes one step from the list of states s, with the weight decay d as the
# rule applies it. It returns the change without the learning rate, and the new states.
def momentum(p, g, s, t, d):
    g = g + d * p
    return g if t == 1 else 0.9 * s[0] + g, [g if t == 1 else 0.9 * s[0] + g]


def adam(p, g, s, t, d):
    m, v = 0.9 * s[0] + 0.1 * g, 0.999 * s[1] + 0.001 * g * g
    u = m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return u + d * p, [m, v]


def rmsprop(p, g, s, t, d):
    g = g + d * p
    v = 0.99 * s[0] + 0.01 * g * g
    return g / (np.sqrt(v) + 1e-8), [v]


def adagrad(p, g, s, t, d):
    g = g + d * p
    v = s[0] + g * g
    return g / (np.sqrt(v) + 1e-10), [v]


def lion(p, g, s, t, d):
    return np.sign(0.9 * s[0] + 0.1 * g) + d * p, [0.99 * s[0] + 0.01 * g]


RULES = {
    "sgd": (momentum, ["momentum_buffer"], ["momentum=0.9"]),
    "adamw": (adam, ["exp_avg", "exp_avg_sq"], []),
    "rmsprop": (rmsprop, ["square_avg"], []),
    "adagrad": (adagrad, ["sum"], []),
    "lion": (lion, ["exp_avg"], []),
}


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("cap", [1e3, 1.0, 0.02])
@pytest.mark.parametrize("rule", RULES)
def test_rules_of_bitsandbytes(rule, cap, backend):
    formula, names, more = RULES[rule]
    lr, decay = 0.05, 0.1
    process = append(rule, [f"lr={lr}", f"weight_decay={decay}",
                            f"max_update_norm={cap}", *more])  # fmt: skip
    assert process.returncode == 0, process.stderr
    generator = np.random.default_rng(7)
    p = {name: generator.standard_normal(shape) for name, shape in SHAPES.items()}
    p["vector"] *= 40  # So that it is capped less often.
    states = {name: [np.zeros(shape) for _ in names] for name, shape in SHAPES.items()}
    held = {name: value.astype(F32) for name, value in p.items()}
    held |= {f"{state}/{name}": value.astype(F32)
             for name in p for state, value in zip(names, states[name])}  # fmt: skip
    capped = 0
    for t in range(1, 5):
        g = {f"g_{name}": generator.standard_normal(shape).astype(F32)
             for name, shape in SHAPES.items()}  # fmt: skip
        inputs = held | g | {"step": np.int64(t - 1)}
        found = evaluate(
            process.stdout, inputs, "--function", "step", "--backend", backend
        )
        for name in p:
            change, states[name] = formula(
                p[name], g[f"g_{name}"].astype(float), states[name], t, decay
            )
            length, size = np.linalg.norm(change), np.linalg.norm(p[name])
            ratio = cap * size / length if length > cap * size else 1
            capped += ratio < 1
            p[name] = p[name] - lr * ratio * change
            np.testing.assert_allclose(found[name], p[name], rtol=2e-5, atol=2e-6)
            for state, value in zip(names, states[name]):
                np.testing.assert_allclose(found[f"{state}/{name}"], value, rtol=2e-5,
                                           atol=2e-6)  # fmt: skip
        held = {name: found[name] for name in held}
    assert capped == 0 if cap == 1e3 else capped > (5 if cap == 0.02 else 0)
    # Without an effective cap, every bit is the same.
    if capped == 0:
        plain = append(rule, [f"lr={lr}", f"weight_decay={decay}", *more]).stdout
        wanted = evaluate(plain, inputs, "--function", "step", "--backend", backend)
        for name in held:
            np.testing.assert_array_equal(found[name], wanted[name])


@pytest.mark.parametrize("rule", ["adam", "ademamix", "rmsprop_centered", "signum", "tiger",
                                  "tiger_sgd", "lamb", "lars", "adafactor", "muon"])  # fmt: skip
def test_other_rules(rule):
    """The cap keeps the direction of a change and reduces its length to the limit."""
    cap, lr = 5e-4, 0.05
    generator = np.random.default_rng(8)
    held = {name: generator.standard_normal(shape).astype(F32)
            for name, shape in SHAPES.items()}  # fmt: skip
    g = {f"g_{name}": generator.standard_normal(shape).astype(F32)
         for name, shape in SHAPES.items()}  # fmt: skip
    changes = []
    for settings in ([f"lr={lr}"], [f"lr={lr}", f"max_update_norm={cap}"]):
        process = append(rule, settings)
        assert process.returncode == 0, process.stderr
        found = [evaluate(process.stdout, held | g, "--function", "step", "--backend",
                          backend) for backend in ("reference", "cpu")]  # fmt: skip
        for name in SHAPES:
            np.testing.assert_allclose(
                *(run[name] for run in found), rtol=1e-4, atol=1e-6
            )
        changes.append({name: found[1][name] - held[name] for name in SHAPES})
    for name in SHAPES:
        free, short = (change[name].ravel().astype(float) for change in changes)
        if not free.any():
            continue
        length = np.linalg.norm(short)
        limit = lr * cap * np.linalg.norm(held[name])
        assert np.linalg.norm(free) > limit
        np.testing.assert_allclose(length, limit, rtol=1e-2)
        cosine = free @ short / np.linalg.norm(free) / length
        assert cosine > 0.999


def test_a_parameter_of_zeros_can_move():
    process = append("adamw", ["lr=0.1", "max_update_norm=0.5"])
    held = {name: np.zeros(shape, F32) for name, shape in SHAPES.items()}
    g = {f"g_{name}": np.ones(shape, F32) for name, shape in SHAPES.items()}
    found = evaluate(process.stdout, held | g, "--function", "step", "--backend", "cpu")
    for name in SHAPES:
        np.testing.assert_allclose(found[name], -0.1, rtol=1e-6)


def test_a_run_with_8_bit_states(tmp_path):
    mlp = Mlp(tmp_path)
    begin = mlp.train("fp32", 1, "--lr", 0, out="begin")
    flags = ["--states", "*:dyn8", "--lr", 0.1, "--set", "max_update_norm=0.05"]
    end = mlp.train("fp32", 1, *flags, out="end")
    for name in [name for name in end if name.endswith("weight") and "/" not in name]:
        length = np.linalg.norm(end[name] - begin[name])
        limit = 0.1 * 0.05 * np.linalg.norm(begin[name])
        np.testing.assert_allclose(length, limit, rtol=1e-4)
    assert end["state/exp_avg/fc1_weight"].dtype == np.int8


def test_groups_have_their_own_cap():
    process = append("sgd", ["lr=0.1"], "vector:max_update_norm=0.01")
    assert process.returncode == 0, process.stderr
    held = {name: np.ones(shape, F32) for name, shape in SHAPES.items()}
    g = {f"g_{name}": np.ones(shape, F32) for name, shape in SHAPES.items()}
    found = evaluate(process.stdout, held | g, "--function", "step", "--backend", "cpu")
    np.testing.assert_allclose(found["matrix"], 0.9, rtol=1e-6)
    np.testing.assert_allclose(found["vector"], 1 - 0.1 * 0.01, rtol=1e-6)


@pytest.mark.parametrize("what, message", [
    ("%g_new = math.cbrt %g : f32", "'math.cbrt' cannot be applied to whole tensors"),
    ("%g_new = arith.addf %g, %g : f32", "has no setting 'lr'"),
])  # fmt: skip
def test_rules_that_cannot_be_capped(what, message, tmp_path):
    name = "lr" if "cbrt" in what else "rate"
    rule = tmp_path / "mine.mlir"
    rule.write_text(f"""
      binade.optimizer @mine {{states = [], hypers = [#binade.setting<"{name}" = 0.1>]}}
      func.func private @mine.scalars(%step: i64, %lr: f64) -> f64 {{ return %lr : f64 }}
      func.func private @mine.update(%p: f32, %g: f32, %lr: f32) -> f32 {{
        {what}
        return %g_new : f32
      }}""")
    process = append(rule, ["max_update_norm=1"])
    assert process.returncode != 0 and message in process.stderr
    assert "max_update_norm" in process.stderr


def test_offsets_cannot_be_capped():
    process = append("schedule_free_adamw", ["max_update_norm=1"])
    assert process.returncode != 0
    assert "whose changes alone 'max_update_norm' caps; leave it out" in process.stderr
