"""Graphs of many nodes."""

import numpy as np
import onnx
from onnx import TensorProto, helper

WIDTH = 4
# A decomposed residual block, as exporters write it. `x` is the output of the previous
# block, `{W}` the prefix of the names in the block.
BLOCK = """
{W}m = ReduceMean(x, axes)
{W}d = Sub(x, {W}m)
{W}s = Mul({W}d, {W}d)
{W}v = ReduceMean({W}s, axes)
{W}e = Add({W}v, epsilon)
{W}r = Sqrt({W}e)
{W}n = Div({W}d, {W}r)
{W}g = Mul({W}n, {W}gain)
{W}b = Add({W}g, {W}shift)
{W}h = MatMul({W}b, {W}up)
{W}c = Add({W}h, {W}bias)
{W}t = Tanh({W}c)
{W}z = Shape({W}t)
{W}f = Reshape({W}t, {W}z)
{W}o = MatMul({W}f, {W}down)
{W}y = Add(x, {W}o)
"""
LINES = [line.replace("(", " ").rstrip(")").split(" ", 3) for line in BLOCK.split("\n")[1:-1]]  # fmt: skip
MATRICES, VECTORS = ("up", "down"), ("gain", "shift", "bias")


def write_big_graph(path, nodes):
    """Writes a chain of blocks that ends in a loss, with weights in an external file."""
    graph = onnx.GraphProto(name="big")
    constants = {"axes": np.array([-1]), "epsilon": np.array(1e-5, "f4")}
    for name, array in constants.items():
        graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    offset, last = 0, "x"
    while len(graph.node) < nodes - 2:
        prefix = f"block{len(graph.node) // len(LINES)}."
        names = {"x": last, "axes": "axes", "epsilon": "epsilon"}
        for output, _, op, inputs in LINES:
            output, *inputs = (
                names.get(name, name.format(W=prefix))
                for name in (output, *inputs.split(", "))
            )
            graph.node.append(helper.make_node(op, inputs, [output], name=output))
        last = f"{prefix}y"
        for suffix in MATRICES + VECTORS:
            tensor = graph.initializer.add(
                name=prefix + suffix,
                data_type=TensorProto.FLOAT,
                dims=[WIDTH] * (2 if suffix in MATRICES else 1),
                data_location=TensorProto.EXTERNAL,
            )
            size = 4 * int(np.prod(tensor.dims))
            for key, value in [
                ("location", path.stem + ".bin"), ("offset", offset), ("length", size)
            ]:  # fmt: skip
                tensor.external_data.add(key=key, value=str(value))
            offset += size
    graph.node.append(helper.make_node("Mul", [last, last], ["square"], name="square"))
    graph.node.append(
        helper.make_node("ReduceMean", ["square"], ["loss"], name="loss", keepdims=0)
    )
    graph.input.append(
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, WIDTH])
    )
    graph.output.append(helper.make_tensor_value_info("loss", TensorProto.FLOAT, []))
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), path
    )
    values = np.random.default_rng(0).standard_normal(offset // 4, "f4")
    (0.1 * values).tofile(path.with_suffix(".bin"))
