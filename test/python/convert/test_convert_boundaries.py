"""Results of `If` and carried values of `Loop` and `Scan` have the format of their producers or
readers: no boundary has casts on both sides, and values equal those of f32 up to rounding."""

import itertools

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.convert import convert, draw, find_types, parse, run

FLOAT, HALF, BF16 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16
TENSORS = {
    "w": draw(4, 4, scale=0.5), "v": draw(4, 4, scale=0.5, seed=1),
    "flag": np.array(True), "count": np.array(3), "zero": np.zeros(4, "f4"),
}  # fmt: skip
#: Models that compute z from x, the names of the values at boundaries, and their format.
CASES = {
    "both branches are narrow": ("""
  y = If (c) <
    then_branch = yes () => (float[2, 4] o) { o = MatMul(x, w) },
    else_branch = no () => (float[2, 4] p) { q = MatMul(x, v) p = Relu(q) }
  > z = Exp(y)""", "y o p", HALF),
    "one branch is wide": ("""
  y = If (c) <
    then_branch = yes () => (float[2, 4] o) { o = MatMul(x, w) },
    else_branch = no () => (float[2, 4] p) { p = Exp(x) }
  > z = Exp(y)""", "y o p", FLOAT),
    "all readers are narrow": ("""
  y = If (c) <
    then_branch = yes () => (float[2, 4] o) { o = MatMul(x, w) },
    else_branch = no () => (float[2, 4] p) { p = Exp(x) }
  > z = MatMul(y, v)""", "y o p", HALF),
    "a loop whose state is multiplied": ("""
  y = Loop (count, flag, x) <body = step (int64 i, bool on, float[2, 4] s)
    => (bool more, float[2, 4] o) { more = Identity(on) o = MatMul(s, w) }>
  z = MatMul(y, v)""", "y s o", HALF),
    "a loop whose first value is wide": ("""
  y = Loop (count, flag, x) <body = step (int64 i, bool on, float[2, 4] s)
    => (bool more, float[2, 4] o) { more = Identity(on) o = MatMul(s, w) }>
  z = Exp(y)""", "y s o", FLOAT),
    "a loop whose first value is narrow": ("""
  h = MatMul(x, v)
  y = Loop (count, flag, h) <body = step (int64 i, bool on, float[2, 4] s)
    => (bool more, float[2, 4] o) { more = Identity(on) e = Exp(s) o = MatMul(e, w) }>
  z = Exp(y)""", "y s o", HALF),
    "states that are swapped": ("""
  h = MatMul(x, v)
  y, t = Loop (count, flag, h, x) <body = step (int64 i, bool on, float[2, 4] s, float[2, 4] r)
    => (bool more, float[2, 4] r, float[2, 4] s) { more = Identity(on) }>
  z = Add(y, t)""", "y t s r", FLOAT),
    "a stack": ("""
  l, y = Loop (count, flag, x) <body = step (int64 i, bool on, float[2, 4] s)
    => (bool more, float[2, 4] o, float[2, 4] p)
    { more = Identity(on) o = Exp(s) p = MatMul(s, w) }>
  z = Exp(y)""", "y p", HALF),
    "rows": ("""
  t, y = Scan <num_scan_inputs = 1, body = row (float[4] s, float[4] r)
    => (float[4] o, float[4] p) { h = MatMul(r, w) o = Add(s, h) p = MatMul(r, v) }> (zero, x)
  z = Exp(y)""", "y p r", HALF),
    "a branch in a loop": ("""
  y = Loop (count, flag, x) <body = step (int64 i, bool on, float[2, 4] s)
    => (bool more, float[2, 4] o) {
      more = Identity(on)
      o = If (c) <
        then_branch = yes () => (float[2, 4] a) { a = MatMul(s, w) },
        else_branch = no () => (float[2, 4] b) { b = MatMul(s, v) }
      >
    }>
  z = MatMul(y, v)""", "y s o a b", HALF),
    "a result of the model": ("""
  z = If (c) <
    then_branch = yes () => (float[2, 4] o) { o = MatMul(x, w) },
    else_branch = no () => (float[2, 4] p) { p = MatMul(x, v) }
  >""", "z o p", HALF),
}  # fmt: skip


def finish(model):
    """Adds the initializers that the model reads."""
    text = onnx.printer.to_text(model)
    for name, array in TENSORS.items():
        if any(f"{left}{name}{right}" in text for left in " (" for right in ",) "):
            model.graph.initializer.append(numpy_helper.from_array(array, name))
    onnx.checker.check_model(model, full_check=True)
    return model


def find_all_types(graph):
    """Returns the element types of inputs and outputs of subgraphs, by name."""
    found = {}
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                for value in [*attribute.g.input, *attribute.g.output]:
                    found[value.name] = value.type.tensor_type.elem_type
                found |= find_all_types(attribute.g)
    return found


def check_numbers(folder, inputs):
    """Compares with the original model, with and without onnxruntime's optimizations."""
    expected = run(folder / "in.onnx", inputs)
    for optimizes in (False, True):
        found = run(folder / "out.onnx", inputs, optimizes)
        for name, wanted in expected.items():
            # Values may cancel; the terms are of order 1.
            bound = 32 * 2.0**-11 * max(np.abs(wanted).max(), 1)
            np.testing.assert_allclose(found[name], wanted, rtol=0, atol=bound)


def feed(seed=2):
    return {"x": draw(2, 4, seed=seed), "c": np.array(seed % 2 == 0)}


