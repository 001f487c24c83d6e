"""Paired timings on a machine that others use too.

A and B alternate in one process; what is reported is the ratio of each pair, its median
and quartiles. A probe (a product of two matrices and an update of a large array, in
NumPy) runs before each pair: where it moves far from its median the machine was not
the same for both, and the pair is left out.
"""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable

import numpy as np

PROBE_TOLERANCE = 0.2


@dataclasses.dataclass
class Ratio:
    """Times of `ours` over times of `peer`."""

    ours: str
    peer: str
    quartiles: tuple[float, float, float]
    ours_ms: float
    peer_ms: float
    pairs: int
    rejected: int
    least: float
    """The ratio of the shortest times: disturbances only make times longer."""

    def __str__(self) -> str:
        low, median, high = self.quartiles
        return (
            f"{self.ours} / {self.peer}: {median:.3f} [{low:.3f}, {high:.3f}], "
            f"{self.ours_ms:.1f} against {self.peer_ms:.1f} ms, {self.pairs} pairs, "
            f"shortest times {self.least:.3f}"
            + (f", {self.rejected} rejected" if self.rejected else "")
        )


class Probe:
    """A fixed piece of work, half arithmetic, half memory."""

    def __init__(self) -> None:
        self.matrix = np.ones((768, 768), np.float32)
        self.array = np.ones(1 << 24, np.float32)

    def __call__(self) -> float:
        return measure(self.work)

    def work(self) -> None:
        self.matrix @ self.matrix
        np.multiply(self.array, 1.0, out=self.array)


def measure(
    call: Callable[[], None], clock: Callable[[], float] = time.perf_counter
) -> float:
    """Seconds."""
    start = clock()
    call()
    return clock() - start


def compare(
    ours: tuple[str, Callable[[], None]],
    peer: tuple[str, Callable[[], None]],
    pairs: int = 15,
    warmup: int = 3,
    clock: Callable[[], float] = time.perf_counter,
) -> Ratio:
    """Times `ours` and `peer`, each a name and a call, by `clock`."""
    for _ in range(warmup):
        ours[1]()
        peer[1]()
    probe, rows = Probe(), []
    probe()
    for i in range(pairs):
        moved = probe()
        # Neither side is always the first.
        sides = (ours, peer) if i % 2 == 0 else (peer, ours)
        times = {name: measure(call, clock) for name, call in sides}
        rows.append((moved, times[ours[0]], times[peer[0]]))
    usual = statistics.median(row[0] for row in rows)
    kept = [row for row in rows if abs(row[0] / usual - 1) <= PROBE_TOLERANCE]
    if len(kept) < 2:
        kept = rows  # It was never quiet: the quartiles say by how much.
    ratios = [a / b for _, a, b in kept]
    low, median, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return Ratio(
        ours[0],
        peer[0],
        (low, median, high),
        1e3 * statistics.median(row[1] for row in kept),
        1e3 * statistics.median(row[2] for row in kept),
        len(kept),
        len(rows) - len(kept),
        min(row[1] for row in rows) / min(row[2] for row in rows),
    )
