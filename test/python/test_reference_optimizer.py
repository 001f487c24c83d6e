"""Optimizer rules and statistics in the reference against recorded PyTorch runs."""

import json

import numpy as np
import pytest
from reference import F16, ROOT, evaluate, evaluate_op, random

F32 = np.float32
GOLDEN = json.loads((ROOT / "test/data/golden/optim.json").read_text())["cases"]
RULES = ROOT / "lib/Optimizer/Rules"
STATES = {"sgd": ["momentum_buffer"], "adamw": ["exp_avg", "exp_avg_sq"]}
SCALARS = {"sgd": 6, "adamw": 7}
# Names of rows in the recorded file, and what follows the rule's order of hypers.
RUNS = {
    "torch_sgd": ("sgd", [0.1, 0, 0, 0, 0]),
    "torch_sgd_mom": ("sgd", [0.1, 0.9, 0, 0, 0]),
    "torch_sgd_nesterov_wd": ("sgd", [0.1, 0.9, 0, 0.01, 1]),
    "torch_sgd_damp": ("sgd", [0.1, 0.9, 0.5, 0, 0]),
    "torch_adamw": ("adamw", [1e-2, 0.9, 0.999, 1e-8, 0.1]),
}


def from_bits(record):
    return np.array([int(x, 16) for x in record["x"]], np.uint32).view(F32)


def step_module(rule, hypers, size, parameter="f32", factors=0, skip=False):
    """The rule and a step over one parameter: p, g, states, step -> p, states."""
    p, g, scalar = f"tensor<{size}x{parameter}>", f"tensor<{size}xf32>", "tensor<f32>"
    states = [f"%s{i}" for i in range(len(STATES[rule]))]
    scalars = [f"%k#{i}" for i in range(SCALARS[rule])]
    factor_names = [f"%f{i}" for i in range(factors)]
    arguments = [f'%p: {p} {{binade.name = "p"}}', f'%g: {g} {{binade.name = "g"}}',
                 '%t: tensor<i64> {binade.name = "step"}']  # fmt: skip
    arguments += [f'{s}: {g} {{binade.name = "s{i}"}}' for i, s in enumerate(states)]
    arguments += [f'{f}: {scalar} {{binade.name = "f{i}"}}'
                  for i, f in enumerate(factor_names)]  # fmt: skip
    arguments += ['%skip: tensor<i1> {binade.name = "skip"}'] * skip
    results = ", ".join([p] + [g] * len(states))
    named = ", ".join(
        [f'{p} {{binade.name = "p"}}']
        + [f'{g} {{binade.name = "s{i}"}}' for i in range(len(states))]
    )
    constants = "\n".join(
        f"  %h{i} = binade.constant dense<{h:.17e}> : tensor<f64>"
        for i, h in enumerate(hypers)
    )
    update = f"@{rule} %p, %g states({', '.join(states)}) scalars({', '.join(scalars)})"
    operand_types = [p, g, *[g] * len(states), *[scalar] * len(scalars)]
    if factors:
        update += f" factors({', '.join(factor_names)})"
        operand_types += [scalar] * factors
    if skip:
        update += " skip(%skip)"
        operand_types.append("tensor<i1>")
    hyper_types = ", ".join(["tensor<i64>"] + ["tensor<f64>"] * len(hypers))
    hyper_names = ", ".join(["%t"] + [f"%h{i}" for i in range(len(hypers))])
    return (
        (RULES / f"{rule}.mlir").read_text()
        + f"""
func.func @step({", ".join(arguments)}) -> ({named}) {{
{constants}
  %k:{len(scalars)} = binade.optimizer_scalars @{rule}({hyper_names})
    : ({hyper_types}) -> ({", ".join([scalar] * len(scalars))})
  %u:{1 + len(states)} = binade.optimizer_update {update}
    : ({", ".join(operand_types)}) -> ({results})
  return {", ".join(f"%u#{i}" for i in range(1 + len(states)))} : {results}
}}
"""
    )


def zeros(rule, like):
    return {f"s{i}": np.zeros(like.shape, F32) for i in range(len(STATES[rule]))}


@pytest.mark.parametrize("name", RUNS)
def test_rules_follow_pytorch(name):
    rule, hypers = RUNS[name]
    p = from_bits(GOLDEN["param0"])
    module, states = step_module(rule, hypers, len(p)), zeros(rule, p)
    for step, (record, expected) in enumerate(zip(GOLDEN["grads"], GOLDEN[name])):
        outputs = evaluate(module, {"p": p, "g": from_bits(record), "step": np.int64(step),
                                    **states}, "--function", "step")  # fmt: skip
        p, states = outputs["p"], {s: outputs[s] for s in states}
        np.testing.assert_array_max_ulp(p, from_bits(expected), maxulp=1)


def test_factors_multiply_the_gradient_in_f32():
    p, g = random(5, seed=1), random(5, seed=2)
    factors = F32(1 / 3), F32(0.7)
    module = step_module("sgd", [1.0, 0, 0, 0, 0], 5, factors=2)
    outputs = evaluate(
        module, {"p": p, "g": g, "step": np.int64(0), "f0": factors[0], "f1": factors[1],
                 **zeros("sgd", p)}, "--function", "step",
    )  # fmt: skip
    np.testing.assert_array_equal(outputs["p"], p - g * factors[0] * factors[1])