@pytest.mark.parametrize("policy", ["fp16-amp", "bf16-amp"])
@pytest.mark.parametrize("case", CASES)
def test_boundaries_have_the_expected_types(tmp_path, case, policy):
    body, names, expected = CASES[case]
    shape = "n, 2, 4" if case == "a stack" else "2, 4"
    head = f"g (float[2, 4] x, bool c) => (float[{shape}] z)"
    model = finish(parse(f"{head} {{{body} }}"))
    converted, _ = convert(model, tmp_path, policy)
    types = find_types(converted) | find_all_types(converted.graph)
    if case == "a result of the model":
        types["z"] = types["z_f16" if policy == "fp16-amp" else "z_bf16"]
    narrow = HALF if policy == "fp16-amp" else BF16
    wanted = narrow if expected == HALF else FLOAT
    assert {name: types[name] for name in names.split()} == dict.fromkeys(
        names.split(), wanted
    )
    if policy == "fp16-amp":  # onnxruntime's CPU has no bf16 matmuls.
        check_numbers(tmp_path, feed())


class Draw:
    """Random graphs of matmuls, sums and functions that need f32, with subgraphs."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.names = (f"v{i}" for i in itertools.count())

    def pick(self, values):
        return values[self.random.integers(len(values))]

    def port(self, name, shape):
        return helper.make_tensor_value_info(name, FLOAT, shape)

    def add(self, op, inputs, **attributes):
        name = next(self.names)
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def add_simple(self, values):
        op = self.pick([*["MatMul"] * 6, "Relu", "Relu", "Add", "Exp"])
        inputs = [self.pick(values)]
        if op == "MatMul":
            inputs.append(self.pick(["w", "v"]))
        elif op == "Add":
            inputs.append(self.pick(values))
        elif op == "Exp":  # The argument is at most 1.
            inputs = [self.add("Tanh", inputs)]
        return self.add(op, inputs)

    def make_graph(self, inputs, around, count, shape, depth, head=()):
        """Draws a graph with `count` results, which reads `inputs` and outer values `around`."""
        kept, self.nodes = getattr(self, "nodes", []), list(head)
        values = [*around, *(value.name for value in inputs if value.name[0] == "v")]
        own = []
        for _ in range(self.random.integers(1, 4)):
            own.append(self.add_any([*values, *own], shape, depth))
        results = [self.pick(own) for _ in range(count)]
        results = [name if name not in results[:i] else self.add("Relu", [name])
                   for i, name in enumerate(results)]  # fmt: skip
        outputs = [self.port(name, shape) for name in results]
        nodes, self.nodes = self.nodes, kept
        return nodes, outputs, results

    def add_any(self, values, shape, depth):
        kind = self.pick(["simple", "If", "Loop"]) if depth else "simple"
        if kind == "simple":
            return self.add_simple(values)
        return (self.add_if if kind == "If" else self.add_loop)(
            values, shape, depth - 1
        )

    def add_if(self, values, shape, depth):
        branches = {}
        for branch in ("then_branch", "else_branch"):
            nodes, outputs, _ = self.make_graph([], values, 1, shape, depth)
            branches[branch] = helper.make_graph(nodes, branch, [], outputs)
        return self.add("If", ["c"], **branches)

    def add_loop(self, values, shape, depth):
        """Draws a loop with two carried values, of which the first or both are read."""
        states = [self.port(next(self.names), shape) for _ in range(2)]
        on, more, turn = (f"b{next(self.names)}" for _ in range(3))
        head = [helper.make_node("Identity", [on], [more])]
        nodes, outputs, _ = self.make_graph(states, values, 2, shape, depth, head)
        if self.random.integers(2):
            outputs[1] = self.port(states[0].name, shape)  # Passed on unchanged.
        boolean = helper.make_tensor_value_info(on, TensorProto.BOOL, ())
        number = helper.make_tensor_value_info(turn, TensorProto.INT64, ())
        result = helper.make_tensor_value_info(more, TensorProto.BOOL, ())
        body = helper.make_graph(
            nodes, "body", [number, boolean, *states], [result, *outputs]
        )
        first, second = next(self.names), next(self.names)
        inputs = ["count", "flag", self.pick(values), self.pick(values)]
        self.nodes.append(helper.make_node("Loop", inputs, [first, second], body=body))
        return self.add("Add", [first, second]) if self.random.integers(2) else first

    def make_model(self):
        x = helper.make_tensor_value_info("x", FLOAT, [2, 4])
        c = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
        self.nodes = []
        first = self.add("MatMul", ["x", "w"])
        head = self.nodes
        nodes, outputs, _ = self.make_graph([], [first], 2, [2, 4], 2, head)
        graph = helper.make_graph(nodes, "g", [x, c], outputs)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
        model.ir_version = 10
        return finish(model)


@pytest.mark.parametrize("start", range(0, 40, 10))
def test_random_boundaries_are_accurate(tmp_path, start):
    for seed in range(start, start + 10):
        convert(Draw(seed).make_model(), tmp_path, "fp16-amp")
        check_numbers(tmp_path, feed(seed))


def test_loops_of_operator_set_13_do_not_carry_bf16(tmp_path):
    """They carry f16. Cast and MatMul of the same operator set support both formats."""
    body, names, _ = CASES["a branch in a loop"]
    model = parse(f"g (float[2, 4] x, bool c) => (float[2, 4] z) {{{body} }}")
    for version in (13, 16):
        for policy, element in (("fp16-amp", HALF), ("bf16-amp", BF16)):
            older = onnx.ModelProto()
            older.CopyFrom(model)
            older.opset_import[0].version = version
            converted, _ = convert(finish(older), tmp_path, policy)
            types = find_types(converted) | find_all_types(converted.graph)
            wanted = FLOAT if (version, element) == (13, BF16) else element
            assert all(types[name] == wanted for name in names.split())
