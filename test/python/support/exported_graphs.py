"""Modules of PyTorch as ONNX files, run by ONNX's reference implementation."""

import json

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxscript", reason="PyTorch's exporter needs onnxscript")

from binade import export
from onnx.reference import ReferenceEvaluator
from support import export_models as models


def write(tmp_path, model, batch, loss=models.cross_entropy, **options):
    """Exports a model and returns the file's contents without external weights."""
    export.export_onnx(model, batch, tmp_path / "m.onnx", loss=loss, **options)
    return onnx.load(tmp_path / "m.onnx", load_external_data=False)


def run(tmp_path, batch, extra_outputs=()):
    """Evaluates the exported file and returns its outputs by name."""
    proto = onnx.load(tmp_path / "m.onnx")
    for name in extra_outputs:
        proto.graph.output.add(name=name)
    names = [output.name for output in proto.graph.output]
    feeds = {key: value.numpy() for key, value in batch.items()}
    return dict(zip(names, ReferenceEvaluator(proto).run(None, feeds)))


def metadata(proto):
    return {entry.key: json.loads(entry.value) for entry in proto.metadata_props}


def op_types(proto):
    return [node.op_type for node in proto.graph.node]
