"""Writes test/data/subgradients.json: gradients at singular points, by PyTorch in f32.

usage: make_subgradients.py

Each case is a function of tensors, the ONNX nodes that exporters write for it, and
points where its derivative does not exist or where the formula for it breaks down: kinks, ties,
poles, bounds, zeros. The loss is the sum of the results times weights; gradients are
recorded for weights that are not 0 and for weights of 0. test_subgradients.py compares,
docs/Gradients.md has the conventions. Needs torch.
"""

import json
import math
import pathlib

import torch
import torch.nn.functional as F

CASES = []
INF, NAN = math.inf, math.nan


def case(name, graph, function, *points, torch_op="", metadata=None, others=None):
    """Nodes `graph` that compute y of x0, x1, ... and of `others` (integers, constants) are
    `function` of the same. `torch_op`: what PyTorch's exporter says that it wrote the
    nodes for, `metadata` other metadata of the nodes."""
    assert name not in {other["name"] for other in CASES}, name
    CASES.append({"name": name, "graph": graph, "function": function, "points": points,
                  "torch_op": torch_op, "metadata": metadata or {}, "others": others or {}})  # fmt: skip


def unary(name, op, function, points, **options):
    case(name, f"y = {op}(x0)", function, points, **options)


def constant(name, value):
    first = value[0] if isinstance(value, list) else value
    kind = "value_float" if isinstance(first, float) else "value_int"
    kind += "s" if isinstance(value, list) else ""
    return f"{name} = Constant <{kind} = {value}> ()  "


AXIS = constant("axis", [1])
ROWS = [[0.0, 0.0], [0.0, 2.0], [-3.0, 4.0]]


def add_elementwise():
    unary("abs", "Abs", torch.abs, [0.0, -0.0, 2.0, -2.0])
    unary("sign", "Sign", torch.sign, [0.0, -0.0, 3.0])
    unary("floor", "Floor", torch.floor, [0.0, 1.0, 1.5])
    unary("ceil", "Ceil", torch.ceil, [0.0, 1.0, 1.5])
    unary("round", "Round", torch.round, [0.5, 1.0, 2.5])
    unary("sqrt", "Sqrt", torch.sqrt, [0.0, 4.0, -1.0])
    case("rsqrt", "r = Sqrt(x0)  y = Reciprocal(r)", torch.rsqrt, [0.0, 4.0])
    unary("reciprocal", "Reciprocal", torch.reciprocal, [0.0, -2.0])
    unary("log", "Log", torch.log, [0.0, 2.0])
    case("log1p", constant("one", 1.0) + "s = Add(x0, one)  y = Log(s)", torch.log1p,
         [-1.0, 0.0])  # fmt: skip
    unary("exp", "Exp", torch.exp, [-INF, 0.0])
    unary("erf", "Erf", torch.erf, [0.0, INF, -INF])
    unary("tanh", "Tanh", torch.tanh, [0.0, INF, -INF])
    unary("sigmoid", "Sigmoid", torch.sigmoid, [0.0, INF, -INF])
    unary("atan", "Atan", torch.atan, [0.0, INF])
    unary("asin", "Asin", torch.asin, [1.0, -1.0, 0.0, 0.5, 2.0])
    unary("acos", "Acos", torch.acos, [1.0, -1.0, 0.0, -0.5, 2.0])
    unary("acosh", "Acosh", torch.acosh, [1.0, 2.0, 0.5])
    unary("asinh", "Asinh", torch.asinh, [0.0, -0.0, -3.0])
    unary("atanh", "Atanh", torch.atanh, [1.0, -1.0, 0.0, 2.0])
    unary("sinh", "Sinh", torch.sinh, [0.0, -1.0, 1.0])
    unary("cosh", "Cosh", torch.cosh, [0.0, -1.0])
    case(
        "div", "y = Div(x0, x1)", torch.div, [0.0, 1.0, 1.0, 3.0], [0.0, 0.0, INF, 2.0]
    )
    case("pow", "y = Pow(x0, x1)", torch.pow,
         [0.0, 0.0, 0.0, 0.0, 0.0, 2.0, -2.0], [0.0, 1.0, 0.5, -1.0, 2.0, 0.0, 2.0])  # fmt: skip
    for exponent in (0.0, 0.5, 1.0, 2.0, 3.0, -1.0):
        case(f"pow {exponent}", constant("e", exponent) + "y = Pow(x0, e)",
             lambda x, e=exponent: x**e, [0.0, 2.0])  # fmt: skip
    case("pow of exponents", constant("e", [0.0, 1.0, 2.0]) + "y = Pow(x0, e)",
         lambda x: x ** torch.tensor([0.0, 1.0, 2.0]), [0.0, 0.0, 0.0])  # fmt: skip
    case("power of zero", constant("z", 0.0) + "y = Pow(z, x0)",
         lambda x: torch.pow(torch.tensor(0.0), x), [0.0, -1.0, 2.0])  # fmt: skip
    case("mod", "y = Mod <fmod = 1> (x0, x1)", torch.fmod,
         [3.0, -3.0, 4.0, 1.0, -1.0], [2.0, 2.0, 2.0, 0.0, INF])  # fmt: skip
    case("remainder", "q = Div(x0, x1)  f = Floor(q)  m = Mul(f, x1)  y = Sub(x0, m)",
         torch.remainder, [3.0, -3.0, 4.0], [2.0, 2.0, 2.0])  # fmt: skip
    case("root not taken", constant("z", 0.0) +
         "c = Greater(x0, z)  r = Sqrt(x0)  y = Where(c, r, x0)",
         lambda x: torch.where(x > 0, torch.sqrt(x), x), [0.0, -1.0, 4.0])  # fmt: skip
    case("logarithm not taken", constant("z", 0.0) +
         "c = Greater(x0, z)  l = Log(x0)  y = Where(c, l, z)",
         lambda x: torch.where(x > 0, torch.log(x), torch.tensor(0.0)), [0.0, 4.0])  # fmt: skip


