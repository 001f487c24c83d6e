"""Invalid ONNX files, and valid files that Binade does not import. Tests also check the
verdict of `onnx.checker` on each file."""

import numpy as np
from onnx import AttributeProto, TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT
node = helper.make_node


def value(name, shape=(2, 3), type=FLOAT):
    return helper.make_tensor_value_info(name, type, shape)


def weight(name="w", shape=(4, 3)):
    return numpy_helper.from_array(np.ones(shape, "f4"), name)


def make(
    nodes=None,
    ins=None,
    outs=None,
    inits=None,
    opset=17,
    infos=(),
    functions=(),
    **more,
):
    """A matmul of `x` [2, 4] and `w` [4, 3], unless the arguments replace parts of it."""
    nodes = nodes or [node("MatMul", ["x", "w"], ["y"], name="mm")]
    graph = helper.make_graph(
        nodes, "g", ins or [value("x", (2, 4))], outs or [value("y")],
        [weight()] if inits is None else inits, value_info=list(infos), **more,
    )  # fmt: skip
    imports = [helper.make_opsetid("", opset)] if opset else []
    if functions:
        imports.append(helper.make_opsetid("local", 1))
    model = helper.make_model(graph, opset_imports=imports, functions=list(functions))
    model.ir_version = 9
    return model


def change(model, **fields):
    """A model whose first node has changed attributes."""
    for name, changed in fields.items():
        setattr(model.graph.node[0], name, changed)
    return model


def raw(dims, data, type=FLOAT):
    tensor = TensorProto(name="w", data_type=type, dims=dims)
    tensor.raw_data = data
    return tensor


def external(dims=(4, 3), **entries):
    """A tensor with external data in w.bin, which has 48 bytes."""
    tensor = TensorProto(name="w", data_type=FLOAT, dims=dims)
    tensor.data_location = TensorProto.EXTERNAL
    for key, text in {"location": "w.bin", **entries}.items():
        tensor.external_data.add(key=key, value=text)
    return tensor


def branch(name, nodes, outs, ins=(), inits=()):
    return helper.make_graph(nodes, name, list(ins), list(outs), list(inits))


def conditional(then, other, outputs=("y",)):
    return make(
        [
            node(
                "If",
                ["c"],
                list(outputs),
                name="choose",
                then_branch=then,
                else_branch=other,
            )
        ],
        [value("c", (), TensorProto.BOOL), value("x", (2, 4))],
    )


RELU = branch("r", [node("MatMul", ["x", "w"], ["a"], name="inner")], [value("a")])


def attribute(name, **fields):
    return AttributeProto(name=name, **fields)


def softmax(*attributes, **named):
    made = node("Softmax", ["x"], ["y"], name="soft", **named)
    made.attribute.extend(attributes)
    return make([made], outs=[value("y", (2, 4))])


def local(nodes, inputs=("a",), outputs=("b",), name="f", **more):
    return helper.make_function(
        "local", name, list(inputs), list(outputs), nodes,
        [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)], **more,
    )  # fmt: skip


def call(*functions, inputs=("x",)):
    return make(
        [node("f", list(inputs), ["y"], name="call", domain="local")],
        outs=[value("y", (2, 4))], functions=functions,
    )  # fmt: skip


def two_sets():
    model = make()
    model.opset_import.append(helper.make_opsetid("", 13))
    return model


def metadata_twice():
    model = make()
    for text in ("a", "b"):
        model.metadata_props.add(key="k", value=text)
    return model


def without(model, clear):
    clear(model)
    return model


def sparse(places, dims=(4, 3)):
    values = numpy_helper.from_array(np.arange(1, len(places) + 1, dtype="f4"), "w")
    indices = numpy_helper.from_array(np.array(places, "i8"), "i")
    return make(
        inits=[], sparse_initializer=[helper.make_sparse_tensor(values, indices, dims)]
    )


