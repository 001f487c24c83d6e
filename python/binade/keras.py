"""Exports a Keras 3 model to ONNX for training, and loads the trained values into it.

    binade.keras.export(model, "model.onnx")
    binade.keras.load(model, "run")

Names are the paths of variables, such as ``encoder/dense/kernel``. This needs the packages
``tf2onnx`` and TensorFlow, the backend with which Keras has to run.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

import numpy as np
import onnx

from binade import variables
from binade.errors import RejectedError

# tf2onnx removes dropout and decomposes batch norm. Layers of these kinds are therefore
# traced as an op that it keeps, and become ONNX's op afterwards.
_DROPOUT = "binade_dropout"


def export(
    model: Any,
    path: str | os.PathLike[str],
    *,
    inputs: Sequence[Any] | None = None,
    training: bool = True,
    opset: int = 18,
) -> onnx.ModelProto:
    """Writes a model with all its variables to an ONNX file.

    Args:
      model: A functional or sequential model; or another one that was called, with
        `inputs`.
      path: The ``.onnx`` file.
      inputs: A ``tf.TensorSpec`` with a name for each input; by default the inputs of a
        functional model. The first axis may have length None; its name is "batch".
      training: Whether dropout, and batch norm of trainable layers, are as in
        ``model.fit``; otherwise as in ``model.predict``.
      opset: ONNX operator set, 15 to 18.

    Raises:
      RejectedError: If the model cannot be exported.
    """
    import keras
    import tf2onnx

    if keras.backend.backend() != "tensorflow":
        raise RejectedError(
            f"Keras runs with {keras.backend.backend()}; binade.keras needs "
            "KERAS_BACKEND=tensorflow"
        )
    layers = _list_layers(model)
    if training:
        _warn_of_random(layers)
    signature = _list_inputs(model, inputs)
    call, specs = _make_function(model, signature)
    with _marked_layers() if training else contextlib.nullcontext():
        proto, _ = tf2onnx.convert.from_function(
            call,
            input_signature=[*specs, *signature],
            opset=opset,
            custom_op_handlers={"Erfc": (_convert_erfc, [])},
        )
    _check_ops(proto.graph)

    read = variables.list_reads(proto.graph)
    known = [*model.trainable_variables, *model.non_trainable_variables]
    values = {
        variable.path: np.asarray(variable.value)
        for variable, spec in zip(known, specs, strict=True)
        if spec.name in read
    }
    names = [spec.name for spec in signature]
    variables.attach(proto, [variable.path for variable in known], values, names)
    variables.rename_outputs(proto.graph, _list_outputs(model, proto.graph, names))
    variables.name_batch_axis(proto.graph)
    buffers = _restore_layers(proto.graph, layers)
    variables.describe(proto, _list_roles(model, values, buffers))
    _name_nodes(proto.graph, {layer.name for layer in layers})
    variables.save(proto, path)
    return proto


def load(model: Any, path: str | os.PathLike[str]) -> None:
    """Sets the variables of a model to the values of a run.

    Raises:
      RejectedError: If the run lacks a trainable variable, or its shape differs.
    """
    shapes = {v.path: tuple(v.shape) for v in model.trainable_variables}
    state = variables.load(path, shapes)
    for variable in model.variables:
        if variable.path in state:
            variable.assign(state[variable.path])


def _list_layers(model: Any) -> list[Any]:
    return list(model._flatten_layers(include_self=False))


def _list_inputs(model: Any, inputs: Sequence[Any] | None) -> list[Any]:
    import tensorflow as tf

    if inputs is None:
        if not getattr(model, "inputs", None):
            raise RejectedError(
                f"model '{model.name}' has no inputs of its own; give them: "
                "inputs=[tf.TensorSpec([None, 28, 28, 1], name='image')]"
            )
        inputs = [tf.TensorSpec(i.shape, i.dtype, name=i.name) for i in model.inputs]
    for spec in inputs:
        if not spec.name or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", spec.name):
            raise RejectedError(f"the input name {spec.name!r} has to be an identifier")
        if None in list(spec.shape)[1:]:
            raise RejectedError(
                f"input '{spec.name}' has shape {list(spec.shape)}; only its first axis "
                "may have length None"
            )
    return list(inputs)


def _make_function(model: Any, signature: Sequence[Any]) -> tuple[Any, list[Any]]:
    """Returns a function of all variables and of the inputs, and the variables' types."""
    import tensorflow as tf

    trained, others = model.trainable_variables, model.non_trainable_variables
    specs = [
        tf.TensorSpec(variable.shape, variable.dtype, name=f"binade_variable_{index}")
        for index, variable in enumerate([*trained, *others])
    ]

    @tf.function(input_signature=[*specs, *signature], autograph=False)
    def call(*arguments):
        given = list(arguments[len(specs) :])
        result, _ = model.stateless_call(
            list(arguments[: len(trained)]),
            list(arguments[len(trained) : len(specs)]),
            given if len(given) > 1 else given[0],
            training=False,
        )
        return [tf.identity(output) for output in tf.nest.flatten(result)]

    return call, specs