# What the exporter writes for torch.atan2.
ATAN2 = (constant("z", 0.0) + constant("pi", math.pi) + """
    q = Div(x0, x1)  a = Atan(q)  p = Greater(x0, z)  u = Add(a, pi)  d = Sub(a, pi)
    s = Where(p, u, d)  n = Less(x1, z)  """)  # fmt: skip


def add_angles():
    points = (
        [0.0, 1.0, -1.0, 1.0, -1.0, 2.0, 0.0],
        [0.0, 0.0, 0.0, -2.0, -2.0, 1.0, 3.0],
    )
    case("atan2", ATAN2 + "y = Where(n, s, a)", torch.atan2, *points)
    case("atan2 without nan", ATAN2 + "w = Where(n, s, a)  i = IsNaN(w)  y = Where(i, z, w)",
         torch.atan2, *points)  # fmt: skip
    case("atan2 of a row", ATAN2 + "y = Where(n, s, a)", torch.atan2,
         [[0.0, 1.0], [-1.0, 2.0]], [0.0, -1.0])  # fmt: skip


def add_extremes():
    for op, function in (("Max", torch.maximum), ("Min", torch.minimum)):
        case(
            op,
            f"y = {op}(x0, x1)",
            function,
            [1.0, 0.0, 1.0, NAN],
            [1.0, -0.0, 3.0, 1.0],
        )
        case(f"{op} of three", f"y = {op}(x0, x1, x2)",
             lambda a, b, c, f=function: f(f(a, b), c),
             [1.0, 1.0, 0.0], [1.0, 2.0, 1.0], [1.0, 1.0, 1.0])  # fmt: skip
        name = op.lower() + "imum.default"
        case(f"{op} of a constant", constant("c", 1.0) + f"y = {op}(x0, c)",
             lambda x, f=function: f(x, torch.tensor(1.0)), [1.0, 0.0, 2.0], torch_op=name)  # fmt: skip
    case("clamp", constant("l", -1.0) + constant("h", 1.0) + "y = Clip(x0, l, h)",
         lambda x: x.clamp(-1.0, 1.0), [-1.0, 1.0, 0.0, -2.0, 2.0])  # fmt: skip
    case("clamp by Max and Min", constant("l", -1.0) + constant("h", 1.0) +
         "m = Max(x0, l)  y = Min(m, h)",
         lambda x: x.clamp(-1.0, 1.0), [-1.0, 1.0, 0.0, -2.0, 2.0])  # fmt: skip
    case("clamp_min", constant("l", 0.0) + "y = Clip(x0, l)", lambda x: x.clamp_min(0.0),
         [0.0, -1.0, 1.0])  # fmt: skip
    case("clamp_max", constant("h", 0.0) + "y = Clip(x0, , h)",
         lambda x: x.clamp_max(0.0), [0.0, -1.0, 1.0])  # fmt: skip
    case("clamp between tensors", "y = Clip(x0, x1, x2)", torch.clamp,
         [-1.0, 1.0, 0.0, -2.0, 2.0], -1.0, 1.0)  # fmt: skip
    case("clamp of tensors", "m = Max(x0, x1)  y = Min(m, x2)", torch.clamp,
         [1.0, 0.0, 3.0, 1.0], [1.0, 1.0, 1.0, 0.0], [2.0, 2.0, 2.0, 1.0],
         torch_op="clamp.Tensor")  # fmt: skip
    case("clamp_min of tensors", "y = Max(x0, x1)", torch.clamp_min, [1.0, 0.0, 2.0],
         [1.0, 1.0, 1.0], torch_op="clamp_min.Tensor")  # fmt: skip