# Kind of error: the model, and the words that the message must contain.
INVALID = {
    # Names.
    "initializer_twice": (lambda: make(inits=[weight(), weight()]), "initializer 'w'"),
    "input_twice": (lambda: make(ins=[value("x", (2, 4))] * 2), "input 'x'"),
    "value_twice": (
        lambda: make([node("MatMul", ["x", "w"], ["y"], name="mm"),
                      node("Relu", ["y"], ["y"], name="relu")]),
        "node 'relu' (Relu)",
    ),
    "initializer_and_value": (
        lambda: make([node("Relu", ["x"], ["w"], name="relu")]), "node 'relu' (Relu)",
    ),
    "no_such_output": (lambda: make(outs=[value("z")]), "output 'z'"),
    "no_such_input": (
        lambda: make([node("MatMul", ["x", "v"], ["y"], name="mm")]), "reads 'v'",
    ),
    "no_such_input_of_a_dead_node": (
        lambda: make([node("MatMul", ["x", "w"], ["y"], name="mm"),
                      node("Relu", ["v"], ["d"], name="dead")]),
        "node 'dead' (Relu)",
    ),
    "cycle": (
        lambda: make([node("Add", ["x", "b"], ["a"], name="n1"),
                      node("Add", ["x", "a"], ["b"], name="n2"),
                      node("Relu", ["b"], ["y"], name="n3")], outs=[value("y", (2, 4))]),
        "node 'n1' (Add)",
    ),
    "cycle_of_dead_nodes": (
        lambda: make([node("MatMul", ["x", "w"], ["y"], name="mm"),
                      node("Relu", ["b"], ["a"], name="n1"),
                      node("Relu", ["a"], ["b"], name="n2")]),
        "node 'n1' (Relu)",
    ),
    "initializer_without_a_name": (lambda: make(inits=[weight(), weight("")]), "initializer"),
    # Ops.
    "one_input": (lambda: make([node("MatMul", ["x"], ["y"], name="mm")]), "node 'mm' (MatMul)"),
    "an_input_left_out": (
        lambda: make([node("MatMul", ["", "w"], ["y"], name="mm")]), "node 'mm' (MatMul)",
    ),
    "three_inputs": (
        lambda: make([node("MatMul", ["x", "w", "w"], ["y"], name="mm")]), "node 'mm' (MatMul)",
    ),
    "two_outputs": (
        lambda: make([node("MatMul", ["x", "w"], ["y", "z"], name="mm")]), "node 'mm' (MatMul)",
    ),
    "no_op_type": (lambda: change(make(), op_type=""), "node"),
    "no_operator_set_of_the_domain": (
        lambda: change(make(), domain="some.where"), "'some.where'",
    ),
    "two_operator_sets": (two_sets, "17 and 13"),
    "no_operator_set": (lambda: make(opset=0), "no ONNX operator set"),
    "no_ir_version": (
        lambda: without(make(), lambda m: m.ClearField("ir_version")), "IR version",
    ),
    "metadata_twice": (metadata_twice, "metadata 'k'"),
    # Attributes.
    "attribute_type": (lambda: softmax(axis=1.5), "attribute 'axis'"),
    "attribute_unknown": (lambda: softmax(slope=1.5), "attribute 'slope'"),
    "attribute_twice": (
        lambda: softmax(*[attribute("axis", type=AttributeProto.INT, i=1)] * 2),
        "attribute 'axis'",
    ),
    "attribute_without_a_type": (lambda: softmax(attribute("axis", i=1)), "attribute 'axis'"),
    "attribute_of_two_values": (
        lambda: softmax(attribute("axis", type=AttributeProto.INT, i=1, f=2.0)),
        "attribute 'axis'",
    ),
    "attribute_missing": (
        lambda: make([node("Cast", ["x"], ["y"], name="cast")], outs=[value("y", (2, 4))]),
        "attribute 'to'",
    ),
    "attribute_of_no_function": (
        lambda: softmax(attribute("axis", type=AttributeProto.INT, ref_attr_name="a")),
        "attribute 'axis'",
    ),
    # Tensors.
    "short_data": (lambda: make(inits=[raw([4, 3], bytes(44))]), "44 bytes"),
    "long_data": (lambda: make(inits=[raw([4, 3], bytes(52))]), "52 bytes"),
    "no_data": (
        lambda: make(inits=[TensorProto(name="w", data_type=FLOAT, dims=[4, 3])]), "0 bytes",
    ),
    "data_of_another_type": (
        lambda: make(inits=[TensorProto(name="w", data_type=FLOAT, dims=[4, 3],
                                        int64_data=range(12))]),
        "initializer 'w'",
    ),
    "unused_short_data": (
        lambda: make(inits=[weight(), TensorProto(name="v", data_type=FLOAT, dims=[2])]),
        "initializer 'v'",
    ),
    "negative_dimension": (lambda: make(inits=[raw([-4, 3], bytes(48))]), "negative length -4"),
    "undefined_element_type": (lambda: make(inits=[raw([4, 3], bytes(48), 77)]), "number 77"),
    "constant_of_short_data": (
        lambda: make([node("Constant", [], ["w"], name="c", value=raw([4, 3], bytes(40))),
                      node("MatMul", ["x", "w"], ["y"], name="mm")], inits=[]),
        "node 'c' (Constant)",
    ),
    "external_short": (lambda: make(inits=[external(offset="0", length="40")]), "40 bytes"),
    "external_beyond": (lambda: make(inits=[external(offset="16")]), "beyond the end"),
    "external_negative": (lambda: make(inits=[external(offset="-8")]), "'-8'"),
    "external_nowhere": (lambda: make(inits=[external(location="v.bin")]), "v.bin"),
    "external_outside": (lambda: make(inits=[external(location="../w.bin")]), "'..'"),
    "external_without_a_file": (lambda: make(inits=[external(location="")]), "no file"),
    "external_short_and_unused": (
        lambda: make([node("Relu", ["x"], ["y"], name="relu")], outs=[value("y", (2, 4))],
                     inits=[external(length="40")]),
        "initializer 'w'",
    ),
    "sparse_outside": (lambda: sparse([0, 5, 12]), "initializer 'w'"),
    "sparse_unsorted": (lambda: sparse([0, 7, 5]), "initializer 'w'"),
    # Types and shapes.
    "wrong_shape": (lambda: make(inits=[weight(shape=(5, 3))]), "node 'mm' (MatMul)"),
    "no_broadcast": (
        lambda: make([node("Add", ["x", "w"], ["y"], name="add")]), "node 'add' (Add)",
    ),
    "two_types": (
        lambda: make([node("Add", ["x", "i"], ["y"], name="add")],
                     [value("x", (2, 4)), value("i", (2, 4), TensorProto.INT64)],
                     [value("y", (2, 4))]),
        "node 'add' (Add)",
    ),
    "type_that_the_op_lacks": (
        lambda: make([node("Exp", ["x"], ["y"], name="exp")],
                     [value("x", (2, 4), TensorProto.INT64)],
                     [value("y", (2, 4), TensorProto.INT64)]),
        "node 'exp' (Exp)",
    ),
    "axis_outside": (lambda: softmax(axis=2), "axis 2"),
    "output_of_another_shape": (lambda: make(outs=[value("y", (3, 2))]), "output 'y'"),
    "output_of_another_type": (
        lambda: make(outs=[value("y", type=TensorProto.DOUBLE)]), "output 'y'",
    ),
    "value_of_another_shape": (
        lambda: make([node("MatMul", ["x", "w"], ["h"], name="mm"),
                      node("Relu", ["h"], ["y"], name="relu")], infos=[value("h", (2, 2))]),
        "value 'h'",
    ),
    "value_of_another_type": (
        lambda: make([node("MatMul", ["x", "w"], ["h"], name="mm"),
                      node("Relu", ["h"], ["y"], name="relu")],
                     infos=[value("h", type=TensorProto.INT32)]),
        "value 'h'",
    ),
    "input_and_initializer_of_other_shapes": (
        lambda: make(ins=[value("x", (2, 4)), value("w", (3, 4))]), "initializer 'w'",
    ),
    "input_without_a_type": (
        lambda: without(make(), lambda m: m.graph.input[0].ClearField("type")), "input 'x'",
    ),
    "negative_length": (lambda: make(ins=[value("x", (-2, 4))]), "negative length -2"),
    # Graphs inside of nodes.
    "branch_of_other_outputs": (
        lambda: conditional(RELU, branch("e", [node("Relu", ["x"], ["b"]),
                                               node("Relu", ["x"], ["d"])],
                                         [value("b", (2, 4)), value("d", (2, 4))])),
        "node 'choose' (If)",
    ),
    "branch_reads_nothing": (
        lambda: conditional(RELU, branch("e", [node("Relu", ["q"], ["b"], name="deep")],
                                         [value("b")])),
        "reads 'q'",
    ),
    "branch_hides_a_value": (
        lambda: conditional(RELU, branch("e", [node("Relu", ["w"], ["x"], name="deep")],
                                         [value("x", (4, 3))])),
        "node 'choose' (If)",
    ),
    "branch_of_short_data": (
        lambda: conditional(RELU, branch("e", [node("Identity", ["v"], ["b"])], [value("b")],
                                         inits=[TensorProto(name="v", data_type=FLOAT,
                                                            dims=[2, 3])])),
        "initializer 'v'",
    ),
    "body_of_other_inputs": (
        lambda: make([node("Loop", ["n", "c", "x"], ["y"], name="loop", body=branch(
            "b", [node("Relu", ["s"], ["t"]), node("Identity", ["k"], ["l"])],
            [value("l", (), TensorProto.BOOL), value("t", (2, 4))],
            [value("k", (), TensorProto.BOOL), value("s", (2, 4))]))],
            [value("n", (), TensorProto.INT64), value("c", (), TensorProto.BOOL),
             value("x", (2, 4))], [value("y", (2, 4))]),
        "node 'loop' (Loop)",
    ),
    # Functions.
    "function_twice": (
        lambda: call(*[local([node("Relu", ["a"], ["b"])])] * 2), "function 'f'",
    ),
    "function_calls_itself": (
        lambda: call(local([node("f", ["a"], ["b"], domain="local")])), "function 'f'",
    ),
    "functions_call_each_other": (
        lambda: call(local([node("g", ["a"], ["b"], domain="local")]),
                     local([node("f", ["a"], ["b"], domain="local")], name="g")),
        "function 'f'",
    ),
    "function_reads_nothing": (
        lambda: call(local([node("Add", ["a", "z"], ["b"], name="deep")])), "deep",
    ),
    "function_of_fewer_inputs": (
        lambda: call(local([node("Relu", ["a"], ["b"])]), inputs=("x", "x")), "node 'call' (f)",
    ),
    "function_of_wrong_attributes": (
        lambda: call(local([node("Softmax", ["a"], ["b"], name="deep", axis=1.5)])), "deep",
    ),
}  # fmt: skip

