"""Turns a graph whose variables are inputs into one that holds them under their names.

`binade.keras` and `binade.jax` export functions of which every variable is an argument, so
that no exporter can fold, merge, transpose or remove one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx

from binade import trained
from binade.errors import RejectedError


@dataclass
class Roles:
    """What the variables of a model are, by name."""

    trainable: Sequence[str]
    frozen: Sequence[str] = ()
    buffers: Mapping[str, dict[str, object]] = field(default_factory=dict)


def attach(
    model: onnx.ModelProto,
    names: Sequence[str],
    values: Mapping[str, np.ndarray],
    inputs: Sequence[str],
) -> None:
    """Names the graph's inputs `names`, then `inputs`; makes those of `names` with a value
    initializers, and removes those without."""
    graph = model.graph
    _check_unique([*names, *inputs])
    new = dict(
        zip((i.name for i in graph.input), [*names, *inputs], strict=True),
    )
    _rename_values(graph, new)
    kept = [i for i in graph.input if i.name in inputs]
    del graph.input[:]
    graph.input.extend(kept)
    for name in names:
        if name in values:
            array = np.ascontiguousarray(values[name])
            graph.initializer.append(onnx.numpy_helper.from_array(array, name))


def describe(model: onnx.ModelProto, roles: Roles) -> None:
    """Writes the metadata that docs/Import.md describes."""
    entries = {
        "binade.version": 1,
        "binade.trainable": list(roles.trainable),
        "binade.frozen": list(roles.frozen),
        "binade.buffers": dict(roles.buffers),
    }
    for key, value in entries.items():
        model.metadata_props.add(key=key, value=json.dumps(value))


def list_reads(graph: onnx.GraphProto) -> set[str]:
    """Returns the names of the values that nodes read, also in branches and loops."""
    names = {name for node in graph.node for name in node.input}
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                names |= list_reads(attribute.g)
    return names | {value.name for value in graph.output}


def rename_outputs(graph: onnx.GraphProto, names: Sequence[str]) -> None:
    _check_unique([*names, *(i.name for i in graph.input)])
    _rename_values(graph, dict(zip((o.name for o in graph.output), names, strict=True)))


def name_batch_axis(graph: onnx.GraphProto) -> None:
    """Gives the symbolic first axis of all inputs the name "batch", and removes inferred
    shapes, which use other names."""
    for value in graph.input:
        shape = value.type.tensor_type.shape.dim
        if shape and shape[0].dim_param:
            shape[0].dim_param = "batch"
    del graph.value_info[:]
    for value in graph.output:
        for size in value.type.tensor_type.shape.dim:
            size.ClearField("dim_param")


def save(model: onnx.ModelProto, path: str | os.PathLike[str]) -> None:
    path = Path(path)
    if path.suffix != ".onnx":
        raise RejectedError(f"the output must end in .onnx, got '{path}'")
    limit = 1 << 30
    if model.ByteSize() < limit:
        onnx.save(model, path)
        return
    onnx.save(model, path, save_as_external_data=True, location=path.name + ".data")


def load(
    path: str | os.PathLike[str], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, np.ndarray]:
    """Returns the state of a run for a model whose trained variables have `shapes`, and
    possibly others.

    Raises:
      RejectedError: If a variable of `shapes` is missing, or has another shape.
    """
    state = trained.load_state(path)
    wrong = []
    for name, shape in shapes.items():
        if name not in state:
            wrong.append(f"the state lacks '{name}'")
        elif state[name].shape != tuple(shape):
            wrong.append(
                f"'{name}' is {list(state[name].shape)}, in the model {list(shape)}"
            )
    if wrong:
        raise RejectedError(f"{os.fspath(path)}: " + "; ".join(wrong))
    return state


def _check_unique(names: Sequence[str]) -> None:
    twice = sorted({name for name in names if list(names).count(name) > 1})
    if twice:
        raise RejectedError(
            f"'{twice[0]}' is the name of two variables, inputs or outputs"
        )


def _rename_values(graph: onnx.GraphProto, new: Mapping[str, str]) -> None:
    taken = set(new.values()) - set(new)
    for values in (graph.input, graph.output):
        for value in values:
            value.name = new.get(value.name, value.name)
    new = _avoid(graph, new, taken)
    _rename_in(graph, new)


def _avoid(
    graph: onnx.GraphProto, new: Mapping[str, str], taken: set[str]
) -> dict[str, str]:
    """Returns `new` with other names for inner values that have one of the names in
    `taken`."""
    inner = {name for node in graph.node for name in node.output if name}
    inner |= {tensor.name for tensor in graph.initializer}
    return {**{name: name + "_inner" for name in inner & taken}, **new}


def _rename_in(graph: onnx.GraphProto, new: Mapping[str, str]) -> None:
    for tensor in graph.initializer:
        tensor.name = new.get(tensor.name, tensor.name)
    for node in graph.node:
        for values in (node.input, node.output):
            for index, name in enumerate(values):
                values[index] = new.get(name, name)
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                _rename_in(attribute.g, new)
                for value in attribute.g.output:
                    value.name = new.get(value.name, value.name)
