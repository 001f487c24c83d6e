"""Parses and evaluates ``--criterion``: ``eval_loss@200 <= fp32*1.01``."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from binade.errors import UsageError
from binade.run import Run

METRICS = ("loss", "eval_loss", "grad_norm", "loss_scale", "skipped")
_FORM = re.compile(
    r"\s*(?P<metric>\w+)\s*@\s*(?P<step>\w+)\s*(?P<relation><=|>=|<|>)\s*(?P<limit>.+?)\s*"
)
_LIMIT = re.compile(r"fp32|(?:fp32\s*(?P<sign>[*+])\s*)?(?P<number>[^\s*+]+)")


@dataclass(frozen=True)
class Criterion:
    """A comparison of a step's metric with a limit."""

    text: str
    metric: str
    step: int
    relation: str
    number: float
    sign: str  # "*" or "+" relative to what fp32 reaches; empty for a number alone.

    @property
    def needs_reference(self) -> bool:
        return bool(self.sign)

    def limit(self, reference: float | None) -> float:
        """Returns the limit as a number; `reference` is the metric of the fp32 run."""
        if not self.sign:
            return self.number
        assert reference is not None
        return reference * self.number if self.sign == "*" else reference + self.number

    def measure(self, run: Run) -> float | None:
        """Returns the metric of the step; for ``skipped`` the number of skipped steps up
        to it. None if the run ended before the step, or the metric is not finite.

        Raises:
          UsageError: If the run reached the step and did not record ``eval_loss``.
        """
        if len(run.steps) < self.step:
            return None
        line = run.steps[self.step - 1]
        if self.metric == "skipped":
            return sum(step["skipped"] for step in run.steps[: self.step])
        value = line.get(self.metric)
        if value is None and self.metric == "eval_loss":
            raise UsageError(
                f"--criterion '{self.text}': no eval_loss at step {self.step}; it takes "
                "--eval-data or --eval-fraction, and --eval-every where --steps is more"
            )
        return value

    def holds(self, value: float | None, limit: float) -> bool:
        """Whether `value` meets the criterion; None and non-finite values do not."""
        if value is None or not math.isfinite(value):
            return False
        return {
            "<=": value <= limit, "<": value < limit, ">=": value >= limit,
            ">": value > limit,
        }[self.relation]  # fmt: skip


def parse_criterion(text: str) -> Criterion:
    """Parses METRIC@STEP RELATION LIMIT; a limit is NUMBER, fp32, fp32*NUMBER or
    fp32+NUMBER.

    Raises:
      UsageError: If it is not a criterion; the text says which part.
    """

    def fail(why: str) -> UsageError:
        return UsageError(
            f"--criterion '{text}': {why}; write METRIC@STEP <= LIMIT, as in "
            "'eval_loss@200 <= fp32*1.01'"
        )

    found = _FORM.fullmatch(text)
    if not found:
        raise fail("no comparison of the metric of a step")
    metric, step = found["metric"], found["step"]
    if metric not in METRICS:
        raise fail(f"no metric is called '{metric}': there are {', '.join(METRICS)}")
    if not step.isdecimal() or int(step) == 0:
        raise fail(f"'{step}' is not a step: they count from 1")
    limit = _LIMIT.fullmatch(found["limit"])
    if not limit:
        raise fail(
            f"'{found['limit']}' is neither a number nor a multiple of fp32's metric"
        )
    try:
        number = float(limit["number"] or 1)
    except ValueError:
        raise fail(f"'{limit['number']}' is not a number") from None
    if not math.isfinite(number):
        raise fail(f"'{limit['number']}' is not a finite number")
    sign = limit["sign"] or ("" if limit["number"] else "*")
    return Criterion(text, metric, int(step), found["relation"], number, sign)