# Valid files, with what is left as it is.
UNREAD = {
    "output_listed_twice": (lambda: make(outs=[value("y"), value("y")]), "output 'y'"),
    "sparse_initializer": (lambda: sparse([0, 5, 7]), "initializer 'w'"),
    "unknown_op": (
        lambda: without(
            make([node("Thing", ["x", "w"], ["y"], name="mm", domain="some.where")]),
            lambda m: m.opset_import.append(helper.make_opsetid("some.where", 1))),
        "node 'mm'",
    ),
    "strings": (
        lambda: make([node("Identity", ["x"], ["y"], name="id")],
                     [value("x", (2,), TensorProto.STRING)],
                     [value("y", (2,), TensorProto.STRING)], []),
        "node 'id'",
    ),
    "integers_where_floats_are_read": (
        lambda: make([node("MatMul", ["x", "x"], ["y"], name="mm")],
                     [value("x", (2, 2), TensorProto.INT32)],
                     [value("y", (2, 2), TensorProto.INT32)], []),
        "node 'mm'",
    ),
    "shape_that_depends_on_data": (
        lambda: make([node("Reshape", ["x", "s"], ["y"], name="shape")],
                     [value("x", (2, 4)), value("s", (2,), TensorProto.INT64)],
                     [value("y", (None, None))], []),
        "node 'shape'",
    ),
    "baked_batch": (
        lambda: make([node("Reshape", ["x", "s"], ["y"], name="shape")],
                     [value("x", ("batch", 4))], [value("y", (3, 8))],
                     [numpy_helper.from_array(np.array([3, 8]), "s")]),
        "node 'shape'",
    ),
}  # fmt: skip
