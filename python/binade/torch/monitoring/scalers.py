"""Follows torch.amp.GradScaler, which may skip the step of an optimizer."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

from binade.errors import UsageError


class ScalerHook:
    """Calls a function when a gradient scaler skips the step of an optimizer.

    A scaler has no hooks, and does not call the optimizer if a gradient is not finite. So
    this replaces the method ``step`` of the one scaler until it is removed. Several of them,
    and methods that others set, may be removed in any order.

    Args:
      scaler: The scaler.
      optimizer: The optimizer of the loop.
      count: Returns the number of complete steps.
      skip: Called after ``scaler.step(optimizer)`` if that has not completed a step.
    """

    def __init__(
        self,
        scaler: torch.amp.GradScaler,
        optimizer: torch.optim.Optimizer,
        count: Callable[[], int],
        skip: Callable[[], None],
    ) -> None:
        self._scaler = scaler
        self._optimizer = optimizer
        self._count = count
        self._skip = skip
        self._isRemoved = False
        # What the scaler itself had before; None if that was the method of its class.
        self._previous = vars(scaler).get("step")
        self._original = scaler.step
        vars(scaler)["step"] = self

    def __call__(self, optimizer: Any, *arguments: Any, **named: Any) -> Any:
        before = self._count()
        result = self._original(optimizer, *arguments, **named)
        isWatched = not self._isRemoved and optimizer is self._optimizer
        if isWatched and self._count() == before:
            self._skip()
        return result

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy of the scaler, also a pickled one, has the method of its class.
        return getattr, (self._scaler, "step")

    def remove(self) -> None:
        """Restores the method. If something else has replaced it since, it stays until that
        is removed, and does nothing."""
        self._isRemoved = True
        current = vars(self._scaler).get("step")
        while isinstance(current, ScalerHook) and current._isRemoved:
            current = current._previous
        if current is None:
            vars(self._scaler).pop("step", None)
        else:
            vars(self._scaler)["step"] = current


def is_scaling(scaler: object) -> bool:
    """Whether an object is a gradient scaler that is enabled.

    Raises:
      UsageError: If it is neither a gradient scaler nor None.
    """
    if scaler is None:
        return False
    if not isinstance(scaler, torch.amp.GradScaler):
        raise UsageError(
            f"scaler is a torch.amp.GradScaler or None, got {type(scaler).__name__}"
        )
    return scaler.is_enabled()


def check_caller(scaler: torch.amp.GradScaler | None) -> None:
    """Rejects a step that another gradient scaler than `scaler` calls. Call it from a hook
    of an optimizer.

    Raises:
      UsageError: If there is one.
    """
    frame = inspect.currentframe()
    while frame is not None and frame.f_code is not torch.amp.GradScaler.step.__code__:
        frame = frame.f_back
    found = frame.f_locals.get("self") if frame is not None else None
    if found is not None and found is not scaler and found.is_enabled():
        raise UsageError(
            "a GradScaler multiplies the gradients, and the monitor does not know by what; "
            "pass it: binade.torch.monitor(model, optimizer, scaler=scaler)"
        )
