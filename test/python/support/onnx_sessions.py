"""Runs exported ONNX files with onnxruntime."""

import pytest

onnxruntime = pytest.importorskip("onnxruntime")


def session(path):
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def run_onnx(path, feeds):
    """The outputs of a file by name. Inputs that the file does not have are ignored."""
    opened = session(path)
    names = [output.name for output in opened.get_outputs()]
    inputs = {value.name for value in opened.get_inputs()}
    given = {name: array for name, array in feeds.items() if name in inputs}
    return dict(zip(names, opened.run(None, given)))
