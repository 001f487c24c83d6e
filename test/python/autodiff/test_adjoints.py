"""Compares the gradients of every differentiable op with finite differences.

The loss is the sum of the op's result times random weights. The autodiff pass computes
its gradients, and the reference interpreter evaluates them. The slope along a random
direction must equal the central difference of two evaluations of the forward function.
Operands are f64, to keep the rounding error of the difference small.
"""

import dataclasses
import re

import numpy as np
import pytest
from support.gradients import RESULTS_IN_F32, axes, gradients_of
from support.paths import BUILD, ROOT
from support.reference import evaluate, tensor_type, type_of

OPT = BUILD / "bin" / "binade-opt"
RNG = np.array([7, 3])


def numbers(*shape, low=-2.0, high=2.0, seed=0):
    """Evenly spaced values in random order, so that no two are equal or close."""
    count = max(1, int(np.prod(shape)))
    spread = np.linspace(low, high, count + 2)[1:-1]
    mixed = np.random.default_rng([seed, count]).permutation(spread)
    return mixed.reshape(shape)


def positive(*shape, seed=0):
    return numbers(*shape, low=0.3, high=3.0, seed=seed)


@dataclasses.dataclass
class Case:
    """`op` with `attributes` on `operands`. Operands in f64 are parameters."""

    op: str
    operands: list
    result: tuple
    attributes: str = ""
    name: str = ""
    others: tuple = ()  # Shapes of the further results.
    tolerance: float = 2e-6

    def __str__(self):
        return f"{self.op}-{self.name}" if self.name else self.op


def unary(op, x, attributes="", name=""):
    return Case(op, [x], x.shape, attributes, name)


def binary(op, x, y, name=""):
    return Case(op, [x, y], x.shape, "", name)


def geometry(strides, low, high, dilations, groups=1, last=False):
    lists = {
        "strides": strides, "padding_low": low, "padding_high": high,
        "dilations": dilations,
    }  # fmt: skip
    parts = [f"{k} = array<i64: {', '.join(map(str, v))}>" for k, v in lists.items()]
    return ", ".join([*parts, f"groups = {groups} : i64"] + ["channels_last"] * last)