def add_activations():
    unary("relu", "Relu", F.relu, [0.0, -0.0, 1.0, -1.0])
    case("relu6", constant("l", 0.0) + constant("h", 6.0) + "y = Clip(x0, l, h)", F.relu6,
         [0.0, 6.0, 3.0, 7.0])  # fmt: skip
    case("hardtanh", constant("l", -1.0) + constant("h", 1.0) + "y = Clip(x0, l, h)",
         F.hardtanh, [-1.0, 1.0, 0.0], torch_op="hardtanh.default")  # fmt: skip
    case("clamp like relu6", constant("l", 0.0) + constant("h", 6.0) + "y = Clip(x0, l, h)",
         lambda x: x.clamp(0.0, 6.0), [0.0, 6.0], torch_op="clamp.default")  # fmt: skip
    case("hardsigmoid", "y = HardSigmoid <alpha = 0.1666666716337204, beta = 0.5> (x0)",
         F.hardsigmoid, [-3.0, 3.0, 0.0])  # fmt: skip
    unary("hardswish", "HardSwish", F.hardswish, [-3.0, 3.0, 0.0, 1.0])
    case("leaky_relu", "y = LeakyRelu <alpha = 0.25> (x0)",
         lambda x: F.leaky_relu(x, 0.25), [0.0, -0.0, -1.0])  # fmt: skip
    case(
        "elu", "y = Elu <alpha = 2.0> (x0)", lambda x: F.elu(x, 2.0), [0.0, -0.0, -1.0]
    )
    unary("selu", "Selu", F.selu, [0.0, -1.0, 1.0])
    case("celu", "y = Celu <alpha = 2.0> (x0)", lambda x: F.celu(x, 2.0), [0.0, -1.0])
    case("prelu", "y = PRelu(x0, x1)", F.prelu,
         [0.0, -1.0, 1.0], [0.25])  # fmt: skip
    case("threshold", "y = ThresholdedRelu <alpha = 0.5> (x0)",
         lambda x: F.threshold(x, 0.5, 0.0), [0.5, 0.0, 1.0])  # fmt: skip
    case("hardshrink", "y = Shrink <lambd = 0.5> (x0)", F.hardshrink, [0.5, -0.5, 1.0])
    case("softshrink", "y = Shrink <lambd = 0.5, bias = 0.5> (x0)", F.softshrink,
         [0.5, -0.5, 1.0])  # fmt: skip
    unary("softsign", "Softsign", F.softsign, [0.0, -1.0])
    unary("softplus", "Softplus", F.softplus, [0.0, 20.0, 21.0, -200.0, INF])
    unary("mish", "Mish", F.mish, [0.0, -20.0])
    unary("gelu", "Gelu", F.gelu, [0.0, -20.0, 20.0])
    unary("silu", "Swish", F.silu, [0.0, -100.0])
    case(
        "logsigmoid", "s = Sigmoid(x0)  y = Log(s)", F.logsigmoid, [0.0, -200.0, 200.0]
    )


