"""Settings of parameter groups, by the names of PyTorch and of a rule."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

from binade.errors import UsageError

# How PyTorch's optimizers are executed, which changes no value here.
_IGNORED = ("foreach", "fused", "capturable", "decoupled_weight_decay")
# What PyTorch's optimizers have, and no rule.
_REFUSED = ("maximize", "differentiable")
_BETA = re.compile(r"beta\d")


def check_arguments(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings without those that only say how PyTorch's optimizers run.

    Raises:
      UsageError: If one asks for what no rule does.
    """
    for name in _REFUSED:
        if settings.get(name):
            raise UsageError(f"no rule has '{name}'; leave it out")
    dropped = (*_IGNORED, *_REFUSED)
    return {name: value for name, value in settings.items() if name not in dropped}


def list_settings(group: Mapping[str, Any]) -> Iterator[tuple[str, str, int | None]]:
    """What a rule calls the entries of a group: its name, the key in the group, and the
    place in a tuple (``betas``)."""
    for key, value in group.items():
        if key == "params":
            continue
        if isinstance(value, (tuple, list)):
            stem = "beta" if key == "betas" else key
            yield from ((f"{stem}{i + 1}", key, i) for i in range(len(value)))
        else:
            yield key, key, None


def _read(group: Mapping[str, Any], key: str, index: int | None) -> Any:
    value = group[key] if index is None else group[key][index]
    return value if isinstance(value, str) else float(value)


def name_settings(
    group: Mapping[str, Any], known: Collection[str] | None
) -> dict[str, float | str]:
    """A group's settings as a rule calls them.

    Args:
      group: Keys of schedulers in it are not settings.
      known: What the rule has; without, all are settings.
    """
    return {
        name: _read(group, key, index)
        for name, key, index in list_settings(group)
        if known is None or name in known
    }


class GroupSettings:
    """The settings of a step, which follow those of its groups.

    A step numbers its groups as it finds them, and takes those together that begin
    alike. So each is compiled with a rate that tells which one it is.
    """

    def __init__(
        self, settings: MutableMapping[str, float], groups: Sequence[dict[str, Any]]
    ) -> None:
        """Gives the groups what they do not set: the rule's defaults.

        Args:
          settings: Of a step whose groups were compiled with ``mark``.
          groups: In the same order.
        """
        self._settings = settings
        self._written = dict(settings)
        self._places: list[tuple[dict[str, Any], str, int | None, str]] = []
        defaults: list[dict[str, float]] = [{} for _ in groups]
        names = []
        for setting, value in settings.items():
            name, at, digits = setting.partition("@")
            number = int(settings[f"lr{at}{digits}"]) - 1
            names.append((number, name, setting))
            if name != "lr":
                defaults[number][name] = value
        for group, values in zip(groups, defaults):
            _complete(group, values)
        places = [
            {name: (key, index) for name, key, index in list_settings(group)}
            for group in groups
        ]
        for number, name, setting in names:
            key, index = places[number][name]
            self._places.append((groups[number], key, index, setting))

    @staticmethod
    def mark(number: int) -> dict[str, float]:
        """The rate of a group while it is compiled."""
        return {"lr": number + 1.0}

    def known(self) -> set[str]:
        """The names of the rule's settings."""
        return {setting.partition("@")[0] for setting in self._written}

    def write(self) -> None:
        """Lets the step have what the groups say now."""
        for group, key, index, setting in self._places:
            value = _read(group, key, index)
            if value != self._written[setting]:
                self._settings[setting] = self._written[setting] = value


def _complete(group: dict[str, Any], defaults: Mapping[str, float]) -> None:
    """Sets what a group does not: betas as PyTorch has them, unless one is given by
    itself."""
    given = {name for name, _, _ in list_settings(group)}
    betas = [name for name in defaults if _BETA.fullmatch(name)]
    if len(betas) > 1 and not given.intersection(betas):
        group["betas"] = tuple(defaults[name] for name in betas)
        given.update(betas)
    for name, value in defaults.items():
        if name not in given:
            group[name] = value
