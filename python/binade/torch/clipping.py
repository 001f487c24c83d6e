"""Clipping of each gradient by a percentile of its last norms, as bitsandbytes had it."""

from __future__ import annotations

import torch

# The norms that are remembered.
LENGTH = 100


class PercentileClipping:
    """Remembers the squared norms of the gradients of some parameters.

    Attributes:
      norms: The last ``LENGTH`` squared norms of each parameter, of shape
        ``[parameters, LENGTH]``.
      factors: The factors of the gradients, in the first column of a tensor whose rows are
        aligned for kernels.
    """

    def __init__(self, percentiles: list[int], place: torch.device) -> None:
        """Clips the gradient of each parameter to this percentile of its norms, a whole
        number from 1 to 99."""
        count = len(percentiles)
        self._percentiles = torch.tensor(percentiles, device=place)[:, None]
        self.norms = torch.zeros(count, LENGTH, dtype=torch.float32, device=place)
        self.factors = torch.ones(count, 4, dtype=torch.float32, device=place)

    def update(
        self, squares: torch.Tensor, updates: torch.Tensor, skips: torch.Tensor
    ) -> None:
        """Remembers the squared norms of gradients, and computes the factors. If one is
        infinite, the step is skipped, and nothing is remembered; that of a parameter
        without a gradient is NaN.

        Args:
          squares: The squared norms, f32.
          updates: The number of updates before this one; a scalar.
          skips: Not 0 if the step is skipped for another reason; a scalar.
        """
        isRun = ~(squares.isinf().any() | (skips != 0))
        isKnown = (squares.isfinite() & isRun)[:, None]
        column = torch.arange(LENGTH, device=squares.device)
        # The first norm is also used for those before it.
        isFirst = (self.norms == 0).all(dim=1, keepdim=True)
        isWritten = (column == (updates + 1) % LENGTH) | isFirst
        self.norms.copy_(torch.where(isKnown & isWritten, squares[:, None], self.norms))
        most = self.norms.sort(dim=1).values.gather(1, self._percentiles)[:, 0]
        isLarger = squares > most  # False for NaN.
        ratio = torch.where(isLarger, (most / squares).sqrt(), 1.0)
        self.factors[:, 0] = torch.where(isKnown[:, 0], ratio, 1.0)