def add_reductions():
    for op, function in (("Max", torch.amax), ("Min", torch.amin)):
        name = op.lower()
        case(f"reduce {op}", AXIS + f"y = Reduce{op}(x0, axis)",
             lambda x, f=function: f(x, 1, keepdim=True),
             [[1.0, 1.0, 0.0], [2.0, 2.0, 2.0], [1.0, 0.0, 1.0]])  # fmt: skip
        case(f"{op} along a dimension", AXIS + f"y = Reduce{op}(x0, axis)",
             lambda x, f=name: getattr(x, f)(1, keepdim=True).values,
             [[1.0, 1.0, 0.0], [2.0, 2.0, 2.0], [1.0, 0.0, 1.0]],
             torch_op=f"{name}.dim")  # fmt: skip
        case(f"{op} of all", f"y = Reduce{op} <keepdims = 0> (x0)",
             lambda x, f=name: getattr(x, f)(), [[1.0, 1.0], [0.0, 1.0]])  # fmt: skip
    case("top_k", constant("k", [1]) + "y, i = TopK(x0, k)",
         lambda x: x.topk(1, dim=1).values, [[1.0, 1.0, 0.0], [0.0, 2.0, 2.0]])  # fmt: skip
    zeros = [[2.0, 0.0, 3.0], [0.0, 0.0, 3.0], [0.0, 0.0, 0.0]]
    case("prod", AXIS + "y = ReduceProd(x0, axis)", lambda x: x.prod(1, keepdim=True),
         zeros)  # fmt: skip
    case(
        "cumprod",
        constant("a", 1) + "y = CumProd(x0, a)",
        lambda x: x.cumprod(1),
        zeros,
    )
    case("cumsum", constant("a", 1) + "y = CumSum(x0, a)", lambda x: x.cumsum(1), zeros)
    infinite = [[-INF, -INF], [0.0, -INF], [-INF, 1.0]]
    case("logsumexp", AXIS + "y = ReduceLogSumExp(x0, axis)",
         lambda x: torch.logsumexp(x, 1, keepdim=True), infinite)  # fmt: skip
    unary("softmax", "Softmax", lambda x: torch.softmax(x, -1), infinite)
    unary("log_softmax", "LogSoftmax", lambda x: torch.log_softmax(x, -1), infinite[:1])
    hidden = torch.tensor([[0.0, -INF], [-INF, -INF], [0.0, 0.0]])
    case("softmax with hidden rows", constant("z", 0.0) +
         "s = Add(x0, m)  p = Softmax(s)  n = IsNaN(p)  y = Where(n, z, p)",
         lambda x, m: torch.ops.aten._safe_softmax(x + m, -1),
         [[1.0, 2.0], [3.0, 4.0], [0.0, 1.0]], others={"m": hidden})  # fmt: skip
    case("log of a sum", AXIS + "y = ReduceLogSum(x0, axis)",
         lambda x: x.sum(1, keepdim=True).log(), [[0.0, 0.0], [0.0, 2.0]])  # fmt: skip


