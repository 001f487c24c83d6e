"""Models with branches, loops, functions and sequences."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from support.convert import draw

FLOAT, HALF = TensorProto.FLOAT, TensorProto.FLOAT16
N = helper.make_node


def info(name, shape=(2, 4), type=FLOAT):
    return helper.make_tensor_value_info(name, type, shape)


def make(nodes, inputs=(), tensors=(), functions=(), version=17):
    """A model in which `nodes` compute y from x, and `final` multiplies y by w."""
    final = N("MatMul", ["y", "w"], ["z"], name="final")
    tensors = {"w": draw(4, 4), **dict(tensors)}
    graph = helper.make_graph(
        [*nodes, final],
        "g",
        [info("x"), *inputs],
        [info("z", (None, 4))],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in tensors.items()],
    )
    sets = [helper.make_opsetid("", version)]
    if functions:
        sets.append(helper.make_opsetid("own", 1))
    model = helper.make_model(graph, opset_imports=sets, functions=functions)
    model.ir_version = 8
    onnx.checker.check_model(model, full_check=True)
    return model


def make_branch(name, op, result):
    """A graph of a matmul with a weight of the outer graph, followed by `op`."""
    nodes = [
        N("MatMul", ["x", "inner_w"], [f"{name}_h"], name=f"{name}_product"),
        N(op, [f"{name}_h"], [result]),
    ]
    return helper.make_graph(nodes, name, [], [info(result)])


INNER = {"inner_w": draw(4, 4, scale=0.3, seed=1)}
CONDITION = [info("c", (), TensorProto.BOOL)]


def make_loop(stacked=False):
    """A loop that multiplies its state; `stacked` adds an output for each iteration."""
    nodes = [
        N("Identity", ["ci"], ["co"]),
        N("MatMul", ["s", "inner_w"], ["h"], name="product"),
        N("Tanh", ["h"], ["t"]),
    ]
    outputs = [info("co", (), TensorProto.BOOL), info("t", None)]
    made = ["y"]
    if stacked:
        nodes.append(N("Mul", ["h", "h"], ["stack"], name="square"))
        outputs.append(info("stack", None))
        made = ["state", "y"]
    inputs = [info("i", (), TensorProto.INT64), info("ci", (), TensorProto.BOOL)]
    body = helper.make_graph(nodes, "body", [*inputs, info("s", None)], outputs)
    return make(
        [N("Loop", ["n", "go", "x"], made, body=body, name="loop")],
        [info("n", (), TensorProto.INT64)],
        {**INNER, "go": np.array(True)},
    )


def make_scan():
    nodes = [
        N("MatMul", ["row", "inner_w"], ["h"], name="product"),
        N("Add", ["sum", "h"], ["next"]),
        N("Identity", ["next"], ["out"]),
    ]
    body = helper.make_graph(
        nodes, "body", [info("sum", None), info("row", None)],
        [info("next", None), info("out", None)],
    )  # fmt: skip
    node = N("Scan", ["zero", "x"], ["last", "y"], body=body, num_scan_inputs=1)
    return make([node], tensors={**INNER, "zero": np.zeros(4, "f4")})


def make_functions():
    """A function that calls another function twice."""
    opset = [helper.make_opsetid("", 17)]
    inner = helper.make_function(
        "own", "Inner", ["a", "v"], ["b"],
        [N("MatMul", ["a", "v"], ["p"], name="product"), N("Tanh", ["p"], ["b"])],
        opset,
    )  # fmt: skip
    outer = helper.make_function(
        "own", "Outer", ["a", "v"], ["b"],
        [
            N("Inner", ["a", "v"], ["p"], domain="own", name="first"),
            N("Inner", ["p", "v"], ["b"], domain="own", name="second"),
        ],
        [*opset, helper.make_opsetid("own", 1)],
    )  # fmt: skip
    calls = [
        N("Outer", ["x", "inner_w"], ["u"], domain="own", name="call"),
        N("Outer", ["u", "inner_w"], ["y"], domain="own", name="again"),
    ]
    return make(calls, tensors=INNER, functions=[outer, inner])


def make_sequence(place):
    """An element of a sequence, at a constant index or at the input `place`."""
    nodes = [
        N("MatMul", ["x", "inner_w"], ["h"], name="product"),
        N("SequenceConstruct", ["x", "h"], ["q"]),
        N("SequenceAt", ["q", "place"], ["y"], name="at"),
    ]
    if place is None:
        return make(nodes, [info("place", (), TensorProto.INT64)], INNER)
    return make(nodes, (), {**INNER, "place": np.array(place)})


def make_sequence_in_loop():
    """A sequence to which a loop appends, as TorchScript exports it."""
    nodes = [
        N("Identity", ["ci"], ["co"]),
        N("MatMul", ["x", "inner_w"], ["h"], name="product"),
        N("SequenceInsert", ["s", "h"], ["t"]),
    ]
    tensor = helper.make_tensor_type_proto(FLOAT, (2, 4))
    sequence = helper.make_sequence_type_proto(tensor)
    body = helper.make_graph(
        nodes, "body",
        [info("i", (), TensorProto.INT64), info("ci", (), TensorProto.BOOL),
         helper.make_value_info("s", sequence)],
        [info("co", (), TensorProto.BOOL), helper.make_value_info("t", sequence)],
    )  # fmt: skip
    return make(
        [
            N("SequenceEmpty", [], ["none"], dtype=FLOAT),
            N("Loop", ["n", "go", "none"], ["all"], body=body, name="loop"),
            N("ConcatFromSequence", ["all"], ["y"], axis=0, new_axis=0),
        ],
        [info("n", (), TensorProto.INT64)],
        {**INNER, "go": np.array(True)},
    )


def make_nested():
    """A branch in a loop that reads weights of the outermost graph."""
    branch = {
        f"{name}_branch": helper.make_graph(
            [N("MatMul", ["s", "inner_w"], [f"{name}_t"], name=f"{name}_product")],
            name, [], [info(f"{name}_t", None)],
        )
        for name in ("then", "else")
    }  # fmt: skip
    nodes = [
        N("Identity", ["ci"], ["co"]),
        N("If", ["c"], ["t"], name="if", **branch),
    ]
    body = helper.make_graph(
        nodes, "body",
        [info("i", (), TensorProto.INT64), info("ci", (), TensorProto.BOOL),
         info("s", None)],
        [info("co", (), TensorProto.BOOL), info("t", None)],
    )  # fmt: skip
    loop = N("Loop", ["n", "go", "x"], ["y"], body=body, name="loop")
    return make(
        [loop],
        [info("n", (), TensorProto.INT64), *CONDITION],
        {**INNER, "go": np.array(True)},
    )


def make_optional():
    return make(
        [
            N("MatMul", ["x", "inner_w"], ["h"], name="product"),
            N("Optional", ["h"], ["o"]),
            N("OptionalGetElement", ["o"], ["y"]),
        ],
        tensors=INNER,
    )


def make_data_dependent():
    """Selects the nonzero rows: their number depends on the data."""
    return make(
        [
            N("MatMul", ["x", "inner_w"], ["h"], name="product"),
            N("ReduceSum", ["h", "axis"], ["sums"], keepdims=0),
            N("NonZero", ["sums"], ["found"]),
            N("Squeeze", ["found", "first"], ["rows"]),
            N("Gather", ["h", "rows"], ["y"], name="gather"),
        ],
        tensors={**INNER, "axis": np.array([1]), "first": np.array([0])},
    )


MODELS = {
    "branch": lambda: make_if_of("c"),
    "constant": lambda: make_if_of(None),
    "loop": make_loop,
    "stack": lambda: make_loop(stacked=True),
    "scan": make_scan,
    "functions": make_functions,
    "sequence": lambda: make_sequence(1),
    "any element": lambda: make_sequence(None),
    "sequence in a loop": make_sequence_in_loop,
    "nested": make_nested,
    "optional": make_optional,
    "unknown length": make_data_dependent,
}


def make_if_of(condition):
    branches = {
        "then_branch": make_branch("then", "Relu", "a"),
        "else_branch": make_branch("else", "Tanh", "b"),
    }
    node = N("If", ["c"], ["y"], name="if", **branches)
    if condition:
        return make([node], CONDITION, INNER)
    return make([node], (), {**INNER, "c": np.array(True)})
