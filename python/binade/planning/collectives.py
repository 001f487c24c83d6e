"""Times of collective operations in the alpha-beta model.

A message of n bytes takes ``alpha + n * beta`` seconds, where alpha is the latency and beta
the inverse of the bandwidth (R. W. Hockney, The communication challenge for MPP, Parallel
Computing 20(3), 1994). With p ranks and n bytes per rank, both halves of an all-reduce, the
reduce-scatter and the all-gather, take

- in a ring, (p - 1) alpha + (p - 1)/p n beta: each rank sends a p-th part to its neighbor in
  each of p - 1 steps (P. Patarasuk and X. Yuan, Bandwidth optimal all-reduce algorithms for
  clusters of workstations, J. Parallel Distrib. Comput. 69(2), 2009);
- by recursive halving or doubling, here "tree", ceil(log2 p) alpha + (p - 1)/p n beta
  (R. Thakur, R. Rabenseifner and W. Gropp, Optimization of collective communication operations
  in MPICH, Int. J. High Perform. Comput. Appl. 19(1), 2005).

An all-to-all, in which each rank sends a p-th part to each other rank, takes
(p - 1) alpha + (p - 1)/p n beta by pairwise exchange (the same paper).

The arithmetic of a reduction is not counted separately: a measured bandwidth contains it, and on
GPUs memory is about ten times as fast as a link.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

STEPS = {
    "ring": lambda ranks: ranks - 1,
    "tree": lambda ranks: math.ceil(math.log2(ranks)),
}


@dataclasses.dataclass(frozen=True)
class Cost:
    """What an operation takes in one rank.

    Attributes:
      latency: Seconds that do not depend on the size.
      transfer: Seconds that grow with the size.
      sent: Bytes that a rank sends, as many as it receives.
    """

    latency: float = 0
    transfer: float = 0
    sent: float = 0

    @property
    def seconds(self) -> float:
        return self.latency + self.transfer

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.latency + other.latency, self.transfer + other.transfer,
                    self.sent + other.sent)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Level:
    """A kind of link, and the ranks that it connects.

    Attributes:
      name: For reports, such as ``NVLink``.
      size: The number of ranks, or of groups of the level below, that one instance connects;
        0 for the outermost level, which connects all.
      latency: Seconds from the start of a message until its first byte arrives.
      bandwidth: Bytes per second that a rank sends, while it receives as many.
      at_once: The number of ranks that a machine runs at the same time; with more, ranks take
        turns, and messages take longer in proportion. 0 if there is no such limit.
      algorithms: Names of ``STEPS``; the fastest of them is used.
      wakeup: Seconds from the arrival of a message until its rank gets a core; added to each
        message if there are more than ``at_once`` ranks.
    """

    name: str
    size: int
    latency: float
    bandwidth: float
    at_once: int = 0
    algorithms: tuple[str, ...] = ("ring", "tree")
    wakeup: float = 0

    def measure(self, members: int, messages: float, sent: float) -> Cost:
        """Returns the cost of ``messages`` messages with ``sent`` bytes together, which each of
        ``members`` members sends."""
        slower = max(1.0, members / self.at_once) if self.at_once else 1.0
        wait = self.wakeup if slower > 1 else 0.0
        latency = messages * (slower * self.latency + wait)
        return Cost(latency, slower * sent / self.bandwidth, sent)


def divide_ranks(levels: Sequence[Level], ranks: int) -> list[tuple[Level, int]]:
    """Returns the number of members of each level's groups, innermost first. Levels with a
    single member are left out. If ``ranks`` does not divide evenly, some groups have fewer
    members than the returned number.

    >>> node = Level("NVLink", 8, 2e-6, 450e9)
    >>> fabric = Level("InfiniBand", 0, 8e-6, 50e9)
    >>> [(level.name, n) for level, n in divide_ranks([node, fabric], 16384)]
    [('NVLink', 8), ('InfiniBand', 2048)]
    """
    found = []
    for level in levels:
        members = min(level.size, ranks) if level.size else ranks
        if members > 1:
            found.append((level, members))
        ranks = -(-ranks // members)
    return found


def _measure_half(level: Level, members: int, size: float) -> Cost:
    steps = min(STEPS[name](members) for name in level.algorithms)
    return level.measure(members, steps, size * (members - 1) / members)


def reduce_scatter(levels: Sequence[Level], ranks: int, size: float) -> Cost:
    """Returns the cost of a reduce-scatter of ``size`` bytes in each of ``ranks`` ranks.

    It goes from the innermost level outwards: each level reduces what the one below it left to
    a rank, so that the slow links carry the smallest part of the bytes.
    """
    cost = Cost()
    for level, members in divide_ranks(levels, ranks):
        cost += _measure_half(level, members, size)
        size /= members
    return cost


def all_gather(levels: Sequence[Level], ranks: int, size: float) -> Cost:
    """Returns the cost of an all-gather of which each rank receives ``size`` bytes: that of the
    reduce-scatter in reverse."""
    return reduce_scatter(levels, ranks, size)


def all_reduce(levels: Sequence[Level], ranks: int, size: float) -> Cost:
    """Returns the cost of an all-reduce of ``size`` bytes: a reduce-scatter and an
    all-gather."""
    return reduce_scatter(levels, ranks, size) + all_gather(levels, ranks, size)


def all_to_all(levels: Sequence[Level], ranks: int, size: float) -> Cost:
    """Returns the cost of an all-to-all, in which each rank sends a part of its ``size`` bytes
    to each other rank. Nothing is reduced on the way, so that the slowest links carry nearly
    all bytes, and every other rank is sent a message."""
    cost, reached = Cost(), 1
    for level, members in divide_ranks(levels, ranks):
        others = min(reached * members, ranks) - reached
        cost += level.measure(members, others, size * others / ranks)
        reached += others
    return cost


OPERATIONS = {
    "all_reduce": all_reduce,
    "reduce_scatter": reduce_scatter,
    "all_gather": all_gather,
    "all_to_all": all_to_all,
}


def find_half_size(levels: Sequence[Level], ranks: int) -> float:
    """Returns the size in bytes of an all-reduce of which latency is half of the time (Hockney's
    n 1/2); 0 for one rank."""
    cost = all_reduce(levels, ranks, 1.0)
    return cost.latency / cost.transfer if cost.transfer else 0.0
