"""Compares optimizer rules and gradient statistics with recorded runs of PyTorch and others,
and with the formulas of papers, in numpy, where PyTorch lacks the optimizer."""

import json

import numpy as np
import pytest
from support.golden import ULPS, from_bits
from support.paths import ROOT
from support.reference import F16, evaluate, evaluate_op, random
from support.rules import Rule, update_module

F32 = np.float32
GOLDEN = json.loads((ROOT / "test/data/golden/optim.json").read_text())["cases"]
# Names of rows in the recorded file: the rule, and values in the order of its hypers.
RUNS = {
    "torch_sgd": ("sgd", [0.1, 0, 0, 0, 0]),
    "torch_sgd_mom": ("sgd", [0.1, 0.9, 0, 0, 0]),
    "torch_sgd_nesterov_wd": ("sgd", [0.1, 0.9, 0, 0.01, 1]),
    "torch_sgd_damp": ("sgd", [0.1, 0.9, 0.5, 0, 0]),
    "torch_adam": ("adam", [1e-2, 0.9, 0.999, 1e-8, 0]),
    "torch_adam_l2": ("adam", [1e-2, 0.9, 0.999, 1e-8, 0.1]),
    "torch_adamw": ("adamw", [1e-2, 0.9, 0.999, 1e-8, 0.1]),
    "torch_adamw_amsgrad": ("adamw_amsgrad", [1e-2, 0.9, 0.999, 1e-8, 1e-2]),
    "torch_rmsprop": ("rmsprop", [1e-2, 0.99, 1e-8, 0]),
    "torch_rmsprop_centered_mom": ("rmsprop_centered", [1e-2, 0.99, 1e-8, 0, 0.9]),
    "torch_adagrad": ("adagrad", [1e-2, 0.1, 1e-10, 0]),
    "lion": ("lion", [1e-3, 0.9, 0.99, 0.1]),
}
# Rules of ONNX Runtime and ONNX, whose attributes are f32.
ATTRIBUTES = {
    "ort_adamw_mode0": ("adamw", [1e-2, 0.9, 0.999, 1e-8, 1e-2]),
    "ort_adamw_mode1": ("adamw_hf", [1e-2, 0.9, 0.999, 1e-8, 1e-2]),
    # Each counts its updates from 0.
    "onnx_adam_nc1e-3_post2e-3": ("adam_onnx", [1e-2, 0.9, 0.999, 1e-6, 1e-3, 2e-3]),
    "onnx_adagrad_nc1e-3_df0.1": ("adagrad", [1e-2, 0.1, 1e-6, 1e-3]),
    "onnx_momentum_standard": ("sgd", [1e-2, 0.9, 0.9, 1e-3, 0]),
    "onnx_momentum_nesterov": ("sgd", [1e-2, 0.9, 0.9, 1e-3, 1]),
}
RUNS |= {
    name: (rule, [float(F32(value)) for value in values])
    for name, (rule, values) in ATTRIBUTES.items()
}
INITIAL = {"torch_adagrad": 0.1}


def parts(row):
    """Records of the parameter and of states, as far as a row has them."""
    return (
        [row] if "f" in row else [part for part in row.values() if part != row.get("T")]
    )


def fill(rule, like, value=0.0):
    return {
        f"s{i}": np.full(like.shape, value, F32) for i in range(len(Rule(rule).states))
    }


@pytest.mark.parametrize("backend", ["reference", "cpu", "simulator"])
@pytest.mark.parametrize("name", RUNS)
def test_rules_follow_recorded_runs(name, backend):
    rule, hypers = RUNS[name]
    p = from_bits(GOLDEN["param0"])
    module = update_module(rule, hypers, len(p))
    states = fill(rule, p, INITIAL.get(name, 0.0))
    for step, (record, expected) in enumerate(zip(GOLDEN["grads"], GOLDEN[name])):
        outputs = evaluate(module, {"p": p, "g": from_bits(record), "step": np.int64(step),
                                    **states}, "--function", "step", "--backend",
                           backend)  # fmt: skip
        p, states = outputs["p"], {s: outputs[s] for s in states}
        for value, record in zip([p, *states.values()], parts(expected)):
            np.testing.assert_array_max_ulp(
                value, from_bits(record), maxulp=ULPS.get(name, 1)
            )


