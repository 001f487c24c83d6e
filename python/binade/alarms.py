"""Early warning of steps that are called from Python (docs/Monitoring.md)."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from binade import _core
from binade.errors import AlarmError, UsageError
from binade.options import as_texts

_LOG = logging.getLogger("binade")


@dataclass(frozen=True)
class Alarm:
    """What a rule found, as a line of ``alarms.jsonl``; as text, what a terminal shows.

    Attributes:
      step: Which call of the step it was, from 1.
      rule: A name of ``binade list alarms``, or of a file of rules.
      where: ``kind/layer`` of the value; empty where the rule goes by metrics.
      since: The first step of the window that counts.
      value: The number that the rule watches.
      message: What was found.
      forecast: A value, and the step at which it is reached by a straight line.
      remedy: What helps, as a sentence.
      policy: A policy that helps: a name, or lines of a file.
    """

    step: int
    rule: str
    where: str
    since: int
    value: float
    message: str
    forecast: tuple[float, int] | None
    remedy: str
    policy: str
    text: str

    def __str__(self) -> str:
        return self.text


def as_words(alarms: str | Sequence[str]) -> list[str]:
    """What ``--alarms`` takes, from one word or several."""
    return as_texts(alarms, "alarms")


def check_action(on_alarm: str) -> None:
    """Refuses an action that a step which is called from Python has not.

    Raises:
      UsageError: If it is neither empty, ``warn`` nor ``stop``.
    """
    if not isinstance(on_alarm, str):
        raise UsageError(f"on_alarm: expected 'warn' or 'stop', got {on_alarm!r}")
    if on_alarm.startswith("switch:"):
        raise UsageError(
            f"on_alarm: a compiled step has one policy, got '{on_alarm}': with 'stop' the "
            "step raises AlarmError, and another that is compiled under that policy can "
            "take over what `save` wrote"
        )
    if on_alarm not in ("", "warn", "stop"):
        raise UsageError(f"on_alarm: expected 'warn' or 'stop', got '{on_alarm}'")


class Watch:
    """Holds the rules of a step against its calls."""

    def __init__(
        self, program: _core.Program, words: Sequence[str], on_alarm: str
    ) -> None:
        self._program = program
        self._chosen = _core.choose_alarms(program, list(words), on_alarm)
        self.step = 0  # Calls so far.

    @property
    def rules(self) -> list[str]:
        """The names of the rules."""
        return self._chosen.rules

    def observe(self, scale: float | None, loss: float) -> list[Alarm]:
        """Looks at the step that is just done, and logs its alarms.

        Raises:
          AlarmError: If there are any, and alarms stop training.
        """
        self.step += 1
        found = [
            Alarm(
                one.step, one.rule, one.where, one.since, one.value, one.message,
                one.forecast, one.remedy, one.policy, "\n".join(one.describe()),
            )
            for one in self._chosen.observe(self._program, self.step, scale, loss)
        ]  # fmt: skip
        for alarm in found:
            _LOG.warning("%s", alarm)
        if found and self._chosen.action == "stop":
            raise AlarmError(found, self._chosen.policy)
        return found
