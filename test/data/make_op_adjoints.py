"""Writes test/data/op-adjoints.json: values and gradients of the dialect's ops, by PyTorch.

usage: make_op_adjoints.py

For every op that has an adjoint some cases of random shapes, an empty one among them where
the op takes it: what it reads, with the attributes that it has in the dialect, what
PyTorch computes in f64, and the gradients of the sum of the result times fixed weights.
test/python/autodiff/test_op_adjoints.py compares. Needs torch.
"""

import json
import math
import pathlib

import numpy as np
import torch
import torch.nn.functional as F

CASES = []
RANDOM = np.random.default_rng(11)


def sizes(rank):
    """Lengths of `rank` axes, from 1 to 5."""
    return [int(size) for size in RANDOM.integers(1, 6, rank)]


def draw(shape, low=-2.0, high=2.0):
    return torch.tensor(np.round(RANDOM.uniform(low, high, shape), 3))


def add(op, function, tensors, attributes="", others=()):
    """A case: `function` of `tensors`, which have gradients, and of `others`. Where these
    are not the last operands, `tensors` has None in their places."""
    CASES.append((op, function, list(tensors), attributes, list(others)))


def axes(*values):
    listed = ", ".join(map(str, values))
    return f"axes = array<i64: {listed}>" if values else "axes = array<i64>"


def numbers(name, values):
    return f"{name} = array<i64: {', '.join(map(str, values))}>"


def shapes():
    """Two random shapes, that of a scalar, and one without elements."""
    return [sizes(3), sizes(2), [], [2, 0, 3]]


def add_elementwise():
    unary = {
        "neg": torch.neg, "abs": torch.abs, "exp": torch.exp, "tanh": torch.tanh,
        "erf": torch.erf, "sigmoid": torch.sigmoid, "relu": torch.relu,
        "sin": torch.sin, "cos": torch.cos, "atan": torch.atan, "expm1": torch.expm1,
        "softplus": lambda x: F.softplus(x, threshold=100.0), "gelu": F.gelu,
        "silu": F.silu,
    }  # fmt: skip
    positive = {"log": torch.log, "log1p": torch.log1p, "sqrt": torch.sqrt,
                "reciprocal": torch.reciprocal}  # fmt: skip
    binary = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div,
              "max": torch.maximum, "min": torch.minimum}  # fmt: skip
    for op, function in unary.items():
        for shape in shapes():
            add(op, function, [draw(shape)])
    for op, function in positive.items():
        for shape in shapes():
            add(op, function, [draw(shape, 0.2, 3.0)])
    for op, function in binary.items():
        for shape in shapes():
            add(op, function, [draw(shape), draw(shape)])
    for shape in shapes():
        tanh = "approximate = #binade.approximation<tanh>"
        add("gelu", lambda x: F.gelu(x, approximate="tanh"), [draw(shape)], tanh)
        add("pow", torch.pow, [draw(shape, 0.3, 3.0), draw(shape)])
        add("cast", lambda x: x * 1.0, [draw(shape)])
        mask = draw(shape) > 0
        add("select", lambda x, y, c: torch.where(c, x, y),
            [None, draw(shape), draw(shape)], others=[mask])  # fmt: skip


def add_movement():
    for a, b, c in [sizes(3), (2, 0, 3)]:
        x = draw((a, b, c))
        add("reshape", lambda x, a=a, b=b, c=c: x.reshape(c, a * b), [x])
        add("transpose", lambda x: x.permute(2, 0, 1), [x],
            numbers("permutation", [2, 0, 1]))  # fmt: skip
        add("broadcast", lambda x: x.expand(3, *x.shape), [x], axes(1, 2, 3))
        add("concat", lambda x, y: torch.cat([x, y], 1), [x, draw((a, 2, c))],
            "axis = 1 : i64")  # fmt: skip
        add("reduce_sum", lambda x: x.sum((0, 1)), [x], axes(0, 1))
    # One row for all, one column for all.
    add("broadcast", lambda x: x.expand(4, 3), [draw((1, 3))], axes(0, 1))
    add("broadcast", lambda x: x.expand(2, 4, 3), [draw((4, 1))], axes(1, 2))
    for a, b in [sizes(2), sizes(2)]:
        x = draw((a, b))
        add("reduce_mean", lambda x: x.mean(1), [x], axes(1))
        add("reduce_max", lambda x: x.amax(0), [x], axes(0))
        part = f"{numbers('offsets', [0, 1])}, {numbers('strides', [2, 1])}"
        add("slice", lambda x: x[::2, 1:], [draw((2 * a, b + 1))], part)
        add("pad", lambda x: pad(x), [x],
            f"{numbers('offsets', [1, 0])}, {numbers('strides', [2, 1])}")  # fmt: skip
    # Equal ones share the gradient.
    ties = torch.tensor([[1.0, 3.0], [3.0, 3.0], [3.0, -1.0]], dtype=torch.float64)
    add("reduce_max", lambda x: x.amax(0), [ties], axes(0))


def pad(x):
    y = torch.zeros(2 * x.shape[0] + 1, x.shape[1] + 2, dtype=x.dtype)
    y[1::2, : x.shape[1]] = x
    return y


