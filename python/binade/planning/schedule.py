"""Overlaps the exchange of gradients with the backward pass.

The backward pass completes gradients in a known order, so that the schedule is static: buckets
are exchanged one after the other, each as soon as it is complete and the one before it is done.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence


@dataclasses.dataclass(frozen=True)
class Bucket:
    """Gradients that are exchanged together.

    Attributes:
      ready: Seconds from the start of the last micro-batch until its last gradient is complete.
      elements: The number of gradient elements.
      tensors: The number of gradients.
    """

    ready: float
    elements: int
    tensors: int


@dataclasses.dataclass(frozen=True)
class Overlap:
    """When the exchange ends.

    Attributes:
      exchange: Seconds that the exchanges of all buckets take together.
      exposed: Seconds from the end of the backward pass to that of the exchange.
    """

    exchange: float
    exposed: float

    @property
    def hidden(self) -> float:
        """The share of the exchange that the backward pass hides."""
        return max(0.0, 1 - self.exposed / self.exchange) if self.exchange else 1.0


def overlap(
    ready: Sequence[float], seconds: Sequence[float], backward_end: float
) -> Overlap:
    """Returns how much of the exchanges of buckets is hidden.

    Args:
      ready: When each bucket is complete, in the order of the exchange.
      seconds: How long the exchange of each bucket takes.
      backward_end: When the backward pass ends.
    """
    end = 0.0
    for start, duration in zip(ready, seconds, strict=True):
        end = max(end, start) + duration
    return Overlap(sum(seconds), max(0.0, end - backward_end))


def merge_buckets(buckets: Sequence[Bucket], elements: int) -> list[Bucket]:
    """Joins successive buckets until each has at least ``elements`` elements; the last one has
    what remains."""
    found: list[Bucket] = []
    for bucket in buckets:
        if found and found[-1].elements < elements:
            last = found.pop()
            bucket = Bucket(
                max(last.ready, bucket.ready),
                last.elements + bucket.elements,
                last.tensors + bucket.tensors,
            )
        found.append(bucket)
    return found
