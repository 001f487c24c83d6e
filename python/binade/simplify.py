"""Simplifies PyTorch's raw ONNX graph without changing its values, and renames it.

The exporter's own optimizer may drop small constants and merge or fold parameters.
This module makes parameters graph inputs before it folds constants, so that nothing that
depends on a parameter is folded; then it gives nodes readable and stable names.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Sequence

import numpy as np
import onnx
import onnx_ir as ir
import torch
from onnx_ir.passes import common as passes
from onnxscript.optimizer import fold_constants

from binade import marks
from binade.safetensors import Header

ONNX_NAMES = {
    torch.float32: "FLOAT",
    torch.float64: "DOUBLE",
    torch.float16: "FLOAT16",
    torch.bfloat16: "BFLOAT16",
    torch.float8_e4m3fn: "FLOAT8E4M3FN",
    torch.float8_e5m2: "FLOAT8E5M2",
    torch.float8_e8m0fnu: "FLOAT8E8M0",
    torch.int64: "INT64",
    torch.int32: "INT32",
    torch.int16: "INT16",
    torch.int8: "INT8",
    torch.uint8: "UINT8",
    torch.bool: "BOOL",
}

# The maximum number of elements of a folded constant: enough for positions and shapes.
# Larger constants stay as the ops that compute them.
_LARGEST_FOLDED = 4096
# Masks stay comparisons at every size, so that attention always has the same pattern.
_NOT_FOLDED = {"Where", "LessOrEqual"}


def to_proto(
    model: ir.Model,
    *,
    aliases: Mapping[str, str],
    order: Sequence[str],
    batch: Sequence[str],
    outputs: Sequence[str],
    prefix: str,
    trained: Collection[str] = (),
) -> onnx.ModelProto:
    """Simplifies a raw graph and returns it with every model tensor as an input.

    Args:
      model: The result of torch.onnx.export(optimize=False); it is modified.
      aliases: The exporter's name of each parameter or buffer -> the name to use.
      order: The new names of the tensors, in the order of the inputs to create.
      batch: Names of the batch inputs, in the order of the graph's own inputs.
      outputs: Names for the graph's outputs, in order.
      prefix: The prefix of module paths to remove from node names.
      trained: Names of the tensors that have gradients.
    """
    graph = model.graph
    _tensors_to_inputs(graph, aliases, order, batch)
    marks.set_aside_detached(graph)
    passes.InlinePass()(model)
    fold_constants(
        model,
        onnx_shape_inference=True,
        input_size_limit=_LARGEST_FOLDED,
        output_size_limit=_LARGEST_FOLDED,
        should_fold=lambda node: False if node.op_type in _NOT_FOLDED else None,
    )
    passes.IdentityEliminationPass()(model)
    passes.RemoveUnusedNodesPass()(model)
    passes.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    _make_reshapes_explicit(graph)
    passes.DeduplicateInitializersPass()(model)
    passes.RemoveUnusedNodesPass()(model)
    passes.TopologicalSortPass()(model)
    marks.bring_back_detached(graph, trained)
    _rename(graph, outputs, prefix)
    kept = marks.read_marks(graph)
    passes.ClearMetadataAndDocStringPass()(model)
    for node, own in kept.items():
        node.metadata_props.update(own)
    graph.name = "step"
    model.producer_name = "binade.export"
    model.producer_version = None
    return ir.to_proto(model)


def bind_external(proto: onnx.ModelProto, header: Header, location: str) -> None:
    """Turns inputs into initializers whose bytes are those of a safetensors file."""
    bound = []
    for value in _take_inputs(proto, header.tensors):
        info = header.tensors[value.name]
        tensor = onnx.TensorProto(
            name=value.name,
            data_type=value.type.tensor_type.elem_type,
            dims=info.shape,
            data_location=onnx.TensorProto.EXTERNAL,
        )
        for key, text in (
            ("location", location),
            ("offset", str(info.offset)),
            ("length", str(info.length)),
        ):
            tensor.external_data.add(key=key, value=text)
        bound.append(tensor)
    _put_initializers_first(proto, bound)


def bind_values(proto: onnx.ModelProto, values: Mapping[str, np.ndarray]) -> None:
    """Turns inputs into initializers that are stored in the ONNX file itself."""
    bound = [
        onnx.numpy_helper.from_array(values[value.name], value.name)
        for value in _take_inputs(proto, values)
    ]
    _put_initializers_first(proto, bound)


def _take_inputs(proto: onnx.ModelProto, names) -> list[onnx.ValueInfoProto]:
    """Removes the graph inputs of these names and returns them."""
    taken = [value for value in proto.graph.input if value.name in names]
    kept = [value for value in proto.graph.input if value.name not in names]
    del proto.graph.input[:]
    proto.graph.input.extend(kept)
    return taken


def _put_initializers_first(
    proto: onnx.ModelProto, tensors: Sequence[onnx.TensorProto]
) -> None:
    constants = list(proto.graph.initializer)
    del proto.graph.initializer[:]
    proto.graph.initializer.extend([*tensors, *constants])


def _tensors_to_inputs(
    graph: ir.Graph,
    aliases: Mapping[str, str],
    order: Sequence[str],
    batch: Sequence[str],
) -> None:
    """Makes every parameter and buffer that is used a graph input with its name."""
    for value, name in zip(graph.inputs, batch, strict=True):
        value.name = name
    inputs = {}
    for old_name, value in list(graph.initializers.items()):
        name = aliases.get(old_name)
        if name is None or not value.uses():
            continue
        del graph.initializers[old_name]
        value.const_value = None
        assert name not in inputs, "torch.export gives a shared tensor one input"
        value.name = name
        inputs[name] = value
    graph.inputs[:0] = [inputs[name] for name in order if name in inputs]


def _make_reshapes_explicit(graph: ir.Graph) -> None:
    """Replaces the -1 in the target of a Reshape by the size that it implies."""
    for node in graph:
        if node.op_type != "Reshape" or node.inputs[1].const_value is None:
            continue
        shape = node.outputs[0].shape
        target = node.inputs[1].const_value.numpy()
        if -1 not in target or shape is None or not shape.is_static():
            continue
        explicit = ir.tensor(np.array(list(shape), np.int64))
        value = ir.Value(
            name=f"{node.name}_shape",
            const_value=explicit,
            type=ir.TensorType(ir.DataType.INT64),
            shape=ir.Shape([len(shape)]),
        )
        graph.register_initializer(value)
        node.replace_input_with(1, value)


def _rename(graph: ir.Graph, outputs: Sequence[str], prefix: str) -> None:
    """Names nodes by module and op, values by node, and outputs as in `outputs`."""
    taken = {value.name for value in graph.inputs}
    counts: dict[str, int] = {}

    def unique(name: str) -> str:
        while True:
            count = counts.get(name, 0)
            counts[name] = count + 1
            candidate = f"{name}_{count}" if count else name
            if candidate not in taken:
                taken.add(candidate)
                return candidate

    for index, (value, name) in enumerate(zip(graph.outputs, outputs, strict=True)):
        if value.is_graph_input() or value in graph.outputs[:index]:
            node = ir.node("Identity", [value], num_outputs=1)
            node.outputs[0].type, node.outputs[0].shape = value.type, value.shape
            graph.append(node)
            graph.outputs[index] = node.outputs[0]
    named = dict(zip(graph.outputs, outputs))
    taken.update(outputs)

    for node in graph:
        scopes = ast.literal_eval(
            node.metadata_props.get("pkg.torch.onnx.name_scopes", "['']")
        )
        # The last scope is the op itself, the one before it the module.
        path = scopes[-2].removeprefix(prefix) if len(scopes) > 1 else ""
        path = "" if path + "." == prefix else path
        node.name = unique(f"{path}/{node.op_type}" if path else node.op_type)
        for index, value in enumerate(node.outputs):
            value.name = named.get(value) or (
                unique(f"{node.name}.{index}") if index else node.name
            )
    for value in list(graph.initializers.values()):
        user = value.uses()[0].node
        del graph.initializers[value.name]
        value.name = unique(f"{user.name}.constant")
        graph.register_initializer(value)
