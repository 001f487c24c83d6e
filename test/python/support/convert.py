"""Helpers that build, convert and run graphs for the tests of `binade convert`."""

import subprocess
import warnings

import numpy as np
import onnx
import onnx.parser
import onnxruntime as ort
from onnx.backend.test.case.node import collect_testcases
from onnx.reference import ReferenceEvaluator
from onnxruntime.capi import onnxruntime_pybind11_state as state
from support.paths import BUILD

BINADE = BUILD / "bin" / "binade"
#: Errors of onnxruntime for models that it does not load.
ERRORS = (
    state.EPFail, state.Fail, state.InvalidArgument, state.InvalidGraph,
    state.InvalidProtobuf, state.NoSuchFile, state.NotImplemented,
    state.RuntimeException,
)  # fmt: skip
HEADER = '<ir_version: 10, opset_import: ["" : 20]>\n'


def parse(text):
    """A model from ONNX's text format."""
    return onnx.parser.parse_model(HEADER + text)


def convert(model, folder, policy, *options, code=0, **save):
    """Returns the converted model without its external data, and the printed text."""
    source, target = folder / "in.onnx", folder / "out.onnx"
    onnx.save(model, source, **save)
    command = [BINADE, "convert", source, "--policy", policy, "-o", target, *options]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == code, done.stderr
    if code:
        assert not target.exists()
        return None, done.stderr
    onnx.checker.check_model(target, full_check=True)
    check_loads(source, target, done.stdout)
    return onnx.load(target, load_external_data=False), done.stdout


def find_fault(path, optimizes, text=""):
    """The error with which onnxruntime fails to load a model, or None. The session has the
    options that `text`, the output of a conversion, requests."""
    options = make_options(optimizes)
    if "session.disable_quant_qdq" in text:
        options.add_session_config_entry("session.disable_quant_qdq", "1")
    try:
        ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except ERRORS as error:
        return error
    return None


def check_loads(source, target, text=""):
    """Checks that onnxruntime loads the converted model if it loads the original, with and
    without its optimizations. Returns the errors about kernels that its CPU backend lacks;
    callers check these models with onnx.checker."""
    missing = []
    for optimizes in (False, True):
        if find_fault(source, optimizes):
            continue
        fault = find_fault(target, optimizes, text)
        if isinstance(fault, state.NotImplemented):
            missing.append(str(fault))
        else:
            assert not fault, fault
    return missing


def is_valid(model):
    """Whether onnx.checker accepts a model."""
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError):
        return False
    return True


def collect_node_tests():
    """The test cases of single nodes that ONNX ships."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return collect_testcases(None)


def find_reasons(model):
    """The entries `binade.precision` of the metadata of nodes, by node name."""
    return {
        node.name: entry.value
        for node in model.graph.node
        for entry in node.metadata_props
        if entry.key == "binade.precision"
    }


def make_options(optimizes):
    options = ort.SessionOptions()
    options.intra_op_num_threads = (
        1  # With more threads, ScatterND loses updates of an index.
    )
    if not optimizes:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return options


def open_session(model, optimizes=False):
    """Opens a model, a path or bytes, in onnxruntime, by default without its
    optimizations."""
    options = make_options(optimizes)
    # The option that `binade convert` prints for quantized matmuls.
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def run(path, feeds, optimizes=False):
    """The outputs that onnxruntime computes, by name."""
    session = open_session(path, optimizes)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, feeds)))


def evaluate(path, feeds):
    """The outputs by ONNX's reference, which rounds to f16 and bf16 wherever the graph does;
    onnxruntime's CPU backend drops casts and computes in f32 between them."""
    model = onnx.load(path)
    names = [output.name for output in model.graph.output]
    return dict(zip(names, ReferenceEvaluator(model).run(None, feeds)))


def run_both(folder, feeds):
    """The outputs of the original and of its conversion."""
    return run(folder / "in.onnx", feeds), evaluate(folder / "out.onnx", feeds)


def strip(model):
    """The graph without the metadata of its nodes."""
    graph = onnx.GraphProto()
    graph.CopyFrom(model.graph)
    for node in graph.node:
        del node.metadata_props[:]
    return graph


def find_types(model):
    """Element types of values, as ONNX infers them."""
    inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True).graph
    types = {tensor.name: tensor.data_type for tensor in inferred.initializer}
    for value in [*inferred.value_info, *inferred.input, *inferred.output]:
        types[value.name] = value.type.tensor_type.elem_type
    return types


def draw(*shape, scale=1.0, seed=0):
    return (scale * np.random.default_rng(seed).standard_normal(shape)).astype("f4")


def add_tensor(model, name, array):
    model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return model