def add_norms():
    norm = torch.linalg.vector_norm
    case("norm", AXIS + "y = ReduceL2(x0, axis)", lambda x: norm(x, 2, 1, True), ROWS)
    case("norm of all", "y = ReduceL2 <keepdims = 0> (x0)", norm, [[0.0, 0.0]])
    case("norm 1", AXIS + "y = ReduceL1(x0, axis)", lambda x: norm(x, 1, 1, True), ROWS)
    written = {
        "a product": "p = Mul(x0, x0)  s = ReduceSum(p, axis)  y = Sqrt(s)",
        "a power": constant("t", 2.0) +
        "p = Pow(x0, t)  s = ReduceSum(p, axis)  y = Sqrt(s)",
        "a sum": "s = ReduceSumSquare(x0, axis)  y = Sqrt(s)",
        "a half power": constant("t", 2.0) + constant("h", 0.5) +
        "p = Pow(x0, t)  s = ReduceSum(p, axis)  y = Pow(s, h)",
    }  # fmt: skip
    for how, graph in written.items():
        case(f"norm by {how}", AXIS + graph, lambda x: norm(x, 2, 1, True), ROWS)
    for p in (0.5, 1.5, 3.0):
        case(f"norm {p}", AXIS + constant("p", p) + constant("q", 1.0 / p) +
             "a = Abs(x0)  b = Pow(a, p)  s = ReduceSum(b, axis)  y = Pow(s, q)",
             lambda x, p=p: norm(x, p, 1, True), [*ROWS, [2.0, 2.0]])  # fmt: skip
    for op, p in (("Max", INF), ("Min", -INF)):
        case(f"norm {p}", AXIS + f"a = Abs(x0)  y = Reduce{op}(a, axis)",
             lambda x, p=p: norm(x, p, 1, True), [*ROWS, [-2.0, 2.0]])  # fmt: skip
    case("normalize", AXIS + constant("e", 1e-12) +
         "n = ReduceL2(x0, axis)  c = Clip(n, e)  y = Div(x0, c)",
         lambda x: F.normalize(x, dim=1), ROWS)  # fmt: skip
    case("normalize 1", AXIS + constant("e", 1e-12) +
         "n = ReduceL1(x0, axis)  c = Clip(n, e)  y = Div(x0, c)",
         lambda x: F.normalize(x, 1.0, dim=1), ROWS)  # fmt: skip
    case("cosine_similarity", AXIS + constant("e", 1e-8) + """
         n = ReduceL2(x0, axis)  m = ReduceL2(x1, axis)  c = Clip(n, e)  d = Clip(m, e)
         u = Div(x0, c)  v = Div(x1, d)  p = Mul(u, v)  y = ReduceSum <keepdims = 0> (p, axis)""",
         F.cosine_similarity, ROWS, [[1.0, 1.0], [0.0, 0.0], [1.0, 2.0]])  # fmt: skip
    case("pairwise_distance", AXIS + constant("e", 0.0) +
         "d = Sub(x0, x1)  f = Add(d, e)  y = ReduceL2 <keepdims = 0> (f, axis)",
         lambda x, y: F.pairwise_distance(x, y, eps=0.0), ROWS, ROWS[:2] + [[0.0, 0.0]])  # fmt: skip
    case("cdist", constant("first", [1]) + constant("second", [0]) + constant("last", [-1])
         + constant("t", 2.0) + constant("h", [0.5]) + """
         a = Unsqueeze(x0, first)  c = Unsqueeze(x1, second)  d = Sub(a, c)
         p = Pow(d, t)  s = ReduceSum <keepdims = 0> (p, last)  y = Pow(s, h)""",
         torch.cdist, ROWS, ROWS[:2])  # fmt: skip
    case("cdist by products", constant("last", [-1]) + constant("t", 2.0)
         + constant("m", -2.0) + constant("z", 0.0) + """
         p = Pow(x0, t)  s = ReduceSum(p, last)  q = Pow(x1, t)  r = ReduceSum(q, last)
         ones = Div(i, i)  other = Div(j, j)  n = Mul(x0, m)  u = Concat <axis = 1> (n, s, ones)
         v = Concat <axis = 1> (x1, other, r)  w = Transpose <perm = [1, 0]> (v)
         g = MatMul(u, w)  c = Clip(g, z)  y = Sqrt(c)""",
         lambda x, y, i, j: torch.cdist(x, y, compute_mode="use_mm_for_euclid_dist"),
         ROWS, ROWS[:2],
         others={"i": [[1.0], [1.0], [1.0]], "j": [[1.0], [1.0]]})  # fmt: skip

    def scaled(x):
        """By its length, of which ONNX says that zeros stay zeros."""
        length = norm(x, 2, 1, True)
        return torch.where(length == 0, 0.0, x / torch.where(length == 0, 1.0, length))

    case("LpNormalization", "y = LpNormalization <axis = 1> (x0)", scaled, ROWS)
    case("norm plus zero", AXIS + constant("z", 0.0) +
         "p = Mul(x0, x0)  s = ReduceSum(p, axis)  t = Add(s, z)  y = Sqrt(t)",
         lambda x: norm(x, 2, 1, True), ROWS)  # fmt: skip
    # What the older exporter writes for cosine_similarity.
    case("quotient by two norms", AXIS + constant("e", 1e-8) + """
         p = Mul(x0, x1)  s = ReduceSum(p, axis)  a = Mul(x0, x0)  b = ReduceSum(a, axis)
         c = Mul(x1, x1)  d = ReduceSum(c, axis)  m = Mul(b, d)  r = Sqrt(m)  q = Max(r, e)
         y = Div(s, q)""",
         lambda x, y: (x * y).sum(1, True) / (norm(x, 2, 1, True) * norm(y, 2, 1, True)
                                              ).clamp_min(1e-8),
         ROWS, [[1.0, 1.0], [0.0, 0.0], [1.0, 2.0]])  # fmt: skip
    case("mean_variance", "y = MeanVarianceNormalization <axes = [1]> (x0)",
         lambda x: (x - x.mean(1, True)) / (x.std(1, correction=0, keepdim=True) + 1e-9),
         [[2.0, 2.0], [1.0, 4.0]])  # fmt: skip
    case("lp_pool", "y = LpPool <kernel_shape = [2], strides = [2]> (x0)",
         lambda x: F.lp_pool1d(x, 2.0, 2), [[[0.0, 0.0, 3.0, 4.0]]])  # fmt: skip
    constant_rows = [[2.0, 2.0], [1.0, 3.0]]
    deviation = "m = ReduceMean(x0, axis)  d = Sub(x0, m)  p = Mul(d, d)  v = ReduceMean(p, axis)"
    case("std", AXIS + constant("n", 2.0) + deviation +
         "  w = Mul(v, n)  o = Constant <value_float = 1.0> ()  u = Div(w, o)  y = Sqrt(u)",
         lambda x: x.std(1, keepdim=True), constant_rows)  # fmt: skip
    case("std without correction", AXIS + deviation + "  y = Sqrt(v)",
         lambda x: x.std(1, correction=0, keepdim=True), constant_rows)  # fmt: skip
    case("std of one without correction", AXIS + deviation + "  y = Sqrt(v)",
         lambda x: x.std(1, correction=0, keepdim=True), [[2.0], [0.0]])  # fmt: skip
    case("std of one", AXIS + constant("n", 1.0) + constant("z", 0.0) + deviation +
         "  w = Mul(v, n)  u = Div(w, z)  y = Sqrt(u)",
         lambda x: x.std(1, keepdim=True), [[2.0], [0.0]])  # fmt: skip
    case("var of one", AXIS + constant("n", 1.0) + constant("z", 0.0) + deviation +
         "  w = Mul(v, n)  y = Div(w, z)",
         lambda x: x.var(1, keepdim=True), [[2.0], [0.0]])  # fmt: skip
    case("norm of complex numbers", constant("last", [-1]) + """
         a = Unsqueeze(x0, last)  c = Unsqueeze(x1, last)  z = Concat <axis = -1> (a, c)
         y = ReduceL2 <keepdims = 0> (z, last)""",
         lambda a, b: torch.complex(a, b).abs(), [0.0, 3.0], [0.0, 4.0])  # fmt: skip


