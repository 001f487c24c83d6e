"""Reads files that describe how ranks are connected: ``binade plan --fabric FILE``.

docs/Planning.md lists the keys.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from binade.errors import RejectedError, UsageError, reading
from binade.parser import suggest
from binade.planning.collectives import STEPS, Level
from binade.planning.failures import Failures

SHIPPED = Path(__file__).parent / "fabrics"
GB = 1e9
GIB = 2.0**30


@dataclasses.dataclass(frozen=True)
class Fabric:
    """The links between ranks, what each rank is, and how often it fails.

    Attributes:
      levels: The innermost level first.
      costs: A table of ``binade costs``, or a file of ``binade costs --measure``, which predicts
        the time of a step; empty if the file has none.
      memory: Bytes of memory of a rank; infinite if the file has none.
      failures: None if the file has no rate of failures.
    """

    name: str
    levels: tuple[Level, ...]
    costs: str = ""
    memory: float = math.inf
    failures: Failures | None = None


def list_shipped() -> list[str]:
    """Returns the names of the fabrics that Binade ships."""
    return sorted(path.stem for path in SHIPPED.glob("*.yaml"))


def read_fabric(name: str) -> Fabric:
    """Reads a fabric file, or one that Binade ships.

    Raises:
      UsageError: If no shipped fabric has the name.
      RejectedError: If the file is missing or invalid; the message names the line.
      FileError: If the system refuses to read it.
    """
    path = Path(name)
    if path.suffix not in (".yaml", ".yml"):
        names = list_shipped()
        if name not in names:
            raise UsageError(
                f"--fabric: expected a .yaml file or one of {', '.join(names)}, got "
                f"'{name}'{suggest(name, names)}"
            )
        path = SHIPPED / f"{name}.yaml"
    with reading(path):
        text = path.read_bytes()
    return _Reader(path).read(text)


# --- Values -----------------------------------------------------------------------------

_Check = Callable[[Any], Any]


def _number(factor: float = 1, least: float = 0, strict: bool = True) -> _Check:
    bound = f"above {least:g}" if strict else f"from {least:g} on"

    def check(value: Any) -> float:
        isNumber = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not isNumber or not math.isfinite(value) or value < least:
            raise ValueError(f"a number {bound}")
        if strict and value == least:
            raise ValueError(f"a number {bound}")
        return value * factor

    return check


def _count(least: int) -> _Check:
    def check(value: Any) -> int:
        if type(value) is not int or value < least:
            raise ValueError(f"an integer from {least} on")
        return value

    return check


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("a text")
    return value


def _algorithms(value: Any) -> tuple[str, ...]:
    names = value if isinstance(value, list) else [value]
    if not names or not all(name in STEPS for name in names):
        raise ValueError(f"a list of {', '.join(STEPS)}")
    return tuple(names)


LEVEL_KEYS: dict[str, tuple[str, _Check]] = {
    "name": ("name", _text),
    "size": ("size", _count(2)),
    "latency_us": ("latency", _number(1e-6, strict=False)),
    "bandwidth_gb_per_s": ("bandwidth", _number(GB)),
    "ranks_at_once": ("at_once", _count(1)),
    "wakeup_us": ("wakeup", _number(1e-6, strict=False)),
    "algorithms": ("algorithms", _algorithms),
}
FAILURE_KEYS: dict[str, tuple[str, _Check]] = {
    "rank_hours": ("rank_seconds", _number(3600)),
    "save_s": ("save", _number()),
    "restart_s": ("restart", _number(strict=False)),
}
FABRIC_KEYS: dict[str, tuple[str, _Check]] = {
    "name": ("name", _text),
    "costs": ("costs", _text),
    "memory_gib": ("memory", _number(GIB)),
}
REQUIRED = {
    "a fabric": ("name", "levels"),
    "a level": ("name", "latency_us", "bandwidth_gb_per_s"),
    "failures": ("rank_hours", "save_s"),
}


# --- The file ---------------------------------------------------------------------------


class _Reader:
    """Reads one file; errors name its lines."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, text: bytes) -> Fabric:
        try:
            root = yaml.compose(text, yaml.SafeLoader)
        except (yaml.YAMLError, RecursionError) as error:
            mark = getattr(error, "problem_mark", None)
            raise self._fail(
                mark, f"not YAML: {getattr(error, 'problem', None) or error}"
            ) from error
        if root is None:
            raise self._fail(None, "expected a fabric, and the file is empty")
        keys = self._split(root, "a fabric", {*FABRIC_KEYS, "levels", "failures"})
        levels = keys.pop("levels")
        failures = keys.pop("failures", None)
        found = self._convert(keys, FABRIC_KEYS)
        if not isinstance(levels, yaml.SequenceNode) or not levels.value:
            raise self._fail(levels.start_mark, "'levels': expected a list of levels")
        if failures is not None:
            known = self._split(failures, "failures", set(FAILURE_KEYS))
            found["failures"] = Failures(**self._convert(known, FAILURE_KEYS))
        costs = found.get("costs", "")
        if costs.endswith((".yaml", ".yml")):
            found["costs"] = str(self.path.parent / costs)
        return Fabric(levels=tuple(self._read_levels(levels.value)), **found)

    def _read_levels(self, nodes: list[yaml.Node]) -> list[Level]:
        levels = []
        for number, node in enumerate(nodes, start=1):
            keys = self._split(node, "a level", set(LEVEL_KEYS))
            isLast = number == len(nodes)
            if isLast and "size" in keys:
                raise self._fail(
                    keys["size"].start_mark,
                    "'size': expected none in the last level, which connects all ranks",
                )
            if not isLast and "size" not in keys:
                raise self._fail(
                    node.start_mark,
                    "a level has no 'size', the number of ranks or groups that it "
                    "connects; only the last level has none",
                )
            if "wakeup_us" in keys and "ranks_at_once" not in keys:
                raise self._fail(
                    keys["wakeup_us"].start_mark,
                    "'wakeup_us': expected 'ranks_at_once', the number above which ranks wait "
                    "to run",
                )
            levels.append(Level(**{"size": 0, **self._convert(keys, LEVEL_KEYS)}))
        return levels

    def _split(self, node: yaml.Node, what: str, known: set[str]) -> dict[str, Any]:
        """Returns the nodes of the values of a mapping by their keys."""
        if not isinstance(node, yaml.MappingNode):
            raise self._fail(node.start_mark, f"expected {what}, which is a mapping")
        found: dict[str, yaml.Node] = {}
        for key, value in node.value:
            name = str(key.value)
            if name not in known:
                raise self._fail(
                    key.start_mark,
                    f"{what} has no key '{name}'{suggest(name, known)}; expected "
                    f"{', '.join(sorted(known))}",
                )
            if name in found:
                raise self._fail(key.start_mark, f"'{name}': is given twice")
            found[name] = value
        for name in REQUIRED[what]:
            if name not in found:
                raise self._fail(node.start_mark, f"{what} has no '{name}'")
        return found

    def _convert(
        self, nodes: dict[str, yaml.Node], keys: dict[str, tuple[str, _Check]]
    ) -> dict[str, Any]:
        found = {}
        for key, node in nodes.items():
            name, check = keys[key]
            try:
                value = yaml.SafeLoader("").construct_object(node, deep=True)
            except yaml.YAMLError:
                value = node.tag
            try:
                found[name] = check(value)
            except ValueError as error:
                raise self._fail(
                    node.start_mark, f"'{key}': expected {error}, got {value!r}"
                ) from error
        return found

    def _fail(self, mark: Any, message: str) -> RejectedError:
        line = mark.line + 1 if mark else 1
        return RejectedError(
            f"{self.path}:{line}: error: {message}",
            where=str(self.path), part=f"line {line}", message=message,
        )  # fmt: skip


# --- Writing ----------------------------------------------------------------------------


def write_fabric(fabric: Fabric, comment: str) -> str:
    """Returns the text of a file with the levels of a fabric, of which ``read_fabric`` makes the
    same levels up to rounding. Each line of ``comment`` becomes a comment."""
    lines = [f"# {line}".rstrip() for line in comment.splitlines()]
    lines.append(f"name: {fabric.name}")
    if fabric.costs:
        lines.append(f"costs: {fabric.costs}")
    lines.append("levels:")
    for level in fabric.levels:
        lines.append(f"- name: {level.name}")
        if level.size:
            lines.append(f"  size: {level.size}")
        lines.append(f"  latency_us: {level.latency * 1e6:.4g}")
        lines.append(f"  bandwidth_gb_per_s: {level.bandwidth / GB:.4g}")
        if level.at_once:
            lines.append(f"  ranks_at_once: {level.at_once}")
            if level.wakeup:
                lines.append(f"  wakeup_us: {level.wakeup * 1e6:.4g}")
        if level.algorithms != tuple(STEPS):
            lines.append(f"  algorithms: [{', '.join(level.algorithms)}]")
    return "\n".join(lines) + "\n"
