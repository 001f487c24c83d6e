"""ONNX models of attention with dropout, masks, biases and a soft cap, for devices."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from support.cuda_runs import CUDA, run

BATCH, HEADS, ROWS, COLUMNS = 2, 2, 72, 16
SHAPE = (BATCH, HEADS, ROWS, COLUMNS)
RATIO, CAP, FILL = 0.25, 2.0, -1e9

# Shapes of trained biases, by what their gradients are summed over.
TRAINED = {
    "trained": (1, HEADS, ROWS, ROWS),
    "of_heads": (BATCH, 1, 1, ROWS),
}
# What each model has, and what its records say of it.
MODELS = {
    "dropout": {"dropout"},
    "mask": {"mask"},
    "fill": {"mask", "fill", "dropout"},
    "bias": {"biases"},
    "softcap": {"softcap"},
    "all": {"softcap", "biases", "mask", "dropout"},
    "trained": {"trained"},
    "all_trained": {"softcap", "biases", "mask", "dropout", *TRAINED},
}


class Graph:
    """Attention whose query, key and value are matmuls of the input with a weight each. The mask
    [B, 1, 1, K] and the bias [B, H, 1, K] depend on the input, so that no gradient of theirs is
    needed."""

    def __init__(self):
        self.nodes, self.constants = [], []

    def add(self, kind, *inputs, **attributes):
        name = f"{kind.lower()}.{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name, **attributes))
        return name

    def constant(self, value, dtype=np.float32):
        tensor = numpy_helper.from_array(np.array(value, dtype))
        return self.add("Constant", value=tensor)

    def columns(self, heads):
        """The first column of the input, of one or all heads, as a row."""
        limits = [self.constant(v, np.int64) for v in ([0, 0], [heads, 1], [1, 3])]
        return self.add("Transpose", self.add("Slice", "x", *limits), perm=[0, 1, 3, 2])

    def attend(self, has):
        query, key, value = (self.add("MatMul", "x", f"w.{n}") for n in "qkv")
        key = self.add("Transpose", key, perm=[0, 1, 3, 2])
        scores = self.add("MatMul", query, key)
        scores = self.add("Mul", scores, self.constant(COLUMNS**-0.5))
        if "softcap" in has:
            cap = self.constant(CAP)
            scores = self.add(
                "Mul", self.add("Tanh", self.add("Div", scores, cap)), cap
            )
        if "biases" in has:
            scores = self.add("Add", scores, self.columns(HEADS))
        for name in TRAINED:
            if name in has:
                scores = self.add("Add", scores, f"b.{name}")
        if "mask" in has:
            visible = self.add("Greater", self.columns(1), self.constant(-0.5))
            fill = self.constant(FILL if "fill" in has else -np.inf)
            scores = self.add("Where", visible, scores, fill)
        p = self.add("Softmax", scores, axis=-1)
        if "dropout" in has:
            p = self.add("Dropout", p, self.constant(RATIO), self.constant(True, bool))
        self.nodes.append(helper.make_node("MatMul", [p, value], ["y"], "y"))


def make_model(path, has):
    graph = Graph()
    graph.attend(has)
    draw = np.random.default_rng(5)
    shapes = {f"w.{n}": (COLUMNS, COLUMNS) for n in "qkv"}
    shapes |= {f"b.{name}": shape for name, shape in TRAINED.items() if name in has}
    weights = [
        numpy_helper.from_array(
            draw.standard_normal(shape, np.float32) / COLUMNS**0.5, name
        )
        for name, shape in shapes.items()
    ]
    info = helper.make_tensor_value_info
    made = helper.make_graph(
        graph.nodes, "attention", [info("x", TensorProto.FLOAT, SHAPE)],
        [info("y", TensorProto.FLOAT, SHAPE)], weights,
    )  # fmt: skip
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(made, opset_imports=opset, ir_version=9)
    onnx.save(model, path, save_as_external_data=True, size_threshold=256)


def compile_model(folder, name, target):
    """Compiles a model of MODELS for "cpu" or "cuda". Kernels are saved in the folder."""
    path = folder / f"{name}.onnx"
    if not path.exists():
        make_model(path, MODELS[name])
    more = [*CUDA, "--save-kernels", folder] if target == "cuda" else []
    bundle = folder / f"{target}-{name}.bnd"
    run(
        "binade", "compile", path, "--policy", "bf16-amp", "--loss", "mse(y, target)",
        "--optimizer", "sgd", "--lr", 0.5, *more, "-o", bundle,
    )  # fmt: skip
    return bundle
