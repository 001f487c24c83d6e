"""Which statistics of which values a loop records, and in which steps."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence

from binade import _core
from binade.errors import UsageError
from binade.options import as_texts

_LOG = logging.getLogger("binade")

# Kinds of values, as `binade list stats` explains them.
WEIGHTS = ("weight", "narrow_weight")
GRADIENTS = ("gradient", "scaled_gradient")
OUTPUT_GRADIENTS = ("output_gradient", "scaled_output_gradient")
FORWARD = ("input", "output", *OUTPUT_GRADIENTS)
# Statistics of the effect of an update, and what a loop lacks for others.
OF_UPDATE = ("lost", "update_ratio")
_MISSING = {
    "sqnr": "a loop of PyTorch does not show which cast reads a value; 'underflow(FORMAT)' "
    "and 'overflow(FORMAT)' say what a format loses, and a step that "
    "binade.torch.capture compiles has 'sqnr'",
    "excess": "only a compiled step has histories of delayed scales",
    "room": "only a compiled step has histories of delayed scales",
    "source": "only a compiled step has histories of delayed scales",
}
_ABSENT = {
    "saved": "PyTorch does not name the values that it saves for the backward pass",
    "history": "only a compiled step has histories of delayed scales",
}


def list_absent(optimizer: object, scaler: object, isScaling: bool) -> dict[str, str]:
    """Returns the kinds of values that a loop lacks, with the reasons.

    Args:
      optimizer: The argument of ``monitor``.
      scaler: The argument of ``monitor``.
      isScaling: Whether the scaler is enabled.
    """
    absent = dict(_ABSENT)
    if optimizer is None:
        absent["state"] = "the argument 'optimizer' is missing"
    if scaler is None:
        absent["scale"] = "the argument 'scaler' is missing"
    elif not isScaling:
        absent["scale"] = "the argument 'scaler' is a GradScaler that is not enabled"
    return absent


@dataclasses.dataclass
class _Request:
    """A request, and whether it has to match a value."""

    text: str
    parsed: _core.StatisticsRequest
    every: int
    isRequired: bool
    matched: bool = False


class Requests:
    """The requests of a user and of alarm rules.

    Args:
      statistics: Requests of the user, as for ``--stats``.
      every: The interval in steps of those that have none.
      ofRules: Requests of alarm rules, which need not match a value.
      absent: Kinds of values that this loop lacks, with the reasons.
      isScaling: Whether a scaler is enabled; `*` includes scaled gradients only then.

    Raises:
      UsageError: If a request of the user is wrong, or is about values or statistics that
        this loop lacks.
    """

    def __init__(
        self,
        statistics: str | Sequence[str],
        every: int,
        ofRules: Sequence[str],
        absent: Mapping[str, str],
        isScaling: bool = True,
    ) -> None:
        self._absent = absent
        self._repeated = () if isScaling else (GRADIENTS[1], OUTPUT_GRADIENTS[1])
        self._hasSkipped = False  # Whether a value that rules watch was rejected.
        texts = as_texts(statistics, "statistics")
        own = _core.parse_requests(texts, "statistics")
        for text, parsed in zip(texts, own):
            self._check(text, parsed)
        self._requests = [
            _Request(text, parsed, parsed.every if "@" in text else every, True)
            for text, parsed in zip(texts, own)
        ] + [
            _Request(text, parsed, parsed.every, False)
            for text, parsed in zip(
                ofRules, _core.parse_requests(list(ofRules), "alarms")
            )
        ]
        self._due: list[_Request] = []
        self._key: tuple[int, ...] = ()
        self._known: dict[tuple[tuple[int, ...], str, str], tuple[str, ...]] = {}

    def _check(self, text: str, parsed: _core.StatisticsRequest) -> None:
        named = {one.split("/")[0] for one in text.rsplit(":", 1)[0].split(",")}
        for kind in sorted(named & set(self._absent)):
            raise UsageError(
                f"statistics '{text}': this loop has no values of kind '{kind}': "
                f"{self._absent[kind]}"
            )
        for statistic in parsed.statistics:
            name = statistic.split("(")[0]
            if name in _MISSING:
                raise UsageError(
                    f"statistics '{text}': no value of a loop has '{name}': "
                    f"{_MISSING[name]}"
                )
            if name not in OF_UPDATE:
                continue
            if not set(WEIGHTS) & set(parsed.kinds):
                raise UsageError(
                    f"statistics '{text}': only values of kind 'weight' and "
                    f"'narrow_weight' have '{name}'"
                )
            if "state" in self._absent:
                raise UsageError(
                    f"statistics '{text}': '{name}' compares weights before and after "
                    f"an update: {self._absent['state']}"
                )

    def begin(self, step: int) -> bool:
        """Begins a step. Returns whether statistics are due in it."""
        due = [i for i, one in enumerate(self._requests) if step % one.every == 0]
        self._key = tuple(due)
        self._due = [self._requests[i] for i in due]
        return bool(due)

    def covers(self, kind: str, layer: str) -> bool:
        """Whether any request, due or not, is about a value."""
        return any(self._matches(one, kind, layer) for one in self._requests)

    def _matches(self, request: _Request, kind: str, layer: str) -> bool:
        return request.parsed.matches(kind, layer, kind in self._repeated)

    def reject(
        self, kind: str, layer: str, statistics: Collection[str] | None, fault: str
    ) -> None:
        """Rejects a value of which statistics cannot be computed. Alarm rules skip it, with
        one warning for all values.

        Args:
          kind: The kind of the value.
          layer: Its name.
          statistics: Those that cannot be computed; None for all.
          fault: Says why.

        Raises:
          UsageError: If a request of the user is about these statistics.
        """
        for one in self._requests:
            isMeant = statistics is None or not set(statistics).isdisjoint(
                one.parsed.statistics
            )
            if one.isRequired and isMeant and self._matches(one, kind, layer):
                raise UsageError(
                    f"{fault}; statistics '{one.text}' are about it: exclude it by a glob, "
                    f"such as '{kind}/[!{layer[0]}]*:norm'"
                )
        if not self._hasSkipped:
            self._hasSkipped = True
            _LOG.warning(
                'alarm rules skip such values: %s; alarms="off" switches the rules off',
                fault,
            )

    def needs(self, kinds: Iterable[str]) -> bool:
        """Whether a request that is due is about one of these kinds."""
        return any(kind in one.parsed.kinds for one in self._due for kind in kinds)

    def find(self, kind: str, layer: str) -> tuple[str, ...]:
        """Returns the statistics of a value that are due."""
        key = (self._key, kind, layer)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._match(kind, layer)
        return found

    def _match(self, kind: str, layer: str) -> tuple[str, ...]:
        if kind in self._absent:
            return ()
        names: dict[str, None] = {}
        for request in self._due:
            if not self._matches(request, kind, layer):
                continue
            request.matched = True
            for name in request.parsed.statistics:
                base = name.split("(")[0]
                if base not in _MISSING and (base not in OF_UPDATE or kind in WEIGHTS):
                    names[name] = None
        return tuple(names)

    def end(self) -> None:
        """Warns, once, of each request of the user that was due and matched no value. The
        states of an optimizer may not exist before its first step."""
        for request in self._due:
            if request.matched or not request.isRequired:
                continue
            if request.parsed.kinds == ["state"] and request.every == 1:
                continue
            request.matched = True
            _LOG.warning(
                "statistics '%s' matched no value of the step; layers are names of "
                "parameters and paths of modules",
                request.text,
            )