def add_images():
    image = [[[1.0, 1.0, 0.0, 2.0, 2.0, 2.0]]]
    case("max_pool", "y = MaxPool <kernel_shape = [3], strides = [1]> (x0)",
         lambda x: F.max_pool1d(x, 3, 1), image)  # fmt: skip
    case("max_pool with padding",
         "y = MaxPool <kernel_shape = [2, 2], strides = [1, 1], pads = [1, 1, 1, 1]> (x0)",
         lambda x: F.max_pool2d(x, 2, 1, 1), [[[[0.0, 0.0], [0.0, -1.0]]]])  # fmt: skip
    case("adaptive_max_pool", "y = GlobalMaxPool(x0)",
         lambda x: F.adaptive_max_pool1d(x, 1), image)  # fmt: skip
    square = [[[[1.0, 2.0], [4.0, 8.0]]]]
    # At the middles of elements, at their edges, and on the border.
    grid = [[[[-1.0, 0.25], [1.0, 0.25], [-0.5, 0.5], [0.5, -1.0], [0.0, 0.0]]]]
    for padding in ("zeros", "border", "reflection"):
        for aligned in (0, 1):
            case(f"grid_sample {padding} {aligned}",
                 f'y = GridSample <padding_mode = "{padding}", align_corners = {aligned}> '
                 "(x0, x1)",
                 lambda x, g, p=padding, a=bool(aligned): F.grid_sample(
                     x, g, padding_mode=p, align_corners=a),
                 square, grid)  # fmt: skip
            for mode in ("nearest", "bicubic"):
                onnx_mode = {"bicubic": "cubic"}.get(mode, mode)
                case(f"grid_sample {mode} {padding} {aligned}",
                     f'y = GridSample <mode = "{onnx_mode}", padding_mode = "{padding}", '
                     f"align_corners = {aligned}> (x0, x1)",
                     lambda x, g, m=mode, p=padding, a=bool(aligned): F.grid_sample(
                         x, g, m, p, a),
                     square, grid)  # fmt: skip
    case("interpolate", constant("s", [1, 1, 5]) +
         'y = Resize <mode = "linear", coordinate_transformation_mode = "align_corners"> (x0, , , s)',
         lambda x: F.interpolate(x, 5, mode="linear", align_corners=True),
         [[[1.0, 3.0, 2.0]]])  # fmt: skip
    case("interpolate half pixels", constant("s", [1, 1, 6]) +
         'y = Resize <mode = "linear"> (x0, , , s)',
         lambda x: F.interpolate(x, 6, mode="linear"), [[[1.0, 3.0, 2.0]]])  # fmt: skip
    case("interpolate nearest", constant("s", [1, 1, 6]) +
         'y = Resize <mode = "nearest", coordinate_transformation_mode = "asymmetric", '
         'nearest_mode = "floor"> (x0, , , s)',
         lambda x: F.interpolate(x, 6), [[[1.0, 3.0, 2.0]]])  # fmt: skip


