"""Arguments of bitsandbytes and torchao in terms of Binade's (docs/Migration.md)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from binade.errors import UsageError
from binade.torch.groups import rename_settings

_BITS = {8: "dyn8", 32: "f32"}
_BLOCKS = {256: "dyn8", 2048: "dyn8-2048"}
# Arguments whose default changes nothing, and what to do about other values.
_WITHOUT_EFFECT = {
    "args": (None, "pass the settings as arguments"),
    "block_wise": (True, "states have a scale for each block"),
    "initial_accumulator_value": (0, "set the states after the first step"),
    "is_paged": (False, "offload=True keeps states in the memory of the host"),
}


@dataclasses.dataclass(frozen=True)
class Formats:
    """Formats of an optimizer.

    Attributes:
      states: As for ``Optimizer``.
      master: As for ``Optimizer``.
      minimum: Parameters with fewer elements have f32 states; None for the default.
    """

    states: str | Sequence[str]
    master: str | None
    minimum: int | None = None


def translate(
    settings: Mapping[str, Any], formats: Formats
) -> tuple[dict[str, Any], Formats]:
    """Replaces the arguments of other libraries among the settings.

    Raises:
      UsageError: If an argument contradicts another, or has a value that Binade lacks.
    """
    settings = {name: value for name, value in settings.items() if value is not None}
    for name, (default, instead) in _WITHOUT_EFFECT.items():
        if settings.pop(name, default) != default:
            raise UsageError(f"'{name}' is {default} only: {instead}")
    states = _choose(settings, formats.states)
    master = formats.master
    if settings.pop("bf16_stochastic_round", False):
        if master not in (None, "stochastic"):
            raise UsageError(f"bf16_stochastic_round contradicts master={master!r}")
        master = "stochastic"
    rename_settings(settings)
    minimum = settings.pop("min_8bit_size", None)
    if minimum is not None and not isinstance(states, str):
        raise UsageError("min_8bit_size needs states in one format, such as 'dyn8'")
    return settings, Formats(states, master, minimum)


def _choose(settings: dict[str, Any], states: str | Sequence[str]) -> Any:
    """Returns the format of states, and removes the arguments that choose it."""
    for name, known in (("optim_bits", _BITS), ("block_size", _BLOCKS)):
        if name not in settings:
            continue
        value = settings.pop(name)
        if value not in known:
            numbers = " or ".join(map(str, known))
            raise UsageError(f"{name} is {numbers}, got {value!r}")
        if states and states != known[value]:
            raise UsageError(f"{name}={value} contradicts states={states!r}")
        states = known[value]
    return states
