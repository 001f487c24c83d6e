"""Simulates many ranks in one process, under a virtual clock.

Each virtual rank enters its exchanges in the order of its own list. An exchange ends when all
ranks have entered it and its time has passed. So the simulation finds what a test with a few
processes cannot: ranks that block each other, and what a death at any moment leaves on disk.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from binade.errors import PeerError
from binade.planning.schedule import Bucket
from binade.planning.transfers import Transfer, list_gradient_transfers


@dataclasses.dataclass(frozen=True)
class Exchange:
    """A collective operation of all ranks.

    Attributes:
      name: What is exchanged: ``bucket 2``.
      ready: Seconds from the start of the step until a rank enters it at the earliest.
    """

    name: str
    transfer: Transfer
    ready: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.transfer.operation} of {self.name} ({self.transfer.size:.0f} bytes)"
        )


Program = Sequence[Exchange]


def list_exchanges(
    buckets: Sequence[Bucket],
    others: Sequence[Transfer],
    backward_end: float,
    ranks: int,
    exchange: str = "f32",
) -> list[Exchange]:
    """Returns the exchanges of a step in their order: the transfers of each bucket, and then
    those that follow the backward pass."""
    found = [
        Exchange(f"bucket {number}", transfer, bucket.ready)
        for number, bucket in enumerate(buckets)
        for transfer in list_gradient_transfers(bucket.elements, ranks, exchange)
    ]
    return found + [Exchange(one.what, one, backward_end) for one in others]


@dataclasses.dataclass(frozen=True)
class Death:
    """A rank that ends without a word. The others get an error from an exchange with it, at the
    earliest ``detection`` seconds later."""

    rank: int
    time: float
    detection: float = 0.0


@dataclasses.dataclass
class Result:
    """What a step ends with.

    Attributes:
      clocks: When each rank finished the step or ended.
      passed: The number of exchanges that are complete.
      is_whole: Whether all ranks finished the step.
    """

    clocks: np.ndarray
    passed: int
    is_whole: bool


def run_step(
    programs: Sequence[Program],
    measure: Callable[[Exchange], float],
    start: np.ndarray,
    speeds: np.ndarray | float = 1.0,
    death: Death | None = None,
) -> Result:
    """Runs the exchanges of one step.

    Args:
      programs: The exchanges of each rank, in its order.
      measure: Returns the seconds of an exchange.
      start: When each rank starts the step.
      speeds: What ``ready`` of each rank is multiplied by: above 1 for slow ranks.
      death: A rank that dies in this step. If it dies later, the step is whole.

    Raises:
      PeerError: If ranks enter different exchanges, which no library ends; the message names the
        ranks and their exchanges.
    """
    clocks = np.array(start, dtype=float)
    isShared = all(program is programs[0] for program in programs)
    for number in range(max(map(len, programs))):
        if not isShared:
            check_order(programs, number)
        exchange = programs[0][number]
        entered = np.maximum(clocks, start + exchange.ready * speeds)
        end = entered.max() + measure(exchange)
        if death is not None and death.time < end:
            ended = np.maximum(entered, death.time + death.detection)
            ended[death.rank] = death.time
            return Result(ended, number, False)
        clocks[:] = end
    return Result(clocks, max(map(len, programs)), True)


def check_order(programs: Sequence[Program], number: int) -> None:
    """Checks that all ranks enter the same exchange.

    Raises:
      PeerError: If they do not.
    """
    entered: dict[Exchange | None, list[int]] = {}
    known: dict[int, list[int]] = {}
    for rank, program in enumerate(programs):
        own = program[number] if number < len(program) else None
        ranks = known.get(id(own))  # Ranks mostly share their lists.
        if ranks is None:
            key = dataclasses.replace(own, ready=0.0) if own else None
            ranks = known[id(own)] = entered.setdefault(key, [])
        ranks.append(rank)
    if len(entered) == 1:
        return
    groups = sorted(entered.items(), key=lambda group: len(group[1]), reverse=True)
    found = "; ".join(
        f"{_name_ranks(ranks)} in {exchange or 'none, at the end of the step'}"
        for exchange, ranks in groups
    )
    raise PeerError(f"deadlock in exchange {number}: {found}")


def _name_ranks(ranks: Sequence[int]) -> str:
    """Returns ``rank 3``, ``ranks 3, 5`` or ``1023 ranks``."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) <= 4:
        return f"ranks {', '.join(map(str, ranks))}"
    return f"{len(ranks)} ranks"