X, Y = numbers(3, 4, seed=1), numbers(3, 4, low=-1.9, seed=2)
LOGITS, LABELS = numbers(5, 6, seed=3), np.array([2, 5, -100, 0, 5])
Q, K, V = numbers(2, 4, 3, seed=4), numbers(2, 4, 3, seed=5), numbers(2, 4, 5, seed=6)
IMAGE = numbers(2, 4, 6, 5, seed=7)
TRAINING = "axis = 1 : i64, epsilon = 1.0e-5 : f64, training"
CASES = [
    *[unary(op, X) for op in ("neg", "abs", "exp", "tanh", "erf", "sigmoid", "relu",
                              "sin", "cos", "atan", "expm1", "softplus")],
    *[unary(op, positive(3, 4)) for op in ("log", "log1p", "sqrt", "reciprocal")],
    unary("log1p", numbers(3, 4, low=-0.9, high=0.5), name="negative"),
    unary("reciprocal", -positive(3, 4), name="negative"),
    unary("gelu", X, name="erf"),
    unary("silu", X),
    unary("gelu", X, "approximate = #binade.approximation<tanh>", "tanh"),
    *[binary(op, X, Y) for op in ("add", "sub", "mul", "max", "min")],
    binary("div", X, positive(3, 4)),
    binary("div", X, -positive(3, 4), "negative"),
    binary("pow", positive(3, 4), Y),
    Case("select", [X > Y, X, Y], X.shape),
    Case("cast", [X], X.shape, name="f64"),
    Case("reduce_sum", [X], (3,), axes(1)),
    Case("reduce_mean", [X], (4,), axes(0)),
    Case("reduce_mean", [numbers(2, 3, 4)], (3,), axes(0, 2), "two-axes"),
    Case("reduce_max", [X], (3,), axes(1)),
    Case("reshape", [X], (2, 6)),
    Case("transpose", [numbers(2, 3, 4)], (4, 2, 3), "permutation = array<i64: 2, 0, 1>"),
    Case("broadcast", [numbers(3, 1)], (2, 3, 4), axes(1, 2)),
    Case("slice", [X], (2, 2),
         "offsets = array<i64: 0, 1>, strides = array<i64: 2, 2>"),
    Case("pad", [numbers(2, 2)], (4, 5),
         "offsets = array<i64: 1, 0>, strides = array<i64: 2, 3>"),
    Case("concat", [X, numbers(3, 2), numbers(3, 1)], (3, 7), "axis = 1 : i64"),
    Case("matmul", [X, numbers(4, 5)], (3, 5)),
    Case("matmul", [numbers(4, 3), numbers(4, 5)], (3, 5), "transpose_lhs", "lhs"),
    Case("matmul", [X, numbers(5, 4)], (3, 5), "transpose_rhs", "rhs"),
    Case("matmul", [numbers(2, 4, 3), numbers(2, 5, 4), numbers(5)], (2, 3, 5),
         "transpose_lhs, transpose_rhs", "both-with-bias"),
    Case("conv", [IMAGE, numbers(6, 2, 3, 2), numbers(6)], (2, 6, 3, 4),
         geometry((2, 1), (1, 0), (0, 1), (1, 2), groups=2), "groups"),
    Case("conv", [numbers(2, 7, 3), numbers(4, 3, 3)], (2, 5, 4),
         geometry((1,), (0,), (0,), (1,), last=True), "channels-last"),
    Case("conv_input_grad", [numbers(2, 6, 3, 4), numbers(6, 2, 3, 2)], IMAGE.shape,
         geometry((2, 1), (1, 0), (0, 1), (1, 2), groups=2)),
    Case("conv_weight_grad", [numbers(2, 6, 3, 4), IMAGE], (6, 2, 3, 2),
         geometry((2, 1), (1, 0), (0, 1), (1, 2), groups=2)),
    Case("softmax", [LOGITS], LOGITS.shape),
    Case("log_softmax", [LOGITS], LOGITS.shape),
    Case("layer_norm", [LOGITS, numbers(6, seed=8), numbers(6, seed=9)], LOGITS.shape,
         "epsilon = 1.0e-5 : f64", others=((5,), (5,))),
    Case("layer_norm", [LOGITS, numbers(6, seed=8)], LOGITS.shape,
         "epsilon = 1.0e-5 : f64", "without-bias", others=((5,), (5,))),
    Case("rms_norm", [LOGITS, numbers(6, seed=8)], LOGITS.shape,
         "epsilon = 1.0e-5 : f64", others=((5,),)),
    Case("batch_norm", [numbers(4, 3, 2), *[positive(3, seed=s) for s in range(2)],
          *[positive(3, seed=s).astype(np.float32) for s in range(2, 4)]],
         (4, 3, 2), TRAINING.removesuffix(", training"), "evaluation",
         ),
    Case("attention", [Q, K, V], V.shape, "scale = 0.6 : f64", others=((2, 4),),
         tolerance=1e-5),
    Case("attention", [Q, K, V], V.shape, "scale = 0.6 : f64, causal", "causal",
         others=((2, 4),), tolerance=1e-5),
    Case("gather", [numbers(6, 3), np.array([[1, -1], [1, 0]])], (2, 2, 3)),
    Case("gather_grad", [numbers(2, 2, 3), np.array([[1, -1], [1, 0]])], (6, 3)),
    Case("cross_entropy", [LOGITS, LABELS], (5,), "ignore_index = -100 : i64",
         others=((5,), (5,)), tolerance=1e-4),
    Case("dropout", [numbers(6, 8), RNG], (6, 8), "ratio = 0.4 : f64, stream = 2 : i64"),
]  # fmt: skip


def is_parameter(case, index):
    return case.operands[index].dtype == np.float64


