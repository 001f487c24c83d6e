"""Fits latency and bandwidth of one level to measured all-reduces."""

from __future__ import annotations

import math
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
    """Fits a level to the times of ring all-reduces.

    Chooses the latency, the inverse bandwidth and, if some measurements have more than ``at_once``
    ranks, the wake-up time that minimize the sum of squared relative errors (linear least squares).

    Args:
      at_once: The number of processes that the machine runs at the same time: its cores.
    """
    # Times are linear in latency, inverse bandwidth and wake-up time: each of these levels has
    # only one of them.
    units = [
        Level(name, 0, 1.0, math.inf, at_once, ("ring",)),
        Level(name, 0, 0.0, 1.0, at_once, ("ring",)),
        Level(name, 0, 0.0, math.inf, at_once, ("ring",), wakeup=1.0),
    ]
    columns = np.array([
        [predict(unit, m.ranks, m.size) / m.seconds for m in measured] for unit in units
    ])  # fmt: skip
    latency, inverse, wakeup = _fit(columns if columns[2].any() else columns[:2])
    return Level(name, 0, latency, 1 / max(inverse, 1e-15), at_once, ("ring",), wakeup)


def _fit(columns: np.ndarray) -> tuple[float, float, float]:
    """Returns nonnegative weights with which the weighted sum of the columns is nearest to 1."""
    found, *_ = np.linalg.lstsq(columns.T, np.ones(columns.shape[1]), rcond=None)
    if len(found) == 3 and found[2] < 0:
        return _fit(columns[:2])
    latency, inverse, wakeup = (max(float(x), 0.0) for x in (*found, 0.0)[:3])
    return latency, inverse, wakeup


def predict(level: Level, ranks: int, size: float) -> float:
    """Returns the seconds of an all-reduce in a level that connects all ranks."""
    return all_reduce([replace(level, size=0)], ranks, size).seconds


def get_error(level: Level, measured: Sequence[Measurement]) -> float:
    """Returns the largest relative error of the predictions of measurements."""
    return max(abs(predict(level, m.ranks, m.size) / m.seconds - 1) for m in measured)
