"""Reuse distances of memory accesses: whether a cache of some size would have hit."""

from __future__ import annotations

import collections
import math

SECTOR = 32  # Bytes.
STEPS = 8  # Distances are kept in so many steps for each power of two.


class ReuseDistances:
    """The LRU stack distances of a sequence of accesses to sectors.

    The distance of an access is how many different bytes were accessed since the last
    access to the same sector. A Fenwick tree over the times of accesses counts, for each
    time, the sectors whose last access is not later.
    """

    def __init__(self) -> None:
        self.last: dict[tuple[int, int], int] = {}
        self.now = self.alive = 0
        self.tree = [0] * (1 << 14)

    def access(self, memory: int, sector: int) -> int | None:
        """The distance in bytes; None for the first access to the sector."""
        key, distance = (memory, sector), None
        last = self.last.pop(key, None)
        if last is not None:
            distance = SECTOR * (self.alive - self._count(last))
            self._add(last, -1)
        self.now += 1
        if self.now == len(self.tree):
            self._renumber()
        self.last[key] = self.now
        self._add(self.now, 1)
        return distance

    def _add(self, at: int, value: int) -> None:
        self.alive += value
        while at < len(self.tree):
            self.tree[at] += value
            at += at & -at

    def _count(self, at: int) -> int:
        count = 0
        while at:
            count += self.tree[at]
            at -= at & -at
        return count

    def _renumber(self) -> None:
        """Times become ranks, and the tree grows if more than half of them are in use."""
        keys = sorted(self.last, key=self.last.__getitem__)
        size = len(self.tree) * (2 if 2 * len(keys) > len(self.tree) else 1)
        self.tree, self.alive = [0] * size, 0
        for rank, key in enumerate(keys, 1):
            self.last[key] = rank
            self._add(rank, 1)
        self.now = len(keys) + 1


def step_of(distance: int) -> int:
    """The step of a distance, for histograms."""
    return round(STEPS * math.log2(max(1, distance)))


def distance_of(step: int) -> float:
    return 2 ** (step / STEPS)


Histogram = collections.Counter  # Bytes by step.