def loss_of(body, value, shape, dtype, arguments):
    """A module whose loss is the sum of `value` (of `shape`) times %weights."""
    type, weights = tensor_type(shape, dtype), tensor_type(shape, np.float64)
    parts = [
        f'%{name}: {type_of(array)} {{binade.name = "{name}", '
        f"binade.role = #binade.role<{role}>}}"
        for name, array, role in arguments
    ]
    return f"""
func.func @forward({", ".join(parts)},
    %weights: {weights} {{binade.name = "weights", binade.role = #binade.role<batch>}})
    -> (tensor<f64> {{binade.name = "loss", binade.role = #binade.role<metric>}}) {{
{body}
  %wide = binade.cast {value} : ({type}) -> {weights}
  %weighted = binade.mul %wide, %weights : ({weights}, {weights}) -> {weights}
  %loss = binade.reduce_sum %weighted {{{axes(*range(len(shape)))}}} : ({weights}) -> tensor<f64>
  return %loss : tensor<f64>
}}
"""


def module_of(case):
    names = [f"x{i}" for i in range(len(case.operands))]
    dtype = np.float32 if case.op in RESULTS_IN_F32 else np.float64
    results = [tensor_type(case.result, dtype)]
    results += [tensor_type(shape, np.float32) for shape in case.others]
    types = ", ".join(type_of(array) for array in case.operands)
    count = f":{len(results)}" if case.others else ""
    body = (
        f"  %y{count} = binade.{case.op} {', '.join('%' + n for n in names)} "
        f"{{{case.attributes}}} : ({types}) -> ({', '.join(results)})"
    )
    arguments = [
        (name, array, "parameter" if is_parameter(case, i) else "batch")
        for i, (name, array) in enumerate(zip(names, case.operands))
    ]
    return loss_of(body, "%y#0" if case.others else "%y", case.result, dtype, arguments)


def check(module, inputs, parameters, folder, tolerance):
    """Compares the slopes along two random directions of all parameters."""
    gradients = gradients_of(module, inputs, folder)
    assert set(gradients) == set(parameters)
    step = 1e-3 if tolerance > 2e-5 else 1e-4
    for seed in range(2):
        random = np.random.default_rng(seed)
        direction = {n: random.uniform(-1, 1, inputs[n].shape) for n in parameters}
        values = [
            evaluate(
                module, inputs | {n: inputs[n] + h * d for n, d in direction.items()}
            )
            for h in (step, -step)
        ]
        expected = (values[0]["loss"] - values[1]["loss"]) / (2 * step)
        terms = [
            np.sum(gradients[n].astype(np.float64) * d) for n, d in direction.items()
        ]
        scale = sum(np.sum(np.abs(gradients[n] * d)) for n, d in direction.items())
        assert abs(sum(terms) - expected) <= tolerance * scale, (sum(terms), expected)
        assert scale > 0


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients(case, tmp_path):
    inputs = {f"x{i}": array for i, array in enumerate(case.operands)}
    inputs["weights"] = numbers(*case.result, seed=99)
    parameters = [f"x{i}" for i in range(len(case.operands)) if is_parameter(case, i)]
    check(module_of(case), inputs, parameters, tmp_path, case.tolerance)


def test_every_differentiable_op_has_a_case():
    page = (ROOT / "docs/generated/Coverage.md").read_text()
    expected = set(re.findall(r"^\| `(\w+)` \| [\w ]+ \| yes \|", page, re.MULTILINE))
    assert len(expected) > 30
    assert {case.op for case in CASES} == expected


def test_gradients_of_a_value_with_many_uses(tmp_path):
    """w is both operands of a matmul, a gate, and an operand of an addition."""
    w, square = numbers(4, 4), "(tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>"
    body = f"""
  %product = binade.matmul %w, %w {{transpose_rhs}} : {square}
  %gate = binade.sigmoid %w : (tensor<4x4xf64>) -> tensor<4x4xf64>
  %gated = binade.mul %product, %gate : {square}
  %sum = binade.add %gated, %w : {square}
  %y = binade.sub %sum, %gate : {square}
"""
    module = loss_of(body, "%y", (4, 4), np.float64, [("w", w, "parameter")])
    inputs = {"w": w, "weights": numbers(4, 4, seed=1)}
    check(module, inputs, ["w"], tmp_path, 2e-6)


