"""What ranks exchange in a step."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from binade.planning.collectives import OPERATIONS, Cost, Level

_BLOCK = 128  # Elements with one scale, or one maximum.
_SCALE = 4 / _BLOCK  # Bytes for each element.

# The transfers of gradients in each format: operation, and bytes per element. Formats of 16 and
# 8 bits send each rank its part, which consists of whole blocks; it adds what it receives in f32
# in the order of the ranks, and returns the sums. `exact` exchanges the maxima of blocks, and then
# integers.
GRADIENTS: dict[str, tuple[tuple[str, float], ...]] = {
    "f32": (("all_reduce", 4.0),),
    "bf16": (("all_to_all", 2.0), ("all_gather", 4.0)),
    "e4m3": (("all_to_all", 1.0 + _SCALE), ("all_gather", 4.0)),
    "exact": (("all_reduce", _SCALE), ("all_reduce", 8.0)),
}
LOSS_BYTES = (
    8  # The loss of a micro-batch in f64, gathered and added in the order of the ranks.
)


@dataclasses.dataclass(frozen=True)
class Transfer:
    """A collective operation of a step.

    Attributes:
      what: What is exchanged, for reports.
      size: Bytes in each rank, at its beginning for a reduction, at its end for an all-gather.
      hides: Whether the backward pass can hide it.
    """

    what: str
    operation: str
    size: float
    hides: bool = False

    def cost(self, levels: Sequence[Level], ranks: int) -> Cost:
        return OPERATIONS[self.operation](levels, ranks, self.size)


def list_gradient_transfers(elements: int, ranks: int, exchange: str) -> list[Transfer]:
    """Returns the transfers of a bucket of gradients in order."""
    steps = GRADIENTS[exchange]
    if steps[0][0] == "all_to_all":
        elements = -(-elements // (_BLOCK * ranks)) * _BLOCK * ranks
    return [
        Transfer("gradients", name, elements * size, hides=True) for name, size in steps
    ]


def list_other_transfers(
    losses: int, magnitudes: int, gathered: float
) -> list[Transfer]:
    """Returns the transfers of a step that are not of gradients.

    Args:
      losses: The number of micro-batches of all ranks.
      magnitudes: The number of largest magnitudes of delayed scales.
      gathered: With zero1, the bytes of all parameters, of which a rank updates its shard:
        as many from each rank as from that with the most.
    """
    found = [Transfer("loss", "all_gather", LOSS_BYTES * losses)]
    if magnitudes:
        found.append(Transfer("magnitudes", "all_reduce", 4.0 * magnitudes))
    if gathered:
        found.append(Transfer("parameters", "all_gather", gathered))
    return found
