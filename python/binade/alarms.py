"""Alarm rules for steps that are called from Python (docs/Monitoring.md)."""

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
    """An alarm that a rule raised: the fields of a line of ``alarms.jsonl``.

    ``str(alarm)`` is the text that ``binade train`` prints for it.

    Attributes:
      step: The number of the call that raised the alarm, from 1.
      rule: The rule's name, from ``binade list alarms`` or a file of rules.
      where: ``kind/layer`` of the value; empty for a rule on metrics.
      since: The first step of the window that the rule evaluated.
      value: The value that the rule compares with its threshold.
      message: The finding, as a sentence.
      forecast: A value, and the step at which a linear extrapolation reaches it.
      remedy: A suggested remedy, as a sentence.
      policy: A policy that applies the remedy: a name, or lines of a policy file.
      text: The whole alarm as printed text.
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
    """Returns the values of ``--alarms`` from one string or a list of strings."""
    return as_texts(alarms, "alarms")


def check_action(on_alarm: str) -> None:
    """Rejects an alarm action that a step called from Python does not support.

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


def as_alarms(found: Sequence[_core.Alarm]) -> list[Alarm]:
    """Converts the alarms of a step."""
    return [
        Alarm(
            one.step, one.rule, one.where, one.since, one.value, one.message,
            one.forecast, one.remedy, one.policy, "\n".join(one.describe()),
        )
        for one in found
    ]  # fmt: skip


def report(
    alarms: Sequence[Alarm], action: str, policy: str = "", *, isLogged: bool = True
) -> None:
    """Logs alarms, unless another process does.

    Raises:
      AlarmError: If there are any, and the action is ``stop``.
    """
    for alarm in alarms if isLogged else ():
        _LOG.warning("%s", alarm)
    if alarms and action == "stop":
        raise AlarmError(alarms, policy)


class Watch:
    """Evaluates the alarm rules of a step after each call."""

    def __init__(
        self, program: _core.Program, words: Sequence[str], on_alarm: str
    ) -> None:
        self._program = program
        self._arguments = (tuple(words), on_alarm)
        self._chosen = _core.choose_alarms(program, list(words), on_alarm)
        self.step = 0  # Calls so far.
        self.isLogged = True  # Whether this process logs the alarms.

    def watch_other(self, program: _core.Program) -> Watch:
        """Returns a watch with the same rules and number of calls."""
        other = Watch(program, *self._arguments)
        other.step, other.isLogged = self.step, self.isLogged
        return other

    @property
    def rules(self) -> list[str]:
        """The names of the rules."""
        return self._chosen.rules

    @property
    def settings(self) -> _core.AlarmSettings:
        """The rules and the action, for `_core.open_recorder`."""
        return self._chosen.settings

    def observe(self, scale: float | None, loss: float) -> list[Alarm]:
        """Evaluates the rules on the step that just finished, and logs its alarms.

        Raises:
          AlarmError: If a rule raised an alarm and the action is ``stop``.
        """
        self.step += 1
        observed = self._chosen.observe(self._program, self.step, scale, loss)
        found = as_alarms(observed)
        chosen = self._chosen
        report(found, chosen.action, chosen.policy, isLogged=self.isLogged)
        return found
