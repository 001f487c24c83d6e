"""Results of a call of a compiled step: metrics and statistics."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# The exponent that the first entry of a statistic ``exponents`` counts.
_FIRST_EXPONENT = -127


@dataclass(frozen=True)
class Metrics:
    """The metrics of one call of a step.

    Attributes:
      loss: The loss of the batch, or the mean over the batches of the step; NaN if the
        graph has no loss.
      grad_norm: The global L2 norm of the gradients, unscaled, before clipping; NaN if
        the step does not compute it.
      skipped: Whether no parameter was updated, because a gradient was not finite.
      scale: The loss scale of the step; 1 without loss scaling.
    """

    loss: float
    grad_norm: float
    skipped: bool
    scale: float


def read_statistic(found: np.ndarray) -> float | dict[int, int]:
    """Converts a statistic to a number, or to counts by exponent, as in ``stats.jsonl``."""
    if found.dtype != np.int64:
        return float(found.reshape(()))
    return {
        bin + _FIRST_EXPONENT: int(count) for bin, count in enumerate(found) if count
    }
