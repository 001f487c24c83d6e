"""Times device calls by the host's clock; a call must return only when the device is done.

Sides alternate in one process, so that what changes on the machine changes for all; the
ratio of two is the median of the rounds' ratios.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

Call = Callable[[], object]


def measure(call: Call) -> float:
    """Seconds."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def alternate(
    sides: dict[str, Call], rounds: int, warmup: int = 3, seconds: float = 20
) -> dict[str, list[float]]:
    """Milliseconds of each side, round by round, until `seconds` are over."""
    for call in sides.values():
        for _ in range(warmup):
            call()
    times = {name: [] for name in sides}
    end = time.perf_counter() + seconds
    for i in range(rounds):
        # No side is always the first.
        names = list(sides)
        for name in names[i % len(names) :] + names[: i % len(names)]:
            times[name].append(1e3 * measure(sides[name]))
        if time.perf_counter() > end:
            break
    return times


def median(times: list[float]) -> float:
    return statistics.median(times)


def ratio(ours: list[float], peers: list[float]) -> dict:
    """The median of ratios, and their quartiles."""
    ratios = sorted(a / b for a, b in zip(ours, peers))
    if len(ratios) < 2:
        ratios *= 2
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return {"ratio": round(middle, 3), "quartiles": [round(low, 3), round(high, 3)]}
