"""Detects changes of gradients in a PyTorch model that an ONNX graph cannot express.

Examples are ``detach``, ``torch.no_grad``, hooks and ``padding_idx``. The export records
them as metadata of nodes where it can, and rejects other models, because training such a
graph would give other weights than PyTorch does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from binade.errors import RejectedError

# Functions that an exported model must not call, and what to do instead.
_REFUSED = {
    "register_hook": "an ONNX graph has no hooks on gradients; write detach() where a "
    "hook stops the gradient",
    "register_post_accumulate_grad_hook": "an ONNX graph has no hooks on gradients",
}
_MAX_NORM = (
    "max_norm changes the weights in the forward pass, which an ONNX graph cannot do; "
    "leave it out, or normalize the rows that are looked up"
)
# Modules whose autograd functions compute the true gradient of their forward pass.
_HARMLESS = ("torch.utils.checkpoint.",)


def check(model: torch.nn.Module) -> None:
    """Refuses a model whose gradients an ONNX graph cannot express.

    Raises:
      RejectedError: The message names the module or the parameter, and a remedy.
    """
    for name, module in model.named_modules():
        _check_embedding(f"'{name}'" if name else "the model", module)
        if module._backward_hooks or module._backward_pre_hooks:
            raise RejectedError(
                f"module '{name}' has a backward hook, and an ONNX graph has none; remove it "
                "(handle.remove()) before the export"
            )
    for name, parameter in model.named_parameters():
        if parameter._backward_hooks or parameter._post_accumulate_grad_hooks:
            raise RejectedError(
                f"parameter '{name}' has a hook on its gradient, and an ONNX graph has "
                "none; remove it (handle.remove()) before the export"
            )


def _check_embedding(name: str, module: torch.nn.Module) -> None:
    if not isinstance(module, (torch.nn.Embedding, torch.nn.EmbeddingBag)):
        return
    kind = type(module).__name__
    if module.max_norm is not None:
        raise RejectedError(f"{kind} {name} with {_MAX_NORM}")
    if isinstance(module, torch.nn.EmbeddingBag) and module.padding_idx is not None:
        raise RejectedError(
            f"{kind} {name} has padding_idx, which its ONNX graph lacks; use an "
            "Embedding with padding_idx, and sum its rows"
        )
    refuse_lookup(f"{kind} {name}", module.scale_grad_by_freq, module.sparse)


def refuse_lookup(what: str, scales: bool, is_sparse: bool) -> None:
    """Refuses the settings of a lookup that change its gradient."""
    if scales:
        raise RejectedError(
            f"{what} has scale_grad_by_freq, and Binade does not divide gradients of "
            "rows by how often a batch has them; leave it out"
        )
    if is_sparse:
        raise RejectedError(
            f"{what} has sparse gradients, and Binade updates all rows in each step; "
            "set sparse=False, which has the same gradients"
        )


@contextlib.contextmanager
def refusing_own_gradients() -> Iterator[None]:
    """Refuses each ``autograd.Function`` that is called while the context is open: the
    exported graph has its forward pass only, whose derivative may differ from its own
    backward pass."""
    kept = torch.autograd.Function.__dict__["apply"]

    @classmethod
    def apply(cls, *arguments: Any, **named: Any) -> Any:
        name = f"{cls.__module__}.{cls.__qualname__}"
        if name.startswith(_HARMLESS):
            return kept.__get__(None, cls)(*arguments, **named)
        raise RejectedError(
            f"the autograd.Function '{name}' has a backward pass of its own, which an ONNX "
            "graph cannot hold; write it with differentiable functions and detach()"
        )

    torch.autograd.Function.apply = apply  # type: ignore[assignment,method-assign]
    try:
        yield
    finally:
        torch.autograd.Function.apply = kept  # type: ignore[method-assign]


class DetachingMode(TorchFunctionMode):
    """Replaces ``torch.no_grad()`` by ``detach``, which a graph can express: a tensor that
    is computed while gradients are off is detached. Enter it with gradients on."""

    def __init__(self) -> None:
        super().__init__()
        self._enabled = True

    def __torch_function__(
        self, func: Callable, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if func is torch._C._set_grad_enabled:
            self._enabled = args[0]
            return None
        name = getattr(func, "__name__", "")
        if name in _REFUSED:
            raise RejectedError(f"the model calls {name}: {_REFUSED[name]}")
        if name.startswith("embedding") and (kwargs or {}).get("max_norm") is not None:
            raise RejectedError(f"{name} with {_MAX_NORM}")
        result = func(*args, **(kwargs or {}))
        return result if self._enabled else _detach(result)


def _detach(result: Any) -> Any:
    if isinstance(result, torch.Tensor):
        return result.detach() if result.is_floating_point() else result
    if type(result) in (list, tuple):
        return type(result)(_detach(one) for one in result)
    return result
