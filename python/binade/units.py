"""Units of ``binade bisect``: decisions of a policy that are reverted to f32 together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from binade import overrides
from binade.overrides import Rule
from binade.shadow import rank

WHOLE = {
    "forward": {"match": {"phase": "forward"}, "class": "deny"},
    "backward": {"match": {"phase": "backward"}, "class": "deny"},
    "optimizer": {"match": {"op": "optimizer_update"}, "parameter": "f32",
                  "master": "none", "state": "f32"},
}  # fmt: skip
CALLED = {"forward": "forward part", "backward": "backward part", "optimizer": "states"}


@dataclass(frozen=True)
class Unit:
    """Decisions that are reverted to f32 together."""

    label: str
    # Phase and its nodes (in the optimizer: parameters); no nodes means all of them.
    parts: tuple[tuple[str, tuple[str, ...]], ...]

    def rules(self) -> list[Rule]:
        return [_write_rule(phase, nodes) for phase, nodes in self.parts]

    def covers(self, entry: dict[str, Any]) -> bool:
        return any(
            phase == entry["phase"] and (not nodes or entry["node"] in nodes)
            for phase, nodes in self.parts
        )


def _write_rule(phase: str, nodes: Sequence[str]) -> Rule:
    rule = WHOLE[phase]
    if not nodes:
        return rule
    names = [overrides.quote_glob(node) for node in nodes]
    glob = names[0] if len(names) == 1 else "{" + ",".join(names) + "}"
    return rule | {"match": {"name": glob} | rule["match"]}


def covered(units: Sequence[Unit], entries: Sequence[dict[str, Any]]) -> int:
    """Returns how many of the entries a unit covers."""
    return sum(any(unit.covers(entry) for unit in units) for entry in entries)


def collect_rules(units: Sequence[Unit]) -> list[Rule]:
    return [rule for unit in units for rule in unit.rules()]


def _is_narrow(entry: dict[str, Any]) -> bool:
    if entry["phase"] == "optimizer":
        return entry["decision"] != "f32, states f32"
    return (
        bool(entry["decision"]) and entry["decision"] != "f32" and bool(entry["node"])
    )


def list_suspects(report: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the entries with a narrow format, the largest error first."""
    return rank([entry for entry in report["errors"] if _is_narrow(entry)])


Key = tuple[str, str]  # A name, and a phase or "".


def by_layer(entry: dict[str, Any]) -> Key:
    """Returns the module in a node's name, or the node if it has none."""
    return entry["node"].rpartition("/")[0] or entry["node"], ""


def by_op(entry: dict[str, Any]) -> Key:
    return entry["node"], entry["phase"]


def make_units(
    suspects: Sequence[dict[str, Any]], key: Callable[[dict[str, Any]], Key]
) -> list[Unit]:
    """Returns a unit for each key, in the order of the suspects."""
    found: dict[Key, dict[str, dict[str, None]]] = {}
    for entry in suspects:
        phases = found.setdefault(key(entry), {})
        phases.setdefault(entry["phase"], {})[entry["node"]] = None
    return [
        Unit(
            f"{name} ({', '.join(phases)})",
            tuple((phase, tuple(nodes)) for phase, nodes in phases.items()),
        )
        for (name, _), phases in found.items()
    ]


def make_groups(phases: Sequence[str]) -> list[Unit]:
    return [Unit(CALLED[phase], ((phase, ()),)) for phase in phases]
