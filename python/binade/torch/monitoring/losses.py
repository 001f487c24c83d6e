"""Finds the loss of each batch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from binade.errors import UsageError


def find_loss(output: Any) -> torch.Tensor | None:
    """Returns the loss that a model returns: itself, first in a tuple, or as ``loss``. It is
    a scalar with a gradient."""
    if isinstance(output, Mapping):
        output = output.get("loss")
    elif isinstance(output, (tuple, list)):
        output = output[0] if output else None
    elif not isinstance(output, torch.Tensor):
        output = getattr(output, "loss", None)
    # A prediction of one element has dimensions.
    isLoss = (
        isinstance(output, torch.Tensor)
        and output.dim() == 0
        and output.is_floating_point()
        and output.requires_grad
    )
    return output if isLoss else None


class Losses:
    """The losses of the batches of a step: those that the user gives or, if there are none, those
    that the model returns."""

    def __init__(self) -> None:
        self._given: list[torch.Tensor] = []
        self._found: list[torch.Tensor] = []

    def give(self, loss: torch.Tensor | float) -> torch.Tensor:
        """Adds a loss, and returns it as a tensor without a graph.

        Raises:
          UsageError: If it is not one floating-point number.
        """
        value = torch.as_tensor(loss).detach()
        if value.numel() != 1 or not value.is_floating_point():
            raise UsageError(
                "the loss is one floating-point number, got a tensor of shape "
                f"{list(value.shape)} and type {value.dtype}"
            )
        self._given.append(value)
        return value

    def find(self, output: Any) -> torch.Tensor | None:
        """Adds the loss in what a model returned. Returns it, if none was given."""
        loss = find_loss(output)
        if loss is None or self._given:
            return None
        self._found.append(loss.detach())
        return self._found[-1]

    def end(self) -> float:
        """Returns the mean of the losses of the step, or NaN. Begins a new step."""
        losses = self._given or self._found
        mean = (
            sum(float(one) for one in losses) / len(losses) if losses else float("nan")
        )
        self._given, self._found = [], []
        return mean
