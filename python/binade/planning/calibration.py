"""Fits latency and bandwidth of one level to measured all-reduces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from binade.planning.collectives import Level, all_reduce


@dataclass(frozen=True)
class Measurement:
    """An all-reduce of ``size`` bytes by ``ranks`` processes, in seconds."""

    ranks: int
    size: float
    seconds: float


def fit_level(name: str, measured: Sequence[Measurement], at_once: int = 0) -> Level:
    """Returns the level of ring all-reduces that take what was measured.

    Latency and inverse bandwidth minimize the squares of the relative errors: a linear problem.

    Args:
      at_once: The number of processes that the machine runs at the same time: its cores.
    """
    unit = Level(name, 0, 1.0, 1.0, at_once, ("ring",))
    costs = [all_reduce([unit], m.ranks, m.size) for m in measured]
    system = np.array(
        [
            (c.latency / m.seconds, c.transfer / m.seconds)
            for c, m in zip(costs, measured)
        ]
    )
    found, *_ = np.linalg.lstsq(system, np.ones(len(measured)), rcond=None)
    latency, inverse = (max(float(x), 1e-15) for x in found)
    return replace(unit, latency=latency, bandwidth=1 / inverse)


def predict(level: Level, ranks: int, size: float) -> float:
    """Returns the seconds of an all-reduce in a level that connects all ranks."""
    return all_reduce([replace(level, size=0)], ranks, size).seconds


def get_error(level: Level, measured: Sequence[Measurement]) -> float:
    """Returns the largest relative error of the predictions of measurements."""
    return max(abs(predict(level, m.ranks, m.size) / m.seconds - 1) for m in measured)