@pytest.mark.parametrize("skip", [False, True])
def test_a_skipped_step_keeps_everything(skip):
    p = random(5, F16, seed=3)
    g, s = random(5, seed=4), random(5, seed=5)
    module = step_module("sgd", [0.5, 0.9, 0, 0, 0], 5, parameter="f16", skip=True)
    outputs = evaluate(
        module, {"p": p, "g": g, "step": np.int64(3), "s0": s, "skip": np.bool_(skip)},
        "--function", "step",
    )  # fmt: skip
    momentum = F32(0.9) * s + g
    expected = p if skip else (p.astype(F32) - F32(0.5) * momentum).astype(F16)
    np.testing.assert_array_equal(outputs["p"], expected)
    np.testing.assert_array_equal(outputs["s0"], s if skip else momentum)


def test_gradient_statistics():
    x, y = random((3, 4), seed=6), random(5, F16, seed=7)
    squares, found = evaluate_op(
        "gradient_statistics", [x, y], [((), np.float64), ((), np.bool_)]
    )
    expected = np.sum(x.astype(np.float64) ** 2) + np.sum(y.astype(np.float64) ** 2)
    np.testing.assert_allclose(squares, expected, rtol=1e-14)
    assert not found
    for bad in (np.inf, -np.inf, np.nan):
        y[3] = bad
        _, found = evaluate_op(
            "gradient_statistics", [x, y], [((), np.float64), ((), np.bool_)]
        )
        assert found, bad


def test_kernels_over_many_tensors():
    """Two segments of different shapes, and what both reduce to."""
    rule = (RULES / "sgd.mlir").read_text()
    scalar = ", ".join(["tensor<f32>"] * 6)
    names = ", ".join(f"%k{i}" for i in range(6))
    arguments = ", ".join(f"%k{i}: tensor<f32>" for i in range(6))
    module = f"""{rule}
func.func private @update(%p: tensor<16xf32>, %g: tensor<16xf32>, %m: tensor<16xf32>,
                          {arguments}) -> (tensor<16xf32>, tensor<16xf32>)
    attributes {{binade.kernel = #binade.schedule<multi_tensor>}} {{
  %u:2 = binade.optimizer_update @sgd %p, %g states(%m) scalars({names})
    : (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, {scalar})
      -> (tensor<16xf32>, tensor<16xf32>)
  return %u#0, %u#1 : tensor<16xf32>, tensor<16xf32>
}}
func.func private @statistics(%g: tensor<16xf32>) -> (tensor<f64>, tensor<i1>)
    attributes {{binade.kernel = #binade.schedule<multi_tensor>}} {{
  %s:2 = binade.gradient_statistics %g : (tensor<16xf32>) -> (tensor<f64>, tensor<i1>)
  return %s#0, %s#1 : tensor<f64>, tensor<i1>
}}
func.func @step(%p: tensor<2x3xf32>, %q: tensor<4xf32>, %g: tensor<2x3xf32>,
                %h: tensor<4xf32>, %m: tensor<2x3xf32>, %n: tensor<4xf32>, {arguments})
    -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f64>,
        tensor<i1>) {{
  %s:2 = binade.launch [@statistics, @statistics](%g, %h)
    : (tensor<2x3xf32>, tensor<4xf32>) -> (tensor<f64>, tensor<i1>)
  %u:4 = binade.launch [@update, @update](%p, %g, %m, {names}, %q, %h, %n, {names})
    : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, {scalar},
       tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, {scalar})
      -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<4xf32>, tensor<4xf32>)
  return %u#0, %u#1, %u#2, %u#3, %s#0, %s#1
    : tensor<2x3xf32>, tensor<2x3xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f64>, tensor<i1>
}}
"""
    p, g, m = (random((2, 3), seed=seed) for seed in (1, 2, 3))
    q, h, n = (random(4, seed=seed) for seed in (4, 5, 6))
    h[2] = np.inf
    scalars = [0.5, 0.25, 1, 0, 0, 1]  # lr, momentum, keep, decay, ahead, reach
    values = [p, q, g, h, m, n, *map(F32, scalars)]
    outputs = evaluate(module, {f"arg{i}": v for i, v in enumerate(values)},
                       "--function", "step")  # fmt: skip
    new_m, new_n = F32(0.25) * m + g, F32(0.25) * n + h
    np.testing.assert_array_equal(outputs["result0"], p - F32(0.5) * new_m)
    np.testing.assert_array_equal(outputs["result1"], new_m)
    # Without Nesterov the rule adds 0 times the gradient, NaN where it is infinite.
    with np.errstate(invalid="ignore"):
        expected = q - F32(0.5) * (F32(0) * h + new_n)
    np.testing.assert_array_equal(outputs["result2"], expected)
    np.testing.assert_array_equal(outputs["result3"], new_n)
    assert outputs["result4"] == np.inf and outputs["result5"]


def test_a_kernel_of_one_tensor_and_a_call():
    module = """
func.func private @double(%x: tensor<4xf32>) -> tensor<4xf32>
    attributes {binade.kernel = #binade.schedule<elementwise>} {
  %y = binade.add %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = binade.launch [@double](%x) : (tensor<4xf32>) -> tensor<4xf32>
  %z = call @double(%y) : (tensor<4xf32>) -> tensor<4xf32>
  return %z : tensor<4xf32>
}
"""
    x = random(4, seed=8)
    outputs = evaluate(module, {"arg0": x})
    np.testing.assert_array_equal(outputs["result0"], 4 * x)
