"""Models that import rejects, as text, and the messages of `binade-translate`."""

import subprocess

import pytest
from support.paths import BUILD

onnx = pytest.importorskip("onnx")

TRANSLATE = BUILD / "bin" / "binade-translate"


def parse(graph, opset=20):
    """A model that imports the operator sets of its nodes."""
    model = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : {opset}]> {graph}'
    )
    for domain in sorted({node.domain for node in model.graph.node} - {""}):
        model.opset_import.append(onnx.helper.make_opsetid(domain, 1))
    return model


def translate(path, *flags):
    return subprocess.run(
        [TRANSLATE, "--import-onnx", path, *flags],
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip


def messages(path, *flags):
    """The message of a failed import, which prints no module and no folder of the file."""
    result = translate(path, *flags)
    assert result.returncode == 1, result.stderr
    assert result.stdout == ""
    return result.stderr.replace(f"{path.parent}/", "")


def check_rejected(graph, flags, message, tmp_path):
    """Checks that import rejects a graph with `message`; `opset N` may precede the graph."""
    opset = 20
    if graph.startswith("opset"):
        _, number, graph = graph.split(" ", 2)
        opset = int(number)
    onnx.save(parse(graph, opset), tmp_path / "m.onnx")
    assert message in messages(tmp_path / "m.onnx", *flags)