def add_indices():
    index = torch.tensor([0, 2, 0])
    case("embedding with padding", "y = Gather(x0, i)",
         lambda x, i: F.embedding(i, x, 2), ROWS,
         metadata={"binade.padding_idx": "2"}, others={"i": index})  # fmt: skip
    case("detach", "d = Identity(x0)  y = Mul(x0, d)", lambda x: x * x.detach(),
         [0.0, 2.0], metadata={"binade.detached": "1"})  # fmt: skip
    case("gather", "y = Gather(x0, i)", lambda x, i: x[i], ROWS, others={"i": index})
    case("scatter add", 'y = ScatterElements <reduction = "add"> (x0, i, x1)',
         lambda x, u, i: x.scatter_add(0, i, u), [1.0, 2.0, 3.0], [4.0, 5.0, 6.0],
         others={"i": index})  # fmt: skip
    for reduction, name in (("max", "amax"), ("min", "amin"), ("mul", "prod")):
        case(f"scatter {reduction}",
             f'y = ScatterElements <reduction = "{reduction}"> (x0, i, x1)',
             lambda x, u, i, r=name: x.scatter_reduce(0, i, u, r),
             [1.0, 2.0, 0.0], [1.0, 0.0, 1.0], others={"i": index})  # fmt: skip
        sign = 1 if reduction == "min" else -1
        case(f"scatter {reduction} of many",
             f'y = ScatterElements <reduction = "{reduction}"> (x0, i, x1)',
             lambda x, u, i, r=name: x.scatter_reduce(0, i, u, r),
             [sign * 2.0, 2.0, 0.0], [sign * 2.0, sign * 2.0, *[sign * 3.0] * 8],
             others={"i": torch.tensor([0, 0, *[1] * 8])})  # fmt: skip
    case("scatter nd max", 'y = ScatterND <reduction = "max"> (x0, i, x1)',
         lambda x, u, i: x.scatter_reduce(0, i[:, 0], u, "amax"),
         [1.0, 2.0, 0.0], [1.0, 0.0, 1.0], others={"i": index[:, None]})  # fmt: skip


