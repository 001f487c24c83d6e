"""Metadata of ONNX nodes that change their gradients (docs/Import.md).

PyTorch's exporter records with each node the call of PyTorch that it comes from. This
module keeps the facts that change a gradient: the function that a Clip or a Max comes from,
the row of an embedding without a gradient, and the ``detach`` at which a gradient stops.
"""

from __future__ import annotations

import re
from collections.abc import Collection

import onnx
import onnx_ir as ir

from binade.gradients import refuse_lookup

DETACHED, PADDING, FUNCTION = (
    f"binade.{name}" for name in ("detached", "padding_idx", "function")
)
# ONNX ops that implement several PyTorch functions, which split the gradient among equal
# elements in different ways.
_TIED = ("Clip", "Max", "Min", "ReduceMax", "ReduceMin")
_CALL = re.compile(r"\[target=torch\.ops\.aten\.([\w.]+)\]\(args = \((.*?)\)")
# A domain that hides an Identity from passes which would remove it.
_ASIDE = "binade.aside"


def _call(node: ir.Node) -> tuple[str, list[str]]:
    """Returns the ATen op that a node comes from, and the arguments of its call."""
    found = _CALL.search(node.metadata_props.get("pkg.torch.onnx.fx_node", ""))
    if found is None:
        return "", []
    return found[1], [part.strip() for part in found[2].split(",")]


def set_aside_detached(graph: ir.Graph) -> None:
    """Hides each Identity of a ``detach`` from passes that remove Identity nodes."""
    for node in graph:
        if node.op_type == "Identity" and _call(node)[0].startswith("detach"):
            node.domain = _ASIDE


def bring_back_detached(graph: ir.Graph, trained: Collection[str]) -> None:
    """Restores each Identity that ``set_aside_detached`` hid if it depends on a parameter of
    `trained`, and removes the others."""
    active = {value for value in graph.inputs if value.name in trained}
    for node in list(graph):
        reaches = any(value in active for value in node.inputs)
        if node.domain != _ASIDE:
            active.update(node.outputs if reaches else ())
            continue
        node.domain = ""
        if not reaches and node.outputs[0] not in graph.outputs:
            node.outputs[0].replace_all_uses_with(node.inputs[0])
            graph.remove(node, safe=True)


def read_marks(graph: ir.Graph) -> dict[ir.Node, dict[str, str]]:
    """Returns the metadata to add to nodes, by node.

    Raises:
      RejectedError: If a lookup has a setting that changes its gradient.
    """
    marks: dict[ir.Node, dict[str, str]] = {}
    for node in graph:
        function, arguments = _call(node)
        if node.op_type == "Identity" and function.startswith("detach"):
            marks[node] = {DETACHED: "1"}
        elif node.op_type in _TIED and function:
            marks[node] = {FUNCTION: function}
        elif node.op_type == "Gather" and function == "embedding.default":
            padding, scales, is_sparse = [*arguments[2:5], *["-1", "", ""]][:3]
            refuse_lookup(
                f"an embedding of '{node.inputs[0].name}'",
                scales == "True",
                is_sparse == "True",
            )
            if int(padding) >= 0:
                marks[node] = {PADDING: padding}
    return marks


def find_reached(proto: onnx.ModelProto, loss: str) -> set[str]:
    """Returns the values that have a gradient: those that reach the loss by a path without
    a ``detach``."""
    makers = {name: node for node in proto.graph.node for name in node.output}
    reached, pending = set(), [loss]
    while pending:
        name = pending.pop()
        if name in reached or not name:
            continue
        reached.add(name)
        node = makers.get(name)
        is_detached = node is not None and any(
            entry.key == DETACHED for entry in node.metadata_props
        )
        if node is not None and not is_detached:
            pending.extend(node.input)
            for attribute in node.attribute:
                for inner in [attribute.g, *attribute.graphs]:
                    pending.extend(name for one in inner.node for name in one.input)
    return reached