def _list_outputs(
    model: Any, graph: onnx.GraphProto, inputs: Sequence[str]
) -> list[str]:
    names = list(getattr(model, "output_names", None) or [])
    if len(names) != len(graph.output) or set(names) & set(inputs):
        names = [f"output_{index}" for index in range(len(graph.output))]
    return names


def _list_roles(
    model: Any, values: Mapping[str, np.ndarray], buffers: Mapping[str, Any]
) -> variables.Roles:
    trained = [variable.path for variable in model.trainable_variables]
    for name in trained:
        if name not in values:
            warnings.warn(f"no output depends on variable '{name}'", stacklevel=3)
    others = [variable.path for variable in model.non_trainable_variables]
    return variables.Roles(
        [name for name in trained if name in values],
        [
            name
            for name in others
            if name in values
            and name not in buffers
            and np.issubdtype(values[name].dtype, np.floating)
        ],
        buffers,
    )


def _warn_of_random(layers: Sequence[Any]) -> None:
    import keras

    known = (keras.layers.Dropout, keras.layers.MultiHeadAttention)
    names = [
        f"'{layer.name}' ({type(layer).__name__})"
        for layer in layers
        if (hasattr(layer, "seed_generator") or hasattr(layer, "recurrent_dropout"))
        and type(layer) not in known
        and any(
            getattr(layer, key, 0)
            for key in ("rate", "stddev", "dropout", "recurrent_dropout")
        )
    ]
    if names:
        warnings.warn(
            "the file has no random values for " + ", ".join(names), stacklevel=3
        )


@contextlib.contextmanager
def _marked_layers() -> Iterator[None]:
    import keras

    original = keras.layers.BatchNormalization.call

    def normalize(self, inputs, training=None, mask=None):
        if not self.trainable:
            return original(self, inputs, training=False, mask=mask)
        return _trace_norm(self, inputs, mask)

    with (
        mock.patch.object(keras.layers.BatchNormalization, "call", normalize),
        mock.patch.object(keras.layers.Dropout, "call", _trace_dropout),
    ):
        yield


def _trace_norm(layer: Any, inputs: Any, mask: Any) -> Any:
    import tensorflow as tf

    rank = len(inputs.shape)
    if layer.axis not in (-1, rank - 1) or mask is not None or not 2 <= rank <= 5:
        raise RejectedError(
            f"batch norm '{layer.name}' has to normalize the last of two to five axes, "
            "without a mask"
        )
    channels = inputs.shape[-1]
    flat = tf.reshape(inputs, [-1, inputs.shape[1] if rank > 2 else 1, 1, channels])
    if rank == 4:
        flat = inputs
    elif rank == 5:
        flat = tf.reshape(inputs, [-1, *inputs.shape[2:]])
    result = tf.raw_ops.FusedBatchNormV3(
        x=flat,
        scale=tf.convert_to_tensor(layer.gamma) if layer.scale else tf.ones([channels]),
        offset=tf.convert_to_tensor(layer.beta)
        if layer.center
        else tf.zeros([channels]),
        mean=tf.convert_to_tensor(layer.moving_mean),
        variance=tf.convert_to_tensor(layer.moving_variance),
        epsilon=layer.epsilon,
        is_training=False,
    ).y
    return result if rank == 4 else tf.reshape(result, [-1, *inputs.shape[1:]])


