"""Exports a PyTorch model, its loss and an example batch to ONNX for training.

``binade from-torch pkg.mod:make_model --batch pkg.mod:make_batch`` writes
``model.onnx`` and its weights to the same directory. The graph computes the scalar
``loss`` and the model's outputs; parameters keep their PyTorch names; nothing that
depends on a parameter is constant-folded. docs/Import.md describes the metadata.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx

import torch
from binade import axes, gradients, marks, safetensors, simplify, translate
from binade.command import load_object
from binade.errors import RejectedError
from binade.initial import INIT_KEY
from binade.record import InitialRules
from binade.step import MODEL_PREFIX, Step

_OLDEST_OPSET = 18


def export_onnx(
    model: torch.nn.Module,
    batch: Mapping[str, torch.Tensor],
    output: str | os.PathLike[str],
    *,
    loss: Callable | None = None,
    opset: int = 20,
    rules: InitialRules | None = None,
    dims: Mapping[str, Sequence[str]] | None = None,
) -> onnx.ModelProto:
    """Writes a training graph: forward and loss, with named parameters.

    The model is exported in its current mode: call ``model.train()`` or
    ``model.eval()`` before. Shapes are those of the batch, except for axes in `dims`.

    Args:
      model: Called with the batch entries that its ``forward`` names (all of them,
        by name, without `loss`).
      batch: Example inputs by name; they become the graph's inputs.
      output: Path of the ``.onnx`` file; weights go to a ``.safetensors`` file of
        the same name in its directory.
      loss: Called with the model's output, then by name with the entries of the
        batch that its signature names. Without it the model returns the loss, first
        in a tuple or as ``"loss"`` in a mapping.
      opset: ONNX operator set, 18 or newer.
      rules: If given, no weights are written: the file says how to draw each tensor, as
        recorded while the model was constructed.
      dims: Names for the axes of an input, by input; "" for an axis of fixed size.
        Named axes take their sizes when the graph is compiled (``--dim batch=64``);
        those of the batch, 2 or more, are the default.

    Returns:
      The model as written, without the weights' bytes.

    Raises:
      RejectedError: If the model, the loss or the batch cannot be exported.
    """
    output = Path(output)
    dims = dims or {}
    _check(model, batch, output, opset)
    sizes = axes.sizes(batch, dims)
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    clash = sorted(set(batch) & set(tensors))
    if clash:
        raise RejectedError(
            f"'{clash[0]}' is the name of a batch entry and of a "
            "parameter or buffer of the model"
        )

    output_names: list[str] = []
    step = Step(model, loss, list(batch), output_names)
    proto = _trace(step, batch, dims, opset, tensors, output_names)
    _finish(proto, model, tensors, output, rules, sizes)
    return proto


def _check(
    model: torch.nn.Module, batch: Mapping[str, torch.Tensor], output: Path, opset: int
) -> None:
    """Rejects arguments that are wrong before the model is traced."""
    if not isinstance(model, torch.nn.Module):
        raise RejectedError(
            f"the model must be a torch.nn.Module, got {type(model).__name__}"
        )
    if not isinstance(batch, Mapping) or not batch:
        raise RejectedError(
            f"the batch must map input names to tensors, got {type(batch).__name__}"
        )
    for name, value in batch.items():
        if not isinstance(value, torch.Tensor):
            raise RejectedError(
                f"batch entry '{name}' must be a tensor, got {type(value).__name__}"
            )
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if tensor.dtype not in simplify.ONNX_NAMES:
            raise RejectedError(f"'{name}' has type {tensor.dtype}, which ONNX lacks")
    for name, module in model.named_modules():
        if (
            isinstance(module, torch.nn.modules.batchnorm._BatchNorm)
            and module.training
            and module.track_running_stats
            and module.momentum is None
        ):
            raise RejectedError(
                f"batch norm '{name}' has momentum None, a cumulative average; give it "
                "a number, for example 0.1"
            )
    newest = onnx.defs.onnx_opset_version()
    if not _OLDEST_OPSET <= opset <= newest:
        raise RejectedError(
            f"the operator set must be {_OLDEST_OPSET} to {newest}, got {opset}"
        )
    if output.suffix != ".onnx":
        raise RejectedError(f"the output must end in .onnx, got '{output}'")
    gradients.check(model)


def _trace(
    step: Step,
    batch: Mapping[str, torch.Tensor],
    dims: Mapping[str, Sequence[str]],
    opset: int,
    tensors: Mapping[str, torch.Tensor],
    output_names: Sequence[str],
) -> onnx.ModelProto:
    """Traces the step and returns a graph whose inputs are tensors, then batch."""
    with _quiet(), torch.no_grad():
        try:
            # With gradients enabled, the places where a model disables them are visible.
            with torch.enable_grad(), gradients.refusing_own_gradients():
                program = torch.export.export(
                    step,
                    tuple(batch.values()),
                    strict=False,
                    dynamic_shapes=axes.dynamic_shapes(batch, dims),
                )
            # Given example inputs, the exporter checks their sizes, and fails for some.
            program.example_inputs = None
            exported = torch.onnx.export(
                program,
                (),
                None,
                dynamo=True,
                optimize=False,
                verbose=False,
                opset_version=opset,
                custom_translation_table=translate.translations(),
            )
            exported.rename_axes(
                {
                    value.shape[i]: axis
                    for value, name in zip(exported.model.graph.inputs, batch)
                    for i, axis in enumerate(dims.get(name, ()))
                    if axis
                }
            )
        except Exception as error:
            raise _explained(error, dims) from error
    # One tensor may have several names in the module; `tensors` has the first.
    first_name = {id(tensor): name for name, tensor in tensors.items()}
    aliases = {
        name: first_name[id(tensor)]
        for name, tensor in [
            *step.named_parameters(remove_duplicate=False),
            *step.named_buffers(remove_duplicate=False),
        ]
    }
    return simplify.to_proto(
        exported.model,
        aliases=aliases,
        order=list(tensors),
        batch=list(batch),
        outputs=output_names,
        prefix=MODEL_PREFIX,
        trained=[name for name, tensor in tensors.items() if tensor.requires_grad],
    )


@contextlib.contextmanager
def _quiet():
    """Suppresses warnings and log messages of the exporter; errors are raised."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _explained(error: Exception, dims: Mapping[str, Sequence[str]]) -> RejectedError:
    """Returns a RejectedError from the chain of causes of an exporter's error, or a new one
    with the message of the innermost cause."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, RejectedError):
            return cause
        last, cause = cause, cause.__cause__
    names = sorted({axis for own in dims.values() for axis in own if axis})
    given = f" for any size of {', '.join(names)}" if names else ""
    return RejectedError(
        f"PyTorch cannot export the model{given}: {type(last).__name__}: "
        + str(last).split("\n\n")[0]
    )


def _finish(
    proto: onnx.ModelProto,
    model: torch.nn.Module,
    tensors: Mapping[str, torch.Tensor],
    output: Path,
    rules: InitialRules | None,
    sizes: Mapping[str, int],
) -> None:
    """Adds weights or initialization rules and metadata, and writes the files."""
    buffers = _running_statistics(proto)
    used = [value.name for value in proto.graph.input if value.name in tensors]
    parameters = {n: p for n, p in model.named_parameters() if n in used}
    # PyTorch's optimizers do not update a parameter without a gradient.
    reached = marks.find_reached(proto, proto.graph.output[0].name)
    trainable = [n for n, p in parameters.items() if p.requires_grad and n in reached]
    frozen = [name for name in parameters if name not in trainable]
    metadata: dict[str, object] = {"binade.version": 1, "binade.trainable": trainable}
    if frozen:
        metadata["binade.frozen"] = frozen
    if buffers:
        metadata["binade.buffers"] = buffers
    if sizes:
        metadata["binade.dims"] = dict(sizes)

    output.parent.mkdir(parents=True, exist_ok=True)
    weights = {}
    if rules is None:
        weights = {name: tensors[name] for name in used}
    else:
        drawn = [name for name in used if name in parameters or name in buffers]
        metadata[INIT_KEY] = {name: rules.rule(name, tensors[name]) for name in drawn}
        simplify.bind_values(
            proto, {name: _array(tensors[name]) for name in used if name not in drawn}
        )
    if weights:
        file = output.with_suffix(".safetensors")
        header = safetensors.save(
            file, {name: _array(tensor) for name, tensor in weights.items()}
        )
        simplify.bind_external(proto, header, file.name)
    for key, value in metadata.items():
        proto.metadata_props.add(key=key, value=json.dumps(value, ensure_ascii=False))
    temporary = output.with_name(output.name + ".partial")
    try:
        temporary.write_bytes(proto.SerializeToString(deterministic=True))
        onnx.checker.check_model(os.fspath(temporary), full_check=True)
        os.replace(temporary, output)
    finally:
        temporary.unlink(missing_ok=True)


def _running_statistics(proto: onnx.ModelProto) -> dict[str, dict]:
    """Returns the running statistics that batch norm in training mode updates."""
    found = {}
    for node in proto.graph.node:
        attributes = {attribute.name: attribute.i for attribute in node.attribute}
        if node.op_type == "BatchNormalization" and attributes.get("training_mode"):
            found[node.input[3]] = {"kind": "running_mean"}
            found[node.input[4]] = {"kind": "running_variance", "unbiased": True}
    inputs = {value.name for value in proto.graph.input}
    return {name: entry for name, entry in found.items() if name in inputs}


def _array(tensor: torch.Tensor) -> np.ndarray:
    """Returns a tensor as a numpy array of the same element type."""
    tensor = tensor.detach().cpu().contiguous()
    dtype = onnx.helper.tensor_dtype_to_np_dtype(
        onnx.TensorProto.DataType.Value(simplify.ONNX_NAMES[tensor.dtype])
    )
    return (
        tensor.reshape(-1).view(torch.uint8).numpy().view(dtype).reshape(tensor.shape)
    )


def export_named(options: argparse.Namespace) -> None:
    """Exports what the options of ``binade from-torch`` name, and prints a summary."""
    make_model, make_batch = load_object(options.model), load_object(options.batch)
    loss = load_object(options.loss) if options.loss else None
    torch.manual_seed(options.seed)
    rules = InitialRules() if options.init == "rules" else None
    with rules or contextlib.nullcontext():
        model = make_model()
    batch = make_batch()
    if isinstance(model, torch.nn.Module):
        if not model.training:
            print(
                "binade from-torch: note: the model is in evaluation mode: no dropout, "
                "batch norm with its running statistics",
                file=sys.stderr,
            )
        if options.init not in ("values", "rules"):
            _load_values(model, options.init)
    proto = export_onnx(
        model,
        batch,
        options.output,
        loss=loss,
        opset=options.opset,
        rules=rules,
        dims=dict(axes.parse(text) for text in options.dims),
    )
    present = {value.name for value in (*proto.graph.input, *proto.graph.initializer)}
    unused = [name for name, _ in model.named_parameters() if name not in present]
    if unused:
        print(
            "binade from-torch: note: left out, for the loss does not depend on them: "
            + ", ".join(unused),
            file=sys.stderr,
        )
    count = sum(parameter.numel() for parameter in model.parameters())
    print(
        f"{options.output}: {len(proto.graph.node)} nodes, {count} parameters, inputs "
        + ", ".join(f"{name} {list(value.shape)}" for name, value in batch.items())
    )


def _load_values(model: torch.nn.Module, path: str) -> None:
    """Sets a model's parameters and buffers from a file with the same names."""
    values = safetensors.load(path)
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    for name, tensor in tensors.items():
        if name not in values:
            if name.endswith("num_batches_tracked"):
                continue
            raise RejectedError(f"{path}: there is no tensor '{name}'")
        if values[name].shape != tuple(tensor.shape):
            raise RejectedError(
                f"{path}: '{name}' has shape {list(values[name].shape)}, "
                f"the model's has {list(tensor.shape)}"
            )
        value = values[name]
        if tensor.is_floating_point():
            value = value.astype(np.float64)
        with torch.no_grad():
            tensor.copy_(torch.from_numpy(value))


if __name__ == "__main__":
    from binade.from_torch import main

    raise SystemExit(main())
