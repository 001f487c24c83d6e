"""Training graphs as exporters write them, and copies without meaningful names.

A network of two layers under a mean squared error: forward, backward and, for a whole
step, the update by an optimizer, all ONNX. Expected values are onnxruntime's.
"""

import json
import random
import subprocess

import numpy as np
import onnx
import pytest
from onnx import parser
from support.convert import open_session
from support.paths import BUILD

SHAPES = {
    "w1": (4, 8),
    "b1": (8,),
    "b2": (8,),
    "w2": (8, 3),
    "w3": (3, 3),
    "w4": (3, 3),
}

FORWARD = """
  z = MatMul(x, w1)
  zb = Add(z, b1)
  zc = Add(zb, b2)
  h = Tanh(zc)
  o = MatMul(h, w2)
  q = MatMul(o, w3)
  r = MatMul(q, w4)
  d = Sub(r, y)
  e = Mul(d, d)
  loss = ReduceMean <keepdims = 0> (e)
"""

BACKWARD = """
  mean_slope = Constant <value_float = 0.0416666679084301> ()
  dr = Mul(d, mean_slope)
  qt = Transpose <perm = [1, 0]> (q)
  grad_w4 = MatMul(qt, dr)
  w4t = Transpose <perm = [1, 0]> (w4)
  dq = MatMul(dr, w4t)
  ot = Transpose <perm = [1, 0]> (o)
  grad_w3 = MatMul(ot, dq)
  w3t = Transpose <perm = [1, 0]> (w3)
  do = MatMul(dq, w3t)
  ht = Transpose <perm = [1, 0]> (h)
  grad_w2 = MatMul(ht, do)
  w2t = Transpose <perm = [1, 0]> (w2)
  dh = MatMul(do, w2t)
  hh = Mul(h, h)
  unit = Constant <value_float = 1.0> ()
  slope = Sub(unit, hh)
  dz = Mul(dh, slope)
  xt = Transpose <perm = [1, 0]> (x)
  grad_w1 = MatMul(xt, dz)
  rows = Constant <value_ints = [0]> ()
  grad_b1 = ReduceSum <keepdims = 0> (dz, rows)
  grad_b2 = ReduceSum <keepdims = 0> (dz, rows)
"""

# Updates of a parameter p: g is its gradient, n.X the new value of X, t1 the step number.
UPDATES = {
    "sgd": """
  step_p = Mul(rate, g)
  n.p = Sub(p, step_p)
""",
    "momentum": """
  kept_p = Mul(m.p, c9)
  n.m.p = Add(kept_p, g)
  step_p = Mul(n.m.p, rate)
  n.p = Sub(p, step_p)
""",
    "adamw": """
  left_p = Mul(p, decay)
  mk_p = Mul(m.p, c9)
  mg_p = Mul(g, c1)
  n.m.p = Add(mk_p, mg_p)
  vk_p = Mul(v.p, c999)
  gg_p = Mul(g, g)
  vg_p = Mul(gg_p, c001)
  n.v.p = Add(vk_p, vg_p)
  mh_p = Div(n.m.p, correct1)
  ms_p = Mul(mh_p, rate)
  vh_p = Div(n.v.p, correct2)
  vr_p = Sqrt(vh_p)
  de_p = Add(vr_p, eps)
  change_p = Div(ms_p, de_p)
  n.p = Sub(left_p, change_p)
""",
    # Not a rule of the library: the sign of the momentum, and a power of the step.
    "unknown": """
  mk_p = Mul(m.p, c9)
  n.m.p = Add(mk_p, g)
  sign_p = Sign(n.m.p)
  slow_p = Mul(sign_p, power1)
  step_p = Mul(slow_p, rate)
  n.p = Sub(p, step_p)
""",
}
STATES = {"sgd": "", "momentum": "m", "adamw": "mv", "unknown": "m"}
COUNTS = {"adamw", "unknown"}

COUNT = """
  n.step = Add(step, one)
  power1 = Pow(c9, n.step)
  correct1 = Sub(one, power1)
  power2 = Pow(c999, n.step)
  correct2 = Sub(one, power2)
"""

NUMBERS = {"rate": 0.01, "c9": 0.9, "c1": 0.1, "c999": 0.999, "c001": 0.001,
           "decay": 1 - 0.01 * 0.1, "eps": 1e-8, "one": 1.0}  # fmt: skip


def declare(name, shape):
    return f"float[{', '.join(map(str, shape))}] {name}"


