"""Import recognizes decomposed normalizations, and does not change similar graphs.

The graphs are scrambled: names are random, and nodes, inputs and outputs are in random
order. onnxruntime runs the ONNX graph; the reference runs the module with recognized ops
and the module of `--no-recognize`. All must agree.
"""

import re

import numpy as np
import onnx
import pytest
from support import training_graphs as graphs
from support.paths import BUILD, MODELS
from support.processes import call
from support.reference import EVAL, safetensors

NORM = """
  m = ReduceMean(x, axes)
  c = Sub(x, m)
  s = Mul(c, c)
  v = ReduceMean(s, axes)
  ve = Add(v, eps)
  r = Sqrt(ve)
  n = Div(c, r)
  y = Mul(n, scale)
  z = Add(y, bias)
  kept = Mul(m, share)
  updated = Add(kept, old)
  t = Mul(z, weights)
  loss = ReduceSum <keepdims = 0> (t)
"""

# Shapes of x and scale, the axes, and the op.
KINDS = {
    "batch": ((4, 3, 5), (1, 3, 1), [0, 2], "batch_norm"),
    "layer": ((4, 3, 5), (3, 5), [1, 2], "layer_norm"),
    "group": ((4, 2, 3, 5), (2, 3, 1), [2, 3], "layer_norm"),
}

# Decompositions, as replacements of lines of NORM.
DECOMPOSITIONS = {
    "quotient": {},
    "power of the root": {
        "r = Sqrt(ve)": "r = Pow(ve, minus_half)",
        "n = Div(c, r)": "n = Mul(r, c)",
    },
    "sums and a square": {
        "m = ReduceMean(x, axes)": "ms = ReduceSum(x, axes)\n  m = Div(ms, count)",
        "s = Mul(c, c)": "s = Pow(c, two)",
        "n = Div(c, r)": "i = Reciprocal(r)\n  n = Mul(c, i)",
    },
    "factors first": {
        "n = Div(c, r)": "i = Div(one, r)\n  a = Mul(scale, i)\n  ma = Mul(a, m)",
        "y = Mul(n, scale)": "y = Mul(x, a)\n  sh = Sub(bias, ma)",
        "z = Add(y, bias)": "z = Add(sh, y)",
    },
}

NEAR_MISSES = {
    "epsilon outside of the root": {
        "ve = Add(v, eps)\n  r = Sqrt(ve)": "q = Sqrt(v)\n  r = Add(q, eps)"
    },
    "unbiased variance": {
        "v = ReduceMean(s, axes)": "vs = ReduceSum(s, axes)\n  v = Div(vs, count_1)"
    },
    "variance over another axis": {
        "v = ReduceMean(s, axes)": "v = ReduceMean(s, other_axes)"
    },
    "mean over another axis": {
        "n = Div(c, r)": "m2 = ReduceMean(x, other_axes)\n  c2 = Sub(x, m2)\n"
        "  n = Div(c2, r)"
    },
    "variance of another value": {
        "s = Mul(c, c)": "c2 = Sub(weights, m)\n  s = Mul(c, c2)"
    },
    "third power": {"s = Mul(c, c)": "s = Pow(c, three)"},
    "another root": {
        "r = Sqrt(ve)": "r = Pow(ve, minus_third)",
        "n = Div(c, r)": "n = Mul(r, c)",
    },
    "epsilon of each element": {"ve = Add(v, eps)": "ve = Add(v, epsilons)"},
    "sign": {"n = Div(c, r)": "d = Sub(m, x)\n  n = Div(d, r)"},
    "two scales": {
        "n = Div(c, r)": "i = Reciprocal(r)\n  a = Mul(scale, i)\n  ma = Mul(i, m)",
        "y = Mul(n, scale)": "y = Mul(x, a)\n  sh = Sub(bias, ma)",
        "z = Add(y, bias)": "z = Add(sh, y)",
    },
    "mean in the loss": {
        "loss = ReduceSum <keepdims = 0> (t)": "all = ReduceSum <keepdims = 0> (t)\n"
        "  mm = Mul(m, m)\n  more = ReduceSum <keepdims = 0> (mm)\n"
        "  loss = Add(all, more)"
    },
}