def _trace_dropout(self, inputs, training=False):
    import tensorflow as tf

    if self.rate == 0:
        return inputs
    if self.noise_shape is not None:
        raise RejectedError(f"dropout '{self.name}' has a noise_shape")
    return tf.raw_ops.LeakyRelu(features=inputs, alpha=self.rate, name=_DROPOUT)


def _convert_erfc(context: Any, node: Any, name: str, arguments: Any) -> None:
    """Converts Erfc, which GELU uses and tf2onnx lacks, to 1 - Erf."""
    import tf2onnx

    output, value = node.output[0], node.input[0]
    shapes, types = node.output_shapes, node.output_dtypes
    dtype = tf2onnx.utils.map_onnx_to_numpy_type(types[0])
    context.remove_node(node.name)
    erf = context.make_node("Erf", [value], shapes=shapes, dtypes=types)
    one = context.make_const(tf2onnx.utils.make_name("one"), np.array(1, dtype))
    context.make_node(
        "Sub", [one.output[0], erf.output[0]], outputs=[output], name=name,
        shapes=shapes, dtypes=types,
    )  # fmt: skip


def _check_ops(graph: onnx.GraphProto) -> None:
    """tf2onnx only logs an op that it cannot convert, and leaves it in the graph."""
    known = {schema.name for schema in onnx.defs.get_all_schemas()}
    for node in graph.node:
        if not node.domain and node.op_type not in known:
            raise RejectedError(
                f"tf2onnx cannot convert {node.op_type} (node '{node.name}')"
            )


def _restore_layers(
    graph: onnx.GraphProto, layers: Sequence[Any]
) -> dict[str, dict[str, object]]:
    """Turns marked nodes into dropout and batch norm in training mode. Returns the running
    statistics."""
    import keras

    norms = {
        layer.moving_mean.path: layer
        for layer in layers
        if isinstance(layer, keras.layers.BatchNormalization) and layer.trainable
    }
    buffers: dict[str, dict[str, object]] = {}
    for index, node in enumerate(graph.node):
        attributes = {attribute.name: attribute for attribute in node.attribute}
        if node.op_type == "LeakyRelu" and _DROPOUT in node.name:
            ratio, mode = f"binade_ratio_{index}", f"binade_training_{index}"
            for name, value in (
                (ratio, np.float32(attributes["alpha"].f)),
                (mode, np.array(True)),
            ):
                graph.initializer.append(
                    onnx.numpy_helper.from_array(np.asarray(value), name)
                )
            node.op_type = "Dropout"
            del node.attribute[:]
            node.input.extend([ratio, mode])
            node.name = node.name.replace(_DROPOUT, "Dropout")
        if node.op_type == "BatchNormalization" and node.input[3] in norms:
            layer = norms[node.input[3]]
            kept = [attributes["epsilon"]]
            del node.attribute[:]
            node.attribute.extend(kept)
            node.attribute.append(
                onnx.helper.make_attribute("momentum", float(layer.momentum))
            )
            node.attribute.append(onnx.helper.make_attribute("training_mode", 1))
            node.output.extend(f"{name}/next" for name in node.input[3:5])
            buffers[node.input[3]] = {"kind": "running_mean"}
            buffers[node.input[4]] = {"kind": "running_variance", "unbiased": False}
    return buffers


def _name_nodes(graph: onnx.GraphProto, layers: set[str]) -> None:
    """TensorFlow numbers scopes: "dense_1/MatMul" is in layer "dense"."""

    def name_scope(scope: str) -> str:
        base = re.sub(r"_\d+$", "", scope)
        return base if base in layers and scope not in layers else scope

    taken: set[str] = set()
    for node in graph.node:
        *scopes, last = node.name.split("/")
        base = name = "/".join([*map(name_scope, scopes), last])
        # A layer may be called several times.
        for count in itertools.count(1):
            if name not in taken:
                break
            name = f"{base}_{count}"
        taken.add(name)
        node.name = name