def add_products():
    for n, m, k in [sizes(3), sizes(3), (0, 2, 3), (2, 3, 0)]:
        add("matmul", torch.matmul, [draw((n, k)), draw((k, m))])
        add("matmul", lambda x, y, z: x.mT @ y.mT + z,
            [draw((2, k, n)), draw((2, m, k)), draw((m,))],
            "transpose_lhs, transpose_rhs")  # fmt: skip
    geometry = ", ".join(
        numbers(name, values)
        for name, values in {
            "strides": (2, 1), "padding_low": (1, 0), "padding_high": (1, 0),
            "dilations": (1, 2),
        }.items()
    ) + ", groups = 2 : i64"  # fmt: skip
    options = {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 2), "groups": 2}
    for batch in (1, 3):
        x, w = draw((batch, 4, 6, 5)), draw((6, 2, 3, 2))
        y = F.conv2d(x, w, **options)
        add("conv", lambda x, w, b: F.conv2d(x, w, b, **options), [x, w, draw((6,))],
            geometry)  # fmt: skip
        add("conv_input_grad",
            lambda dy, w: F.conv_transpose2d(dy, w, output_padding=(1, 0), **options),
            [draw(y.shape), w], geometry)  # fmt: skip

        def weight_gradient(dy, x, w=w):
            kernel = w.clone().requires_grad_()
            result = F.conv2d(x, kernel, **options)
            return torch.autograd.grad(result, kernel, dy, create_graph=True)[0]

        add("conv_weight_grad", weight_gradient, [draw(y.shape), x], geometry)


def add_norms():
    for rows, columns in [(4, 6), (1, 3), (0, 4)]:
        x = draw((rows, columns))
        add("softmax", lambda x: torch.softmax(x, -1), [x])
        add("log_softmax", lambda x: torch.log_softmax(x, -1), [x])
        add("layer_norm",
            lambda x, s, b: F.layer_norm(x, x.shape[-1:], s, b, 1e-5),
            [x, draw((columns,)), draw((columns,))], "epsilon = 1.0e-5 : f64")  # fmt: skip
        add("rms_norm", lambda x, s: F.rms_norm(x, x.shape[-1:], s, 1e-5),
            [x, draw((columns,))], "epsilon = 1.0e-5 : f64")  # fmt: skip
    # Statistics are f32 in the dialect.
    mean, variance = draw((3,)).float(), draw((3,), 0.3, 2.0).float()
    add("batch_norm",
        lambda x, s, b, m, v: F.batch_norm(x, m.double(), v.double(), s, b, eps=1e-5),
        [draw((4, 3, 2)), draw((3,)), draw((3,))],
        "axis = 1 : i64, epsilon = 1.0e-5 : f64", [mean, variance])  # fmt: skip


def attend(q, k, v, causal=False):
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=0.6)


def add_lookups():
    for shape in [(2, 4, 3), (1, 2, 5)]:
        three = [draw(shape) for _ in range(3)]
        add("attention", attend, three, "scale = 0.6 : f64")
        add("attention", lambda q, k, v: attend(q, k, v, True), three,
            "scale = 0.6 : f64, causal")  # fmt: skip
    # Places that repeat, that count from the end, and none.
    for places in ([[1, -1], [1, 0]], [[2, 2, 2]], [[], []]):
        i = torch.tensor(places, dtype=torch.int64)
        add("gather", lambda x, i: x[i], [draw((4, 3))], others=[i])
        dy = draw((*i.shape, 3))
        add("gather_grad",
            lambda dy, i: torch.zeros(4, 3, dtype=dy.dtype).index_put(
                (i,), dy, accumulate=True),
            [dy], others=[i])  # fmt: skip
    labels = torch.tensor([2, 5, -100, 0, 5])
    add("cross_entropy",
        lambda x, t: F.cross_entropy(x, t, ignore_index=-100, reduction="none"),
        [draw((5, 6))], "ignore_index = -100 : i64", [labels])  # fmt: skip
    # Nothing is dropped: PyTorch draws other numbers.
    add("dropout", lambda x, rng: x * 1.0, [draw((3, 4))],
        "ratio = 0.0 : f64, stream = 2 : i64", [torch.tensor([7, 3])])  # fmt: skip


def record(x):
    values = x.to(torch.float64) if x.dtype == torch.bool else x
    return {
        "type": str(x.dtype).removeprefix("torch."),
        "shape": list(x.shape),
        "values": [None if math.isnan(v) else v for v in values.flatten().tolist()],
    }


def main() -> None:
    add_elementwise()
    add_movement()
    add_products()
    add_norms()
    add_lookups()
    records = []
    for op, function, tensors, attributes, others in CASES:
        given = [x.requires_grad_() for x in tensors if x is not None]
        y = function(*given, *others)
        weights = torch.linspace(-1.0, 1.5, y.numel(), dtype=torch.float64)
        loss = (y * weights.reshape(y.shape)).sum()
        gradients = torch.autograd.grad(loss, given)
        # Operands in order: an entry of `others` replaces each None of `tensors`; the
        # remaining ones follow at the end.
        rest = list(others)
        operands = [rest.pop(0) if x is None else x.detach() for x in tensors] + rest
        records.append({
            "op": op, "attributes": attributes, "operands": [record(x) for x in operands],
            "y": record(y.detach()), "gradients": [record(x) for x in gradients],
        })  # fmt: skip
    path = pathlib.Path(__file__).with_name("op-adjoints.json")
    lines = ",\n".join(json.dumps(one) for one in records)
    path.write_text("[\n" + lines + "\n]\n")


if __name__ == "__main__":
    main()
