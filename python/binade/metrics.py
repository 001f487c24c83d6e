"""What a compiled step reports of a call: metrics and statistics."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# The exponent that the first entry of a statistic ``exponents`` counts.
_FIRST_EXPONENT = -127


@dataclass(frozen=True)
class Metrics:
    """What a step reports.

    Attributes:
      loss: Of the batch; the mean of all batches of the step. NaN where the graph
        has none.
      grad_norm: The global norm of the gradients, unscaled, before clipping; NaN
        where the step does not need it.
      skipped: Whether no parameter was updated, because a gradient was not finite.
      scale: The loss scale of the step; 1 without loss scaling.
    """

    loss: float
    grad_norm: float
    skipped: bool
    scale: float


def read_statistic(found: np.ndarray) -> float | dict[int, int]:
    """A number, or counts by exponent, as in ``stats.jsonl``."""
    if found.dtype != np.int64:
        return float(found.reshape(()))
    return {
        bin + _FIRST_EXPONENT: int(count) for bin, count in enumerate(found) if count
    }