def signum(p, g, states, t, lr, beta, weight_decay):
    m = beta * states[0] + (1 - beta) * g
    return p - lr * (np.sign(m) + weight_decay * p), [m]


def ademamix(p, g, states, t, lr, b1, b2, b3, alpha, eps, weight_decay, t_alpha, t_b3):
    """Algorithm 1 of the paper; half-lives of the slow mean grow evenly."""
    fast, slow, v = states
    if t < t_alpha:
        alpha *= t / t_alpha
    if t < t_b3:
        half_life = [np.log(0.5) / np.log(b) - 1 for b in (b1, b3)]
        now = half_life[0] + t / t_b3 * (half_life[1] - half_life[0])
        b3 = np.exp(np.log(0.5) / (now + 1))
    fast = b1 * fast + (1 - b1) * g
    slow = b3 * slow + (1 - b3) * g
    v = b2 * v + (1 - b2) * g * g
    top = fast / (1 - b1**t) + alpha * slow
    update = top / (np.sqrt(v / (1 - b2**t)) + eps) + weight_decay * p
    return p - lr * update, [fast, slow, v]


PAPERS = {
    "signum": (signum, [1e-2, 0.9, 0.1]),
    "ademamix": (ademamix, [1e-2, 0.9, 0.99, 0.999, 5, 1e-8, 0.1, 0, 0]),
    "ademamix growing": (ademamix, [1e-2, 0.9, 0.99, 0.999, 5, 1e-8, 0.1, 3, 6]),
}


@pytest.mark.parametrize("backend", ["reference", "cpu", "simulator"])
@pytest.mark.parametrize("name", PAPERS)
def test_rules_follow_papers(name, backend):
    formula, hypers = PAPERS[name]
    rule = name.split()[0]
    p, draw = random(50, seed=1), np.random.default_rng(2)
    module, states = update_module(rule, hypers, len(p)), fill(rule, p)
    exact, exact_states = p.astype(float), [np.zeros(50)] * len(Rule(rule).states)
    for step in range(8):
        g = draw.normal(size=50).astype(F32)
        g[:3] = 0  # A sign of 0 is 0.
        outputs = evaluate(module, {"p": p, "g": g, "step": np.int64(step), **states},
                           "--function", "step", "--backend", backend)  # fmt: skip
        p, states = outputs["p"], {s: outputs[s] for s in states}
        exact, exact_states = formula(exact, g.astype(float), exact_states, step + 1,
                                      *hypers)  # fmt: skip
        np.testing.assert_allclose(p, exact, rtol=2e-6, atol=2e-7)
        for i, state in enumerate(exact_states):
            np.testing.assert_allclose(states[f"s{i}"], state, rtol=2e-6, atol=1e-7)


def test_factors_multiply_the_gradient_in_f32():
    p, g = random(5, seed=1), random(5, seed=2)
    factors = F32(1 / 3), F32(0.7)
    module = update_module("sgd", [1.0, 0, 0, 0, 0], 5, factors=2)
    outputs = evaluate(
        module, {"p": p, "g": g, "step": np.int64(0), "f0": factors[0], "f1": factors[1],
                 **fill("sgd", p)}, "--function", "step",
    )  # fmt: skip
    np.testing.assert_array_equal(outputs["p"], p - g * factors[0] * factors[1])


@pytest.mark.parametrize("skip", [False, True])
def test_a_skipped_step_keeps_everything(skip):
    p = random(5, F16, seed=3)
    g, s = random(5, seed=4), random(5, seed=5)
    module = update_module("sgd", [0.5, 0.9, 0, 0, 0], 5, parameter="f16", skip=True)
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


def test_multi_tensor_kernels():
    """Updates two segments of different shapes, and reduces both to one statistic."""
    rule = Rule("sgd").text
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