def add_losses():
    logits = [[1.0, 2.0], [3.0, 4.0]]
    none, some = torch.tensor([-100, -100]), torch.tensor([1, -100])
    for name, labels in (("ignored", none), ("partly ignored", some)):
        case(f"cross_entropy {name}", "y = SoftmaxCrossEntropyLoss <ignore_index = -100> (x0, t)",
             lambda x, t: F.cross_entropy(x, t), logits, others={"t": labels})  # fmt: skip
        weights = torch.tensor([1.0, 2.0])
        case(f"weighted cross_entropy {name}",
             "y = SoftmaxCrossEntropyLoss <ignore_index = -100> (x0, t, w)",
             lambda x, t, w: F.cross_entropy(x, t, w), logits,
             others={"t": labels, "w": weights})  # fmt: skip
        case(f"nll_loss {name}",
             "y = NegativeLogLikelihoodLoss <ignore_index = -100> (x0, t)",
             lambda x, t: F.nll_loss(x, t), logits, others={"t": labels})  # fmt: skip
    case("cross_entropy of weight zero",
         "y = SoftmaxCrossEntropyLoss (x0, t, w)",
         lambda x, t, w: F.cross_entropy(x, t, w), logits,
         others={"t": torch.tensor([0, 0]), "w": torch.tensor([0.0, 2.0])})  # fmt: skip
    case("l1_loss", "d = Sub(x0, x1)  y = Abs(d)",
         lambda x, y: F.l1_loss(x, y, reduction="none"), [1.0, 2.0], [1.0, 1.0])  # fmt: skip
    beta = constant("beta", 1.0) + constant("half", 0.5)
    case("smooth_l1_loss", beta + constant("two", 2.0) + """
         d = Sub(x0, x1)  a = Abs(d)  l = Less(a, beta)  q = Pow(a, two)  m = Mul(q, half)
         n = Div(m, beta)  s = Sub(a, half)  y = Where(l, n, s)""",
         lambda x, y: F.smooth_l1_loss(x, y, reduction="none"),
         [0.0, 1.0, -1.0, 3.0], [0.0, 0.0, 0.0, 0.0])  # fmt: skip
    case("huber_loss", beta + """
         d = Sub(x0, x1)  a = Abs(d)  l = Less(a, beta)  m = Mul(a, half)  n = Mul(m, a)
         s = Sub(a, half)  w = Mul(s, beta)  y = Where(l, n, w)""",
         lambda x, y: F.huber_loss(x, y, reduction="none"),
         [0.0, 1.0, -1.0, 3.0], [0.0, 0.0, 0.0, 0.0])  # fmt: skip
    case("margin_ranking_loss", constant("z", 0.0) +
         "d = Sub(x0, x1)  n = Neg(d)  y = Clip(n, z)",
         lambda x, y: F.margin_ranking_loss(x, y, torch.ones(3), reduction="none"),
         [1.0, 2.0, 0.0], [1.0, 1.0, 1.0])  # fmt: skip
    case("bce of saturated sigmoids", constant("one", 1.0) + constant("low", -100.0) + """
         p = Sigmoid(x0)  k = Sub(t, one)  n = Neg(p)  m = Add(n, one)  l = Log(m)
         a = Max(l, low)  u = Mul(k, a)  i = Identity(p)  g = Log(i)  c = Max(g, low)
         v = Mul(t, c)  y = Sub(u, v)""",
         lambda x, t: F.binary_cross_entropy(torch.sigmoid(x), t, reduction="none"),
         [30.0, 30.0, -200.0, 0.0], others={"t": [0.0, 1.0, 0.0, 1.0]})  # fmt: skip


def record(x):
    x = x.detach()
    return {"type": str(x.dtype).removeprefix("torch."), "shape": list(x.shape),
            "values": x.flatten().tolist()}  # fmt: skip


def weigh(y):
    """No two weights are equal, and none is 0."""
    return torch.linspace(0.5, 2.0, max(y.numel(), 2))[: y.numel()].reshape(y.shape)


def main() -> None:
    add_elementwise()
    add_angles()
    add_extremes()
    add_activations()
    add_reductions()
    add_norms()
    add_images()
    add_indices()
    add_losses()
    records = []
    for one in CASES:
        given = [torch.tensor(x, requires_grad=True) for x in one["points"]]
        others = {k: torch.as_tensor(v) for k, v in one["others"].items()}
        y = one["function"](*given, *others.values())
        gradients = []
        for factor in (1.0, 0.0):
            loss = (y * weigh(y) * factor).sum()
            found = torch.autograd.grad(
                loss, given, retain_graph=True, allow_unused=True
            )
            gradients.append(
                [record(torch.zeros_like(x) if g is None else g) for x, g in zip(given, found)]
            )  # fmt: skip
        records.append({
            "name": one["name"], "graph": " ".join(one["graph"].split()),
            "torch_op": one["torch_op"], "metadata": one["metadata"], "inputs": [record(x) for x in given],
            "others": {k: record(v) for k, v in others.items()}, "y": record(y),
            "weights": record(weigh(y)), "gradients": gradients[0],
            "gradients_of_nothing": gradients[1],
        })  # fmt: skip
    path = pathlib.Path(__file__).with_name("subgradients.json")
    path.write_text("[\n" + ",\n".join(map(json.dumps, records)) + "\n]\n")


if __name__ == "__main__":
    main()
