"""Maps settings of PyTorch's parameter groups to the settings of an optimizer rule."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

from binade.errors import UsageError

# Arguments of PyTorch's optimizers that change no value here.
_IGNORED = ("foreach", "fused", "capturable", "decoupled_weight_decay")
# Arguments of PyTorch's optimizers that no rule supports.
_REFUSED = ("maximize", "differentiable")
# Entries of groups that are not settings: formats, for which the kernel is compiled, and
# what PyTorch and its schedulers store.
_OTHERS = (
    "params", "states", "master", "percentile_clipping", "state_formats", "param_names",
    "initial_lr", "name",
)  # fmt: skip
# Settings that a rule has only where they are given.
_ADDED = ("max_update_norm", "skip_zeros", "heads")
_BETA = re.compile(r"beta\d")


def check_arguments(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings without those that no rule has.

    Raises:
      UsageError: If one requests a function that no rule supports.
    """
    for name in _REFUSED:
        if settings.get(name):
            raise UsageError(f"no rule has '{name}'; leave it out")
    dropped = (*_IGNORED, *_REFUSED)
    return {name: value for name, value in settings.items() if name not in dropped}


def check_group(group: MutableMapping[str, Any]) -> None:
    """Removes the settings that no rule has from a parameter group, and renames those of
    other libraries.

    Raises:
      UsageError: If one requests a function that no rule supports.
    """
    kept = check_arguments(group)
    for name in set(group) - set(kept):
        del group[name]
    rename_settings(group)


def rename_settings(settings: MutableMapping[str, Any]) -> None:
    """Gives settings of bitsandbytes Binade's names, and drops those that change
    nothing."""
    if "max_unorm" in settings:
        settings["max_update_norm"] = settings.pop("max_unorm")
    if not settings.get("skip_zeros", True):
        del settings["skip_zeros"]


def list_compiled(group: Mapping[str, Any]) -> tuple[Any, ...]:
    """Returns what the kernel is compiled for; it cannot change between steps."""
    added = [name for name in _ADDED if name in group]
    added.append(group.get("heads"))
    kept = (group.get("percentile_clipping"), group.get("states"), group.get("master"))
    return (*kept, *added)


def list_settings(group: Mapping[str, Any]) -> Iterator[tuple[str, str, int | None]]:
    """Yields the settings of a group: the rule's name, the key in the group, and the index
    if the value is a tuple (``betas``)."""
    for key, value in group.items():
        if key in _OTHERS or value is None:
            continue
        if isinstance(value, (tuple, list)):
            stem = "beta" if key == "betas" else key
            yield from ((f"{stem}{i + 1}", key, i) for i in range(len(value)))
        else:
            yield key, key, None


def _get(group: Mapping[str, Any], key: str, index: int | None) -> Any:
    return group[key] if index is None else group[key][index]


def _read(group: Mapping[str, Any], key: str, index: int | None) -> Any:
    value = _get(group, key, index)
    return value if isinstance(value, str) else float(value)


def name_settings(
    group: Mapping[str, Any], known: Collection[str] | None
) -> dict[str, float | str]:
    """Returns a group's settings by the rule's names.

    Args:
      group: The group; it may have keys of schedulers, which are not settings.
      known: The rule's settings; None includes all entries of the group.
    """
    return {
        name: _read(group, key, index)
        for name, key, index in list_settings(group)
        if known is None or name in known or name in _ADDED
    }


class GroupSettings:
    """Copies the settings of PyTorch's groups to a step.

    The compiler numbers the groups of a step itself, and merges groups with equal initial
    settings. Each group is therefore compiled with a distinct learning rate (``mark``),
    which identifies it in the step.
    """

    def __init__(
        self, settings: MutableMapping[str, float], groups: Sequence[dict[str, Any]]
    ) -> None:
        """Adds the rule's defaults to the groups for settings that they lack.

        Args:
          settings: The settings of a step whose groups were compiled with ``mark``.
          groups: PyTorch's groups, in the order of their marks.
        """
        self._settings = settings
        self._known = list(settings)
        # What the step has; without a setting whose value the host does not know.
        self._written: dict[str, float] = dict(settings)
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
            complete_group(group, values)
        places = [
            {name: (key, index) for name, key, index in list_settings(group)}
            for group in groups
        ]
        for number, name, setting in names:
            key, index = places[number][name]
            self._places.append((groups[number], key, index, setting))

    @staticmethod
    def mark(number: int) -> dict[str, float]:
        """Returns the learning rate that identifies a group while it is compiled."""
        return {"lr": number + 1.0}

    def known(self) -> set[str]:
        """Returns the names of the rule's settings."""
        return {setting.partition("@")[0] for setting in self._known}

    def forget(self) -> None:
        """Lets the next ``write`` write all settings."""
        self._written.clear()

    def write(self) -> None:
        """Writes the groups' settings that changed to the step. Tensors on a CUDA device
        are copied in each step, because the host cannot compare them without waiting."""
        for group, key, index, setting in self._places:
            given = _get(group, key, index)
            if getattr(given, "is_cuda", False):
                self._settings[setting] = given
                self._written.pop(setting, None)
                continue
            value = _read(group, key, index)
            if value != self._written.get(setting):
                self._settings[setting] = self._written[setting] = value


def complete_group(
    group: MutableMapping[str, Any], defaults: Mapping[str, float]
) -> None:
    """Adds defaults to a group: as PyTorch's ``betas``, unless the group has one of the
    rule's beta settings."""
    given = {name for name, _, _ in list_settings(group)}
    betas = [name for name in defaults if _BETA.fullmatch(name)]
    if len(betas) > 1 and not given.intersection(betas):
        group["betas"] = tuple(defaults[name] for name in betas)
        given.update(betas)
    for name, value in defaults.items():
        if name not in given:
            group[name] = value
