"""Compiles training steps from PyTorch modules."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import torch

from binade import train_step
from binade.errors import UsageError
from binade.torch.tensors import to_torch
from binade.torch.wrappers import unwrap


# Options of ``binade.compile`` that do not apply to modules, and why.
_OF_FILES = {
    "allow_links": "the module has its weights",
    "dims": "a module is captured with the sizes of the example batch",
    "directory": "the module has its weights",
    "loss_output": "the loss is the argument 'loss', or what the module returns first",
}


def capture(
    module: torch.nn.Module,
    loss: Callable[..., torch.Tensor] | None,
    batch: Mapping[str, torch.Tensor],
    **options: Any,
) -> train_step.TrainStep:
    """Exports a module and its loss, and compiles the training step.

    With ``accumulate=N`` a step takes N batches: call it with a list of them.

    Args:
      module: The module, in the mode to train it in. The step starts from a copy of its
        parameters (``load_parameters`` copies the trained ones to the module). Wrappers
        around it, such as those of ``torch.compile`` and ``DistributedDataParallel``, are
        removed.
      loss: Called with the module's output, then by name with the entries of the
        batch that it names; None where the module returns its loss.
      batch: Example inputs by name; the step takes batches of these shapes.
      options: As for ``binade.compile``: ``optimizer``, ``policy``, ``target``, ...,
        except ``allow_links``, ``dims``, ``directory`` and ``loss_output``, which are
        about model files.

    Raises:
      UsageError: If an argument is wrong.
      RejectedError: If it cannot be exported or compiled.
    """
    if loss is not None and not callable(loss):
        raise UsageError(
            "the loss is a function of the module's output and entries of the batch, or "
            f"None where the module returns its loss; got {loss!r}"
        )
    for name, why in _OF_FILES.items():
        if name in options:
            raise UsageError(f"capture has no option '{name}': {why}")
    from binade.export import export_onnx  # Optimizers do without an exporter.

    folder = tempfile.TemporaryDirectory(prefix="binade-")
    path = os.path.join(folder.name, "model.onnx")
    export_onnx(unwrap(module), batch, path, loss=loss)
    step = train_step.compile(path, **options)
    step.keep(folder)  # Writing a bundle reads the weights from there.
    return step


def load_parameters(module: torch.nn.Module, step: train_step.TrainStep) -> None:
    """Sets a module's parameters and running statistics to those of a step.

    Raises:
      UsageError: If the module lacks one of them.
    """
    module = unwrap(module)
    known = {
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module.named_buffers(remove_duplicate=False)),
    }
    with torch.no_grad():
        for name, array in (*step.parameters.items(), *step.buffers.items()):
            if name not in known:
                raise UsageError(f"the module has no '{name}'")
            known[name].copy_(to_torch(array))
