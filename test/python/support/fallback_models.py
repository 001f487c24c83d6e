"""Models of the operations that some targets or policies lack."""

from __future__ import annotations

import json

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROWS = 32
HEADS = [16, 20, 144]


class Model:
    """A model of independent branches, whose loss is the sum of their losses."""

    def __init__(self):
        self.nodes, self.inputs, self.weights, self.losses = [], [], [], []

    def add(self, op, name, *operands, **attributes):
        self.nodes.append(
            helper.make_node(op, list(operands), [name], name=name, **attributes)
        )
        return name

    def input(self, name, columns):
        shape = [ROWS, columns]
        self.inputs.append(
            helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        )
        return name

    def weight(self, name, *shape):
        value = np.random.default_rng(len(self.weights)).standard_normal(shape)
        self.weights.append(numpy_helper.from_array(value.astype(np.float32), name))
        return name

    def reshape(self, name, x, *shape):
        sizes = numpy_helper.from_array(np.array(shape, np.int64), f"{name}.sizes")
        self.weights.append(sizes)
        return self.add("Reshape", name, x, f"{name}.sizes")

    def lose(self, name):
        square = self.add("Mul", f"{name}.square", name, name)
        self.losses.append(self.add("ReduceMean", f"{name}.mean", square, keepdims=0))

    def save(self, path):
        self.add("Sum", "loss", *self.losses)
        graph = helper.make_graph(
            self.nodes, "branches", self.inputs,
            [helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])], self.weights,
        )  # fmt: skip
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)])
        names = [w.name for w in self.weights if w.data_type == TensorProto.FLOAT]
        helper.set_model_props(model, {"binade.trainable": json.dumps(names)})
        onnx.save(model, path)
        return path


def add_linear(model, name, terms, columns):
    x = model.input(f"{name}.x", terms)
    model.add("MatMul", name, x, model.weight(f"{name}.w", terms, columns))
    model.lose(name)


def add_ends(model):
    """Adds the layers with most ops after and before them, which FP8 policies keep wide, so
    that no other one is first or last."""
    x = model.input("first.x", 64)
    model.add("MatMul", "first", x, model.weight("first.w", 64, 48))
    value = "first"
    for number in range(8):
        value = model.add("Relu", f"after{number}", value)
    model.lose(value)
    value = model.input("last.x", 64)
    for number in range(8):
        value = model.add("Relu", f"before{number}", value)
    model.add("MatMul", "last", value, model.weight("last.w", 64, 32))
    model.lose("last")


def write_all(path):
    """Matmuls whose summed axis, rows and columns are multiples of 16 or not, with more axes
    and transposed, grouped convolutions, and attention heads of several sizes."""
    model = Model()
    add_linear(model, "plain", 64, 48)
    add_linear(model, "k50", 50, 48)
    add_linear(model, "n20", 64, 20)
    rows = model.reshape("rows30.x", model.input("rows30.in", 45), 30, 48)
    model.add("MatMul", "rows30", rows, model.weight("rows30.w", 48, 32))
    model.lose("rows30")
    batch = model.reshape("batch.x", model.input("batch.in", 64), 4, 8, 64)
    model.add("MatMul", "batch", batch, model.weight("batch.w", 64, 32))
    model.lose("batch")
    model.add("Gemm", "turned", model.input("turned.x", 64), model.weight("turned.w", 32, 64),
              model.weight("turned.b", 32), transB=1)  # fmt: skip
    model.lose("turned")
    scaled = model.add("Mul", "scaled", batch, model.weight("scale", 64))
    other = model.reshape("other", model.input("other.in", 128), 4, 64, 16)
    model.add("MatMul", "activations", scaled, other)
    model.lose("activations")
    for groups in (1, 2):
        image = model.reshape(
            f"conv{groups}.x", model.input(f"conv{groups}.in", 144), ROWS, 4, 6, 6
        )
        weight = model.weight(f"conv{groups}.w", 8, 4 // groups, 3, 3)
        model.add("Conv", f"conv{groups}", image, weight, group=groups)
        model.lose(f"conv{groups}")
    for size in HEADS:
        name = f"head{size}"
        sides = []
        for side in "qkv":
            part = model.add("MatMul", f"{name}.{side}.linear", model.input(f"{name}.{side}.x", 32),
                             model.weight(f"{name}.{side}.w", 32, 2 * size))  # fmt: skip
            split = model.reshape(f"{name}.{side}.split", part, 2, 16, 2, size)
            sides.append(
                model.add("Transpose", f"{name}.{side}", split, perm=[0, 2, 1, 3])
            )
        model.add("Attention", name, *sides)
        model.lose(name)
    add_ends(model)
    return model.save(path)


def write_one(path, terms, rows=ROWS):
    model = Model()
    x = model.reshape("x", model.input("in", terms * rows // ROWS), rows, terms)
    model.add("MatMul", "first", x, model.weight("first.w", terms, 32))
    model.add("MatMul", "last", "first", model.weight("last.w", 32, 32))
    model.lose("last")
    return model.save(path)