def make(kind, changes):
    """The graph, and values for its inputs."""
    shape, scale, axes, _ = KINDS[kind]
    statistic = [1 if axis in axes else size for axis, size in enumerate(shape)]
    count = int(np.prod([shape[axis] for axis in axes]))
    nodes = NORM
    for line, instead in changes.items():
        assert line in nodes
        nodes = nodes.replace(line, instead)
    numbers = {"eps": 1e-3, "one": 1, "two": 2, "three": 3, "minus_half": -0.5,
               "minus_third": -1 / 3, "count": count, "count_1": count - 1,
               "share": 0.1}  # fmt: skip
    for name, value in numbers.items():
        nodes += f"  {name} = Constant <value_float = {float(value)!r}> ()\n"
    other = [axis for axis in range(len(shape)) if axis not in axes][:1]
    for name, value in {"axes": axes, "other_axes": other}.items():
        nodes += f"  {name} = Constant <value_ints = {value}> ()\n"
    if kind != "batch":
        # Layer and group norms do not return their statistics.
        nodes = nodes.replace("kept = Mul(m, share)", "kept = Mul(share, share)")
    shapes = {"x": shape, "scale": scale, "bias": scale, "weights": shape,
              "old": statistic, "epsilons": statistic}  # fmt: skip
    inputs = [graphs.declare(name, sizes) for name, sizes in shapes.items()]
    outputs = ["float loss", graphs.declare("updated", statistic)]
    model = graphs.parse(inputs, [*outputs, graphs.declare("z", shape)], nodes)
    draw = np.random.default_rng(0)
    values = {
        name: draw.uniform(0.5, 2, sizes).astype(np.float32)
        for name, sizes in shapes.items()
    }
    return model, values


def import_and_compare(kind, changes, seed, folder):
    """Imports the scrambled graph with and without recognition and compares both with
    onnxruntime. Returns the module with recognized ops."""
    model, values = make(kind, changes)
    scrambled, old = graphs.scramble(model, seed)
    new = {name: fresh for fresh, name in old.items()}
    values = {new[name]: value for name, value in values.items() if name in new}
    used = {name for node in scrambled.graph.node for name in node.input}
    for value in [v for v in scrambled.graph.input if v.name not in used]:
        scrambled.graph.input.remove(value)
    onnx.save(scrambled, folder / "m.onnx")
    safetensors.save(folder / "in.safetensors", values)
    expected = graphs.run(scrambled, values)
    expected["loss"] = expected.pop(new["loss"])
    modules = {}
    for flags in ((), ("--no-recognize",)):
        text = call(
            BUILD / "bin" / "binade-translate", "--import-onnx", folder / "m.onnx",
            "--loss-output", new["loss"], *flags,
        )  # fmt: skip
        (folder / "m.mlir").write_text(text)
        call(EVAL, folder / "m.mlir", "--inputs", folder / "in.safetensors",
             "--out", folder / "out.safetensors")  # fmt: skip
        found = safetensors.load(folder / "out.safetensors")
        assert set(found) == set(expected)
        for name, value in expected.items():
            # Values near 1, sums of at most 20 terms.
            np.testing.assert_allclose(found[name], value, rtol=2e-5, atol=2e-6)
        modules[flags] = text
    return modules[()]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("decomposition", DECOMPOSITIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_decomposed_norms_are_recognized(kind, decomposition, seed, tmp_path):
    text = import_and_compare(kind, DECOMPOSITIONS[decomposition], seed, tmp_path)
    assert text.count(f"= binade.{KINDS[kind][3]} ") == 1
    assert "epsilon = 0.0010000000474974513" in text
    # What remains computes the loss and the running statistics.
    for gone in ("sqrt", "pow", "div", "reciprocal", "sub", "reduce_mean"):
        assert f"binade.{gone} " not in text
    # The scale of a group norm is per channel, and so remains a multiplication.
    assert text.count("binade.mul") == {"batch": 2, "layer": 1, "group": 2}[kind]


@pytest.mark.parametrize("change", NEAR_MISSES)
@pytest.mark.parametrize("kind", KINDS)
def test_graphs_that_resemble_a_norm_are_kept(kind, change, tmp_path):
    text = import_and_compare(kind, NEAR_MISSES[change], 0, tmp_path)
    assert "binade.batch_norm" not in text
    assert "binade.layer_norm" not in text


@pytest.mark.parametrize(
    "name, op, count",
    [
        ("resnet18-cifar-w8", "batch_norm", 20),
        ("detector-tiny", "layer_norm", 10),
        ("llama-tiny", "rms_norm", 5),
        ("llama-tiny", "silu", 2),
    ],
)
def test_norms_of_exported_gradients_are_recognized(name, op, count, tmp_path):
    """Recognizes PyTorch's decompositions after the backward pass has been removed."""
    report = graphs.report_scrambled(MODELS / name / "grads.onnx", tmp_path)
    forward = re.search(r"^forward: .*$", report, re.MULTILINE)[0]
    assert f" {op} {count}" in forward
    assert "sqrt" not in forward
