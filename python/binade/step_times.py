"""Measures the time of a step from runs on a machine that other programs also used.

Other programs only make steps slower, and rarely all of them, so the fastest steps show what
a policy costs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from binade.run import Run, format_time

# The time of a step is the one that this share of a run's steps does not exceed.
FASTEST = 0.1
# The machine was probably busy if times differ by this factor.
BUSY = 1.25


def get_fast(run: Run) -> float | None:
    """Returns the time that the fastest tenth of the steps does not exceed."""
    times = sorted(run.times)
    return times[int(FASTEST * len(times))] if times else None


def _list_fast(runs: Sequence[Run]) -> list[float]:
    return sorted(time for run in runs if (time := get_fast(run)) is not None)


def get_milliseconds(runs: Sequence[Run]) -> float | None:
    """Returns the time of a step of runs that differ only in their seed."""
    return next(iter(_list_fast(runs)), None)


def agree(runs: Sequence[Run]) -> bool:
    """Whether the fastest steps of two runs take equally long. If not, all of them may have
    been slowed down. True for less than two runs, which cannot show it."""
    times = _list_fast(runs)
    return len(times) < 2 or times[1] < BUSY * times[0]


def find_slowest(groups: Mapping[str, Sequence[Run]]) -> tuple[float, str]:
    """Returns how much slower the median step of a run was than the fastest steps with its
    policy, at most, and between which times."""
    worst, where = 1.0, ""
    for label, runs in groups.items():
        fast = get_milliseconds(runs)
        slow = max((run.milliseconds or 0.0 for run in runs), default=0.0)
        if fast and slow / fast > worst:
            worst = slow / fast
            where = f"{label}: {format_time(fast)} to {format_time(slow)} ms"
    return worst, where
