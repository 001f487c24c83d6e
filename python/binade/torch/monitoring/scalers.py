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
    this replaces the method ``step`` of the one scaler until it is removed.

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
        original = scaler.step

        def step(given: Any, *arguments: Any, **named: Any) -> Any:
            before = count()
            result = original(given, *arguments, **named)
            if not self._isRemoved and given is optimizer and count() == before:
                skip()
            return result

        scaler.step = step  # type: ignore[method-assign]
        self._step = step
        self._isRemoved = False

    def remove(self) -> None:
        """Restores the method, unless another monitor has replaced this one since."""
        self._isRemoved = True
        if vars(self._scaler).get("step") is self._step:
            del self._scaler.step


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
