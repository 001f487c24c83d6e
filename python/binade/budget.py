"""Parses ``--budget`` of ``binade search``: ``memory=70%,time=5ms``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from binade.errors import UsageError

# Factors that convert a unit to bytes (memory) or milliseconds (time).
UNITS = {
    "memory": {"": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30},
    "time": {"ms": 1, "s": 1e3},
}
_FORM = re.compile(r"(?P<number>[0-9.]+(?:e[0-9]+)?)\s*(?P<unit>%|[A-Za-z]*)")


@dataclass(frozen=True)
class Limit:
    """The limit of one resource: a number and its unit."""

    number: float
    unit: str

    def resolve(self, resource: str, reference: float) -> float:
        """Returns the limit in bytes or milliseconds; a percentage is relative to
        `reference`, the memory or time of fp32."""
        if self.unit == "%":
            return reference * self.number / 100
        return self.number * UNITS[resource][self.unit]


def parse_budget(text: str) -> dict[str, Limit]:
    """Parses ``RESOURCE=LIMIT,...`` and returns the limit of each resource.

    Raises:
      UsageError: If it is not a budget; the text says which part.
    """

    def fail(why: str) -> UsageError:
        return UsageError(
            f"--budget '{text}': {why}; write memory=70%, of what fp32 takes, memory=24MiB, "
            "time=5ms or time=90%, or both with a comma between"
        )

    limits: dict[str, Limit] = {}
    for part in text.split(","):
        resource, equals, limit = (piece.strip() for piece in part.partition("="))
        if resource not in UNITS or not equals:
            raise fail(f"'{part.strip()}' is not a limit of memory or time")
        if resource in limits:
            raise fail(f"two limits of {resource}")
        found = _FORM.fullmatch(limit)
        units = ("%", *UNITS[resource])
        if not found or found["unit"] not in units:
            known = ", ".join(unit for unit in units if unit)
            raise fail(f"'{limit}' is not a number with a unit of {known}")
        try:
            number = float(found["number"])
        except ValueError:
            raise fail(f"'{limit}' is not a number") from None
        if not number > 0:
            raise fail(f"'{limit}' leaves nothing")
        limits[resource] = Limit(number, found["unit"])
    return limits
