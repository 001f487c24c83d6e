"""Exports modules as ONNX and runs them in onnxruntime, as a backend for tests of ops."""

import pathlib
import re
import subprocess
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from support.convert import run
from support.paths import BUILD
from support.reference import ELEMENTS

TRANSLATE = BUILD / "bin" / "binade-translate"
NARROW = {TensorProto.BFLOAT16, TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2}


def export(module, folder, code=0):
    """Exports `m.onnx`, checks that it is valid, and returns the printed text."""
    source, target = folder / "m.mlir", folder / "m.onnx"
    source.write_text(module)
    command = [TRANSLATE, "--export-onnx", source, "-o", target]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    if code == 0:
        onnx.checker.check_model(target, full_check=True)
    return done.stderr


def widen_ports(model):
    """Changes inputs and outputs in formats that onnxruntime's Python API does not support
    to f32, which represents all of their values."""
    graph = model.graph
    before, after = [], []
    for ports, nodes in ((graph.input, before), (graph.output, after)):
        for port in ports:
            tensor = port.type.tensor_type
            if tensor.elem_type not in NARROW:
                continue
            inside, narrow = f"{port.name}.narrow", tensor.elem_type
            for node in graph.node:
                for names in (node.input, node.output):
                    names[:] = [inside if name == port.name else name for name in names]
            names = [port.name, inside] if nodes is before else [inside, port.name]
            to = narrow if nodes is before else TensorProto.FLOAT
            nodes.append(helper.make_node("Cast", names[:1], names[1:], to=to))
            tensor.elem_type = TensorProto.FLOAT
    inputs = {port.name for port in graph.input}
    for tensor in graph.initializer:  # Default values of inputs that are omitted.
        if tensor.name in inputs and tensor.data_type in NARROW:
            values = numpy_helper.to_array(tensor).astype("f4")
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    for place, node in enumerate(before):
        graph.node.insert(place, node)
    graph.node.extend(after)


#: The result types of the step or only function.
RESULTS = re.compile(r"func\.func @\w+\(.*?\)\s*->\s*(.*?)\s*\{\n", re.DOTALL)


def evaluate(module, inputs, weights=None, optimizes=False):
    """The outputs of a module's step or only function, as binade-interpret names them. Its
    weights are in the folder `weights`; `optimizes` selects onnxruntime's default session."""
    heads = module[module.find("func.func @step") :] if "@step(" in module else module
    heads = re.sub(r"func\.func private .*", "", heads)
    elements = re.findall(r"tensor<(?:\d+x)*(\w+)>", RESULTS.search(heads)[1])
    with tempfile.TemporaryDirectory() as name:
        folder = weights or pathlib.Path(name)
        export(module, folder)
        model = onnx.load(folder / "m.onnx")
        widen_ports(model)
        onnx.save(model, folder / "m.onnx")
        types = {
            port.name: helper.tensor_dtype_to_np_dtype(port.type.tensor_type.elem_type)
            for port in model.graph.input
        }
        feeds = {}
        for key, array in inputs.items():
            port = key if key in types else key.replace("arg", "argument")
            feeds[port] = np.asarray(array).astype(types[port])
        outputs = run(folder / "m.onnx", feeds, optimizes)
    return {
        key.removeprefix("new.").removeprefix("grad."): np.asarray(array).astype(
            ELEMENTS[element]
        )
        for (key, array), element in zip(outputs.items(), elements, strict=True)
    }