def test_gradients_through_batch_statistics(tmp_path):
    """In training, the statistics of batch_norm depend on its operand."""
    x, scale, bias = numbers(4, 3, 2), positive(3), numbers(3)
    body = f"""
  %mean, %variance = binade.batch_norm_statistics %x {{axis = 1 : i64}}
    : (tensor<4x3x2xf64>) -> (tensor<3xf32>, tensor<3xf32>)
  %y = binade.batch_norm %x, %scale, %bias, %mean, %variance {{{TRAINING}}}
    : (tensor<4x3x2xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf32>, tensor<3xf32>)
      -> tensor<4x3x2xf64>
"""
    arguments = [(n, a, "parameter") for n, a in
                 (("x", x), ("scale", scale), ("bias", bias))]  # fmt: skip
    module = loss_of(body, "%y", x.shape, np.float64, arguments)
    inputs = {n: a for n, a, _ in arguments} | {"weights": numbers(*x.shape, seed=1)}
    check(module, inputs, ["x", "scale", "bias"], tmp_path, 1e-3)


# Gradients at points without a derivative, as PyTorch and the ops' descriptions define them.
KINKS = [
    ("abs", "", [[0.0, -0.0, 2.0]], [[0.0, 0.0, 1.0]]),
    ("relu", "", [[0.0, -1.0, 2.0]], [[0.0, 0.0, 1.0]]),
    ("softplus", "", [[0.0, -800.0, 800.0]], [[0.5, 0.0, 1.0]]),
    ("max", "", [[1.0, 1.0, 0.0], [1.0, 2.0, -1.0]], [[0.5, 0, 1], [0.5, 1, 0]]),
    ("min", "", [[1.0, 1.0, 0.0], [1.0, 2.0, -1.0]], [[0.5, 1, 0], [0.5, 0, 1]]),
    ("pow", "", [[0.0, 0.0, 2.0], [2.0, 0.0, 0.0]], [[0, 0, 0], [0, 0, np.log(2)]]),
    ("reduce_max", axes(0), [[3.0, 1.0, 3.0]], [[0.5, 0, 0.5]]),
]


@pytest.mark.parametrize("op, attributes, operands, expected", KINKS)
def test_gradients_at_kinks(op, attributes, operands, expected, tmp_path):
    operands = [np.array(x) for x in operands]
    result = () if op == "reduce_max" else operands[0].shape
    case = Case(op, operands, result, attributes)
    inputs = {f"x{i}": x for i, x in enumerate(operands)} | {"weights": np.ones(result)}
    gradients = gradients_of(module_of(case), inputs, tmp_path)
    for i, gradient in enumerate(expected):
        np.testing.assert_allclose(gradients[f"x{i}"], gradient, rtol=1e-6)


def test_no_gradient_flows_through_signs_and_comparisons(tmp_path):
    x = numbers(5)
    body = """
  %s = binade.sign %x : (tensor<5xf64>) -> tensor<5xf64>
  %r = binade.round %s : (tensor<5xf64>) -> tensor<5xf64>
  %f = binade.floor %r : (tensor<5xf64>) -> tensor<5xf64>
  %e = binade.ceil %f : (tensor<5xf64>) -> tensor<5xf64>
  %c = binade.compare %x, %e {comparison = #binade.comparison<less>}
    : (tensor<5xf64>, tensor<5xf64>) -> tensor<5xi1>
  %n = binade.cast %c : (tensor<5xi1>) -> tensor<5xf64>
  %y = binade.mul %n, %x : (tensor<5xf64>, tensor<5xf64>) -> tensor<5xf64>
"""
    module = loss_of(body, "%y", (5,), np.float64, [("x", x, "parameter")])
    weights = numbers(5, seed=1)
    gradients = gradients_of(module, {"x": x, "weights": weights}, tmp_path)
    np.testing.assert_allclose(gradients["x"], weights * (x < np.sign(x)), rtol=1e-6)
