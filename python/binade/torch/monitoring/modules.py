"""Records what modules read and return, and the gradients of that."""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import torch

from binade.torch.autograd import is_in_backward
from binade.torch.monitoring.hooks import Hook, Hooks, is_transformed
from binade.torch.monitoring.requests import FORWARD, OUTPUT_GRADIENTS, Requests
from binade.torch.wrappers import get_wrapped, unwrap

# The layer of the whole model, unless a part has this name.
_ROOT = "model"


class Record(Protocol):
    """Records a value, if statistics of it are due."""

    def __call__(self, kind: str, layer: str, value: torch.Tensor) -> None: ...


def is_compiled(module: torch.nn.Module) -> bool:
    """Whether ``torch.compile`` compiles a module, so that its parts cannot be seen."""
    return (
        isinstance(module, torch._dynamo.OptimizedModule)
        or getattr(module, "_compiled_call_impl", None) is not None
    )


def list_modules(
    module: torch.nn.Module, path: str = "", known: set[torch.nn.Module] | None = None
) -> Iterator[tuple[str, torch.nn.Module]]:
    """Yields a module and its parts with their paths, except parts of compiled modules. A
    part that others share has its first path. Of a wrapper and what it wraps, only the
    wrapper is yielded, because it returns what other modules read."""
    known = set() if known is None else known
    if module in known:
        return
    known.add(module)
    yield path or _name_root(module), module
    if is_compiled(module):
        return
    while (wrapped := get_wrapped(module)) is not None:
        module = wrapped
        known.add(module)
        if is_compiled(module):
            return
    for name, part in module.named_children():
        yield from list_modules(part, f"{path}.{name}" if path else name, known)


def _name_root(model: torch.nn.Module) -> str:
    parts = dict(unwrap(model).named_children())
    return type(model).__name__ if _ROOT in parts else _ROOT


def list_tensors(value: Any, suffix: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """Yields the floating-point tensors in what a module returns, with the suffixes of
    their names: none for a single tensor, ``.0`` or ``.key`` for those in containers."""
    if isinstance(value, torch.Tensor):
        if value.is_floating_point():
            yield suffix, value
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from list_tensors(one, f"{suffix}.{key}")
    elif isinstance(value, (tuple, list)):
        names = getattr(value, "_fields", range(len(value)))
        for key, one in zip(names, value):
            yield from list_tensors(one, f"{suffix}.{key}")
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from list_tensors(
                getattr(value, field.name), f"{suffix}.{field.name}"
            )


class ForwardPasses:
    """Says which forward passes of a model are part of its training.

    They have gradients enabled and the model in training mode. A model may also be trained
    in evaluation mode: until its first pass in training mode, the mode does not matter.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model
        self._hasTrained = False

    def is_training(self) -> bool:
        """Whether a pass that runs is part of the training."""
        if not torch.is_grad_enabled() or is_transformed():
            return False
        if self._model.training:
            self._hasTrained = True
        return self._model.training or not self._hasTrained


class ModuleHooks:
    """Records inputs and outputs of modules, and the gradients of outputs, while armed.

    Of several batches in a step the last one counts, also for gradients, whatever the order
    of backward passes. A call of a module that repeats an earlier one of the same batch has
    the suffix `` #2``.

    Args:
      model: The whole model.
      passes: Says which forward passes count.
      requests: Says what is due.
      record: Receives the values.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        passes: ForwardPasses,
        requests: Requests,
        record: Record,
    ) -> None:
        self._model = model
        self._passes = passes
        self._requests = requests
        self._record = record
        self._hooks = Hooks()
        self._isArmed = False
        self._batch = 0  # Its number.
        # How often each module was called in the current batch.
        self._calls: collections.Counter[str] = collections.Counter()

    def arm(self) -> None:
        """Registers hooks, if values of modules are due."""
        self.disarm()
        if not self._requests.needs(FORWARD):
            return
        self._isArmed = True
        self._hooks.add(self._model.register_forward_pre_hook(Hook(self._begin)))
        for path, module in list_modules(self._model):
            hook = Hook(functools.partial(self._see, path))
            self._hooks.add(module.register_forward_hook(hook, with_kwargs=True))

    def disarm(self) -> None:
        """Removes the hooks."""
        self._isArmed = False
        self._hooks.remove()
        self._calls.clear()

    def _begin(self, module: torch.nn.Module, arguments: Any) -> None:
        if self._passes.is_training() and not is_in_backward():
            self._batch += 1
            self._calls.clear()

    def _see(
        self,
        path: str,
        module: torch.nn.Module,
        arguments: Any,
        named: Any,
        output: Any,
    ) -> None:
        if not self._passes.is_training():
            return
        # Checkpointing calls modules again in the backward pass.
        if is_in_backward() and self._calls[path]:
            return
        self._calls[path] += 1
        calls = self._calls[path]
        suffix = f" #{calls}" if calls > 1 else ""
        inner = module if is_compiled(module) else unwrap(module)
        if next(inner.parameters(recurse=False), None) is not None:
            for _, tensor in list_tensors((arguments, named)):
                self._record("input", path + suffix, tensor)
                break
        for own, tensor in list_tensors(output):
            layer = path + own + suffix
            self._record("output", layer, tensor)
            if tensor.requires_grad and any(
                self._requests.find(kind, layer) for kind in OUTPUT_GRADIENTS
            ):
                hook = functools.partial(self._see_gradient, layer, self._batch)
                self._hooks.add(tensor.register_hook(hook))

    def _see_gradient(
        self, layer: str, batch: int, gradient: torch.Tensor | None
    ) -> None:
        if self._isArmed and batch == self._batch and gradient is not None:
            for kind in OUTPUT_GRADIENTS:
                self._record(kind, layer, gradient)
