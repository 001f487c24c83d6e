"""How often ranks fail, and how often to save a checkpoint.

Failures are a Poisson process: they are independent, and a rank fails as often when it is old as
when it is new.
"""

from __future__ import annotations

import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class Failures:
    """The life of the ranks, and what a failure costs.

    Attributes:
      rank_seconds: Mean time between failures of one rank, in seconds.
      save: Seconds for which a checkpoint stops training.
      restart: Seconds from a failure until training continues from the checkpoint.
    """

    rank_seconds: float
    save: float
    restart: float = 0

    def get_mean_time(self, ranks: int) -> float:
        """Returns the seconds between failures of any of ``ranks`` ranks."""
        return self.rank_seconds / ranks

    def find_interval(self, ranks: int) -> float:
        """Returns the seconds of training between two checkpoints that minimize the time lost.

        The higher-order estimate of J. T. Daly, A higher order estimate of the optimum
        checkpoint interval for restart dumps, Future Gener. Comput. Syst. 22(3), 2006, equation
        37. For short saves it is J. W. Young's sqrt(2 * save * mean time), A first order
        approximation to the optimum checkpoint interval, Commun. ACM 17(9), 1974.
        """
        mean = self.get_mean_time(ranks)
        if self.save >= 2 * mean:
            return mean
        ratio = self.save / (2 * mean)
        young = math.sqrt(2 * self.save * mean)
        return young * (1 + math.sqrt(ratio) / 3 + ratio / 9) - self.save

    def get_lost_share(self, ranks: int, interval: float) -> float:
        """Returns the expected share of the time that saves, repeated steps and restarts take.

        Daly's model of the total time: with mean time M between failures, an
        interval takes M e^(R/M) (e^((T + save)/M) - 1) seconds on average instead of T. Failures
        during saves and restarts count.
        """
        mean = self.get_mean_time(ranks)
        exponent = (interval + self.save) / mean
        if (
            exponent + self.restart / mean > 700
        ):  # Beyond f64: nothing is ever finished.
            return 1.0
        total = mean * math.exp(self.restart / mean) * math.expm1(exponent)
        return 1 - interval / total
