"""Exports a function of JAX with its parameters to ONNX, and loads the trained values.

    binade.jax.export(apply, parameters, {"image": image}, "model.onnx")
    parameters = binade.jax.load(parameters, "run")

``apply(parameters, image)`` returns an array or a tuple of arrays. `parameters` is any
pytree: the parameters of Flax Linen, the state of ``nnx.split``, the arrays of
``equinox.partition``. Names are the keys on the path, joined by dots. docs/Import.md has
an example for each library. This needs the package ``jax2onnx``.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from binade import variables
from binade.errors import RejectedError


def name_parameters(parameters: Any) -> dict[str, Any]:
    """Returns the arrays of a pytree by the names that `export` gives them."""
    import jax

    leaves, _ = jax.tree_util.tree_flatten_with_path(parameters)
    # Flax NNX wraps each array: the last key of its path is "value".
    return {
        jax.tree_util.keystr(path, simple=True, separator=".").removesuffix(
            ".value"
        ): leaf
        for path, leaf in leaves
    }


def export(
    function: Callable,
    parameters: Any,
    inputs: Mapping[str, Any],
    path: str | os.PathLike[str],
    *,
    outputs: Sequence[str] = ("output",),
) -> onnx.ModelProto:
    """Writes ``function(parameters, *inputs)`` to an ONNX file.

    All parameters are trained; ``--freeze`` of ``binade train`` excludes some. Other arrays
    that the function reads are constants.

    Args:
      function: Called with `parameters` and the values of `inputs`.
      parameters: A pytree of arrays.
      inputs: Example arrays by name; the file has their shapes.
      path: The ``.onnx`` file.
      outputs: The names of the results.

    Raises:
      RejectedError: If two parameters or inputs have the same name.
    """
    import jax
    from jax2onnx import to_onnx

    named = name_parameters(parameters)
    leaves, tree = jax.tree_util.tree_flatten(parameters)
    if len(named) != len(leaves):
        raise RejectedError("two parameters have the same name")
    for name, leaf in named.items():
        if not hasattr(leaf, "dtype") or not np.issubdtype(leaf.dtype, np.floating):
            raise RejectedError(
                f"parameter '{name}' has to be an array of floating-point values"
            )

    def flat(*arguments):
        given = jax.tree_util.tree_unflatten(tree, arguments[: len(leaves)])
        return function(given, *arguments[len(leaves) :])

    shapes = [
        jax.ShapeDtypeStruct(value.shape, value.dtype)
        for value in [*leaves, *map(_array, inputs.values())]
    ]
    model = to_onnx(flat, shapes, return_mode="proto")
    values = {name: np.asarray(leaf) for name, leaf in named.items()}
    variables.attach(model, list(named), values, list(inputs))
    variables.describe(model, variables.Roles(trainable=list(named)))
    variables.rename_outputs(model.graph, list(outputs))
    _name_nodes(model.graph, set(named))
    if any(node.op_type == "BatchNormalization" for node in model.graph.node):
        warnings.warn(
            "batch norm is in inference form: its running statistics do not change",
            stacklevel=2,
        )
    variables.save(model, path)
    return model


def load(parameters: Any, path: str | os.PathLike[str]) -> Any:
    """Returns a pytree like `parameters` with the trained values of a run.

    Raises:
      RejectedError: If the run lacks a parameter, or its shape differs.
    """
    import jax
    import jax.numpy as jnp

    named = name_parameters(parameters)
    shapes = {name: leaf.shape for name, leaf in named.items()}
    state = variables.load(path, shapes)
    tree = jax.tree_util.tree_structure(parameters)
    return jax.tree_util.tree_unflatten(
        tree, [jnp.asarray(state[name], leaf.dtype) for name, leaf in named.items()]
    )


def _array(value: Any) -> Any:
    return value if hasattr(value, "dtype") else np.asarray(value)


def _name_nodes(graph: onnx.GraphProto, parameters: set[str]) -> None:
    """Begins the names of nodes that read a parameter with the path of its layer, because
    policies select layers by name. The values between are those of one reader."""
    layers = {name: name.rpartition(".")[0] for name in parameters}
    for node in graph.node:
        paths = {layers[name] for name in node.input if layers.get(name)}
        if len(paths) == 1:
            (path,) = paths
            for output in node.output:
                if node.op_type in ("Reshape", "Transpose", "Cast", "Squeeze"):
                    layers.setdefault(output, path)
            node.name = f"{path}/{node.name.removeprefix('node_')}"
