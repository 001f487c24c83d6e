"""The candidates of ``binade search``: variants of a policy.

A variant changes the formats of optimizer states and of tensors saved for backward, and
the share of layers that stay in f32. The most sensitive layers stay in f32 first: those
whose ops introduce the largest errors, which ``binade shadow`` measures.

The share of saved tensors that are kept, and not recomputed in the backward pass, is an
option of ``binade train`` (``--activation-memory``) and not part of a policy.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from binade import overrides
from binade.overrides import Rule
from binade.units import Unit, by_layer, list_suspects, make_units

OWN = "policy"  # The policy's own choice; for saved tensors: keep all of them.
# Shares of the layers with a narrow format that stay in f32, the most sensitive first.
WIDE = (0.0, 0.125, 0.25, 0.5)


@dataclass(frozen=True)
class Choice:
    """A point of the search space."""

    policy: str  # A name, or the path of a file.
    states: str = OWN  # A format.
    saved: str = OWN  # A format.
    kept: str = OWN  # ``--activation-memory`` of ``binade train``.
    wide: float = 0.0  # One of WIDE.

    @property
    def name(self) -> str:
        """A name that is valid as a file name."""
        parts = [Path(self.policy).stem]
        parts += [f"states-{self.states}"] if self.states != OWN else []
        parts += [f"saved-{self.saved}"] if self.saved != OWN else []
        parts += [f"kept-{self.kept.rstrip('%')}"] if self.kept != OWN else []
        parts += [f"wide-{100 * self.wide:g}"] if self.wide else []
        return "_".join(parts).replace(":", "-")

    def as_dict(self) -> dict[str, Any]:
        """The values by the name of their axis."""
        return asdict(self)

    @property
    def words(self) -> list[str]:
        """Options of training in addition to the policy."""
        return ["--activation-memory", self.kept] if self.kept != OWN else []

    def rules(self, sensitive: Sequence[Unit]) -> list[Rule]:
        """Returns the rules to add to the policy; `sensitive` are its layers by falling
        error."""
        rules: list[Rule] = []
        if self.states != OWN:
            match: dict[str, Any] = {"op": "optimizer_update"}
            rules.append({"match": match, "state": self.states})
        if self.saved != OWN:
            match = {"phase": "forward"}
            rules.append({"match": match, "saved": self.saved, "optional": True})
        for unit in sensitive[: math.ceil(self.wide * len(sensitive))]:
            rules += unit.rules()
        return overrides.merge_phases(rules)


@dataclass(frozen=True)
class Space:
    """The search space: the values of each axis."""

    policies: Sequence[str]
    states: Sequence[str]
    saved: Sequence[str]
    kept: Sequence[str]

    def axes(self) -> dict[str, list[Any]]:
        """Returns the possible values of each field of ``Choice``."""
        return {
            "policy": list(self.policies), "states": [OWN, *self.states],
            "saved": [OWN, *self.saved], "kept": [OWN, *self.kept], "wide": list(WIDE),
        }  # fmt: skip

    def list_first(self) -> list[Choice]:
        """Returns the first candidates: each policy unchanged, with fewer saved values (the
        same bits as long as values can be recomputed), and with the first formats for states
        and saved values."""
        first = [Choice(policy) for policy in self.policies]
        first += [Choice(policy, kept=kept)
                  for policy in self.policies for kept in self.kept[:1]]  # fmt: skip
        if self.states or self.saved:
            states, saved = (self.states or [OWN])[0], (self.saved or [OWN])[0]
            first += [Choice(policy, states, saved) for policy in self.policies]
        return first


def list_sensitive(report: Mapping[str, Any]) -> list[Unit]:
    """Returns the layers of a trace that have a narrow format, the largest error first.

    Optimizer states are left out: the search varies their format for all layers at once.
    """
    suspects = [e for e in list_suspects(dict(report)) if e["phase"] != "optimizer"]
    return make_units(suspects, by_layer)
