"""How ranks shard the elements of parameters, as compiled steps do."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from binade.planning.step import ShardedParameter


def find_rank_offsets(sharded: Sequence[ShardedParameter], ranks: int) -> np.ndarray:
    """Returns where the shard of each rank begins among the elements of all sharded parameters,
    and their number: the nearest block (binade::ElementSharding)."""
    if not sharded:
        return np.zeros(ranks + 1, np.int64)
    sizes = np.asarray([one.elements for one in sharded], np.int64)
    blocks = np.asarray([one.block for one in sharded], np.int64)
    states = np.asarray([one.states for one in sharded], np.int64)
    starts, before = _sum_before(sizes), _sum_before(states)
    wanted = before[-1] * np.arange(ranks + 1, dtype=np.int64) // ranks
    index = np.searchsorted(before[:-1], wanted, side="right") - 1
    offset = (wanted - before[index]) * sizes[index].astype(np.float64) / states[index]
    offset = offset.astype(np.int64)
    below = offset // blocks[index] * blocks[index]
    above = np.minimum(below + blocks[index], sizes[index])
    offsets = starts[index] + np.where(offset - below <= above - offset, below, above)
    offsets[-1] = starts[-1]
    return offsets


def _sum_before(values: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(values)])


@functools.lru_cache(maxsize=64)
def get_unevenness(sharded: tuple[ShardedParameter, ...], ranks: int) -> float:
    """Returns the elements of the largest shard over the mean."""
    offsets = find_rank_offsets(sharded, ranks)
    total = int(offsets[-1])
    return int(np.diff(offsets).max()) * ranks / total if total else 1.0
