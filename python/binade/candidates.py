"""Policies that a search can try: a policy as it is, changed in what it keeps of states and
of activations, and in how many layers it leaves wide.

How many of the activations are saved for backward, and not recomputed there, is an
option of training: a policy does not say it.

What is left wide first is what a step shows to be most sensitive: the layers whose ops
introduce the largest errors, as ``binade shadow`` measures them.
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

OWN = "policy"  # As the policy has it; of saved values: all of them.
# Of the layers that have a narrow format; the most sensitive ones.
WIDE = (0.0, 0.125, 0.25, 0.5)


@dataclass(frozen=True)
class Choice:
    """A point of the space."""

    policy: str  # A name, or the path of a file.
    states: str = OWN  # A format.
    saved: str = OWN  # A format.
    kept: str = OWN  # Saved values, in the form of ``--budget`` of ``binade train``.
    wide: float = 0.0  # One of WIDE.

    @property
    def name(self) -> str:
        """One that a file can have."""
        parts = [Path(self.policy).stem]
        parts += [f"states-{self.states}"] if self.states != OWN else []
        parts += [f"saved-{self.saved}"] if self.saved != OWN else []
        parts += [f"kept-{self.kept.rstrip('%')}"] if self.kept != OWN else []
        parts += [f"wide-{100 * self.wide:g}"] if self.wide else []
        return "_".join(parts).replace(":", "-")

    def as_dict(self) -> dict[str, Any]:
        """By axis."""
        return asdict(self)

    @property
    def words(self) -> list[str]:
        """Options of training in addition to the policy."""
        return ["--budget", self.kept] if self.kept != OWN else []

    def rules(self, sensitive: Sequence[Unit]) -> list[Rule]:
        """What is added to the policy; `sensitive` are its layers, the worst first."""
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
    """What is chosen from."""

    policies: Sequence[str]
    states: Sequence[str]
    saved: Sequence[str]
    kept: Sequence[str]

    def axes(self) -> dict[str, list[Any]]:
        """What the fields of a ``Choice`` can be."""
        return {
            "policy": list(self.policies), "states": [OWN, *self.states],
            "saved": [OWN, *self.saved], "kept": [OWN, *self.kept], "wide": list(WIDE),
        }  # fmt: skip

    def list_first(self) -> list[Choice]:
        """What a search begins with: the policies as they are, each with fewer saved values,
        which changes no bit as long as values can be recomputed, and each with all formats
        that save memory."""
        first = [Choice(policy) for policy in self.policies]
        first += [Choice(policy, kept=kept)
                  for policy in self.policies for kept in self.kept[:1]]  # fmt: skip
        if self.states or self.saved:
            states, saved = (self.states or [OWN])[0], (self.saved or [OWN])[0]
            first += [Choice(policy, states, saved) for policy in self.policies]
        return first


def list_sensitive(report: Mapping[str, Any]) -> list[Unit]:
    """The layers of a trace that have a narrow format, the largest error first.

    States are chosen by their formats, not layer by layer.
    """
    suspects = [e for e in list_suspects(dict(report)) if e["phase"] != "optimizer"]
    return make_units(suspects, by_layer)