def parse(inputs, outputs, nodes):
    text = '<ir_version: 8, opset_import: ["" : 18]>\ng ('
    text += ", ".join(inputs) + ") => (" + ", ".join(outputs) + ") {" + nodes + "}"
    # The text form has no dots in names.
    return parser.parse_model(text.replace("n.", "n_").replace("m.", "m_")
                              .replace("v.", "v_"))  # fmt: skip


DATA = [declare("x", (16, 4)), declare("y", (16, 3))]


def make_step(optimizer, numbers=None):
    """A step: its inputs are parameters, states, count and batch, all but the batch outputs."""
    inputs, outputs, nodes = [], ["float loss"], FORWARD + BACKWARD
    for name, shape in SHAPES.items():
        for kind in ("", *(f"{state}." for state in STATES[optimizer])):
            inputs.append(declare(kind + name, shape))
            outputs.append(declare(f"n.{kind}{name}", shape))
    for name, value in {**NUMBERS, **(numbers or {})}.items():
        nodes += f"  {name} = Constant <value_float = {value!r}> ()\n"
    if optimizer in COUNTS:
        nodes += COUNT
        inputs.append("float step")
        outputs.append("float n.step")
    for name in SHAPES:
        for line in UPDATES[optimizer].strip().splitlines():
            words = line.replace("(g,", f"(grad_{name},").replace(
                " g)", f" grad_{name})"
            )
            words = words.replace(", g,", f", grad_{name},")
            words = words.replace("_p", f"_{name}").replace(".p", f".{name}")
            nodes += words.replace("(p,", f"({name},") + "\n"
    return parse(inputs + DATA, outputs, nodes)


def make_gradients():
    """A joint graph: the loss and the gradients of the parameters."""
    inputs = [declare(name, shape) for name, shape in SHAPES.items()]
    outputs = [declare(f"grad_{name}", shape) for name, shape in SHAPES.items()]
    return parse(inputs + DATA, ["float loss", *outputs], FORWARD + BACKWARD)


def scramble(model, seed=0):
    """The graph with other names and with nodes, inputs and outputs in random order, and
    the original name of each new name."""
    draw = random.Random(seed)
    graph = onnx.ModelProto.FromString(model.SerializeToString()).graph
    names = sorted(
        {name for node in graph.node for name in [*node.input, *node.output]}
    )
    fresh = [f"t{index}" for index in range(len(names))]
    draw.shuffle(fresh)
    new = dict(zip(names, fresh))
    new[""] = ""  # An omitted input or output of a node.
    for node in graph.node:
        node.name = ""
        node.input[:] = [new[name] for name in node.input]
        node.output[:] = [new[name] for name in node.output]
    for value in [*graph.input, *graph.output, *graph.initializer]:
        value.name = new.get(value.name, value.name)
    for field in ("node", "input", "output"):
        values = list(getattr(graph, field))
        draw.shuffle(values)
        graph.ClearField(field)
        getattr(graph, field).extend(values)
    graph.ClearField("value_info")
    scrambled = onnx.helper.make_model(graph, opset_imports=model.opset_import)
    scrambled.ir_version = model.ir_version
    return scrambled, {fresh: old for old, fresh in new.items() if old}


def report_scrambled(source, folder):
    """The report of `binade import --report` on `source` without its names."""
    if not source.exists():
        pytest.skip(f"{source} is absent")
    model, _ = scramble(onnx.load(source))
    onnx.save(model, folder / "m.onnx")
    command = [BUILD / "bin" / "binade", "import", folder / "m.onnx", "--report",
               "-o", folder / "m.mlir"]  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=900
    )
    return done.stderr


def run(model, inputs):
    """The outputs of onnxruntime by name, without its optimizations."""
    session = open_session(model.SerializeToString())
    names = [output.name for output in session.get_outputs()]
    given = {i.name: inputs[i.name] for i in session.get_inputs()}
    return dict(zip(names, session.run(names, given)))


def draw_inputs(model, seed=0):
    """Random parameters and batch; states and count are 0."""
    draw = np.random.default_rng(seed)
    given = {}
    for value in model.graph.input:
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        array = draw.standard_normal(shape).astype(np.float32)
        if value.name[:2] in ("m_", "v_") or value.name == "step":
            array = np.zeros_like(array)
        given[value.name] = array
    return given


def read_metrics(path):
    """The columns of a run's metrics; null is NaN."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return {
        name: np.array([line[name] for line in lines], float)
        for name in ("loss", "grad_norm", "skipped", "loss_scale")
    }
