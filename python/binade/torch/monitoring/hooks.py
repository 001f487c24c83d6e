"""Hooks that end with their monitor, and are not copied with a module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch


def is_transformed() -> bool:
    """Whether ``torch.func`` transforms the running code, so that tensors have no memory."""
    if torch.compiler.is_compiling():
        return False
    return torch._C._functorch.peek_interpreter_stack() is not None


class Handle(Protocol):
    """What PyTorch returns for a registered hook."""

    def remove(self) -> None: ...


class Hook:
    """A hook that calls a function, unless the code is being traced or transformed by
    ``torch.func``. Its copies, also pickled ones, call nothing: a copied module, such as an
    average of weights, is not monitored."""

    def __init__(self, function: Callable[..., None] | None = None) -> None:
        self._function = function

    def __call__(self, *arguments: Any) -> None:
        if self._function is None or torch.compiler.is_compiling():
            return
        if not is_transformed():
            self._function(*arguments)

    def __deepcopy__(self, memo: dict[int, Any]) -> Hook:
        return Hook()

    def __reduce__(self) -> tuple[type[Hook], tuple[()]]:
        return Hook, ()


class Hooks:
    """Registered hooks, which are removed together."""

    def __init__(self) -> None:
        self._handles: list[Handle] = []

    def add(self, handle: Handle) -> None:
        self._handles.append(handle)

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
