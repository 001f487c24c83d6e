"""Compares training results with those of a base policy, seed by seed.

The difference of two policies is measured with the same seed, so that both runs have the
same initial values and batches. Its mean over seeds has a 95 % interval, by Student's t. The
Seed noise is the standard deviation of the base's loss over seeds. A policy equals the
base within that noise if the interval of its difference is within [-noise, noise].
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from binade.run import Run
from binade.step_times import agree, get_milliseconds

CONFIDENCE = 0.95
# Verdicts on a difference.
EQUAL, HIGHER, LOWER, UNDECIDED, UNKNOWN = (
    "equal",
    "higher",
    "lower",
    "undecided",
    "unknown",
)
# A policy is recommended instead of the base if memory times time is below this share of
# the base's.
WORTH = 0.95


# --- Statistics -------------------------------------------------------------------------


def _coverage(t: float, freedom: int) -> float:
    """Returns P(|T| <= t) of Student's t distribution with integer degrees of freedom
    (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    angle = math.atan(t / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    if freedom % 2:
        term, total = cosine, 0.0
        for k in range(3, freedom + 1, 2):
            total += term
            term *= (k - 1) / k * cosine**2
        return 2 / math.pi * (angle + sine * total)
    term, total = 1.0, 0.0
    for k in range(2, freedom + 1, 2):
        total += term
        term *= (k - 1) / k * cosine**2
    return sine * total


@cache
def get_quantile(freedom: int) -> float:
    """Returns the half-width of the interval that holds ``CONFIDENCE`` of Student's t."""
    low, high = 0.0, 64.0
    for _ in range(60):
        middle = (low + high) / 2
        if _coverage(middle, freedom) < CONFIDENCE:
            low = middle
        else:
            high = middle
    return high


@dataclass(frozen=True)
class Comparison:
    """The losses of a policy minus those of the base with the same seed."""

    label: str
    base: str
    differences: Mapping[int, float]  # By seed; without seeds that one of them lacks.
    noise: float | None  # Standard deviation of the base over seeds; None for one seed.
    finished: int  # Number of seeds with a final loss.
    failed: int  # Number of runs without one.
    loss: float | None  # Mean over seeds.
    bytes: float  # Peak memory.
    milliseconds: float | None
    memory: float  # Relative to the base.
    time: float | None  # Relative to the base; None where times cannot be compared.

    @property
    def mean(self) -> float | None:
        return statistics.fmean(self.differences.values()) if self.differences else None

    @property
    def error(self) -> float | None:
        """The standard error of the mean; None for less than two seeds."""
        count = len(self.differences)
        if count < 2:
            return None
        return statistics.stdev(self.differences.values()) / math.sqrt(count)

    @property
    def margin(self) -> float | None:
        """Half of the width of the mean's interval; None for less than two seeds."""
        if self.error is None:
            return None
        return self.error * get_quantile(len(self.differences) - 1)

    @property
    def verdict(self) -> str:
        mean, margin = self.mean, self.margin
        if mean is None or margin is None or self.noise is None:
            return UNKNOWN
        if abs(mean) + margin <= self.noise:
            return EQUAL
        if abs(mean) > margin:
            return HIGHER if mean > 0 else LOWER
        return UNDECIDED

    @property
    def cost(self) -> float:
        """Memory times time, relative to the base; memory where times cannot be compared."""
        return self.memory * (1.0 if self.time is None else self.time)


def get_seed(run: Run) -> int:
    return int(run.about["seed"])


def get_base(groups: Mapping[str, Sequence[Run]]) -> str:
    """Returns the label of the first group with policy fp32, or else of the first group;
    groups without runs do not count."""
    policies = {label: runs[0].policy for label, runs in groups.items() if runs}
    wide = [label for label, policy in policies.items() if policy == "fp32"]
    return (wide or list(policies))[0]


def compare(
    groups: Mapping[str, Sequence[Run]],
    base: str,
    failed: Mapping[str, int] | None = None,
) -> dict[str, Comparison]:
    """Compares each group with the base.

    Args:
      groups: Runs that reached their last step, by label; they differ only in their seed.
      base: The label to compare with.
      failed: Numbers of runs that did not reach their last step, by label.

    Returns:
      The comparisons by label, including that of the base with itself. Losses are held-out
      ones if all runs have one.
    """
    held_out = all(
        run.last_held_out is not None for runs in groups.values() for run in runs
    )

    def get_losses(runs: Sequence[Run]) -> dict[int, float]:
        found: dict[int, list[float]] = {}
        for run in runs:
            if (loss := run.get_final_loss(held_out)) is not None:
                found.setdefault(get_seed(run), []).append(loss)
        return {seed: statistics.fmean(losses) for seed, losses in found.items()}

    own = get_losses(groups[base])
    noise = statistics.stdev(own.values()) if len(own) > 1 else None
    size = get_size(groups[base])
    timed = all(agree(runs) for runs in groups.values())
    duration = get_milliseconds(groups[base]) if timed else None
    found = {}
    for label, runs in groups.items():
        losses, time = get_losses(runs), get_milliseconds(runs)
        ended = sum(run.get_final_loss(held_out) is not None for run in runs)
        found[label] = Comparison(
            label, base,
            {seed: loss - own[seed] for seed, loss in losses.items() if seed in own},
            noise, len(losses), (failed or {}).get(label, 0) + len(runs) - ended,
            statistics.fmean(losses.values()) if losses else None,
            get_size(runs), time, get_size(runs) / size if size else math.nan,
            time / duration if time is not None and duration else None,
        )  # fmt: skip
    return found


def get_size(runs: Sequence[Run]) -> float:
    """Returns the peak memory of a step in bytes; NaN without runs."""
    return float(runs[0].about["arena_bytes"]) if runs else math.nan


def recommend(
    found: Mapping[str, Comparison], verdicts: Collection[str] = (EQUAL, LOWER)
) -> Comparison | None:
    """Returns the comparison of the policy to take: the smallest product of memory and time
    among those with one of the verdicts. None if none is worth leaving the base for."""
    good = [
        one for one in found.values()
        if one.label != one.base and one.verdict in verdicts and not one.failed
    ]  # fmt: skip
    best = min(good, key=lambda one: one.cost, default=None)
    return best if best and best.cost < WORTH else None
