"""What the compiler gets for the parameter groups of an optimizer."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from binade.errors import UsageError
from binade.options import as_texts
from binade.torch.aliases import Formats
from binade.torch.clipping import LENGTH
from binade.torch.update import ELEMENTS, MASTERS

Groups = Sequence[Mapping[str, Any]]
Names = Mapping[torch.Tensor, str]

# Options of ``binade.compile`` that an optimizer takes, and the replacements of others.
_OPTIONS = ("clip", "on_nonfinite", "policy", "save_kernels", "threads")
_ELSEWHERE = {
    "accumulate": "call step() once for several calls of backward(), which add their "
    "gradients up; divide the loss for their mean",
    "accumulate_in_momentum": "capture has it; here backward() adds gradients up",
    "decay": "settings of some parameters are those of a group in 'params'",
    "exchange": "it takes sharded parameters as they are (docs/Sharding.md)",
    "groups": "settings of some parameters are those of a group in 'params'",
    "optimizer": "the rule is the argument 'rule', or the class",
    "settings": "they are arguments: lr=1e-3, weight_decay=0.1",
    "states": "formats of states are the argument 'states'",
}


def list_masters(
    formats: Formats, groups: Groups, names: Names
) -> tuple[dict[str, str], set[torch.dtype]]:
    """Returns what preserves small updates of each parameter, by name, and the types of
    16 bits without a choice.

    Raises:
      UsageError: If there is no such choice.
    """
    masters: dict[str, str] = {}
    lossy: set[torch.dtype] = set()
    for group in groups:
        master = group.get("master", formats.master)
        if master not in (None, *MASTERS):
            raise UsageError(f"master is one of {', '.join(MASTERS)}, got {master!r}")
        own = [p for p in group["params"] if p in names]
        masters |= {names[p]: master or "none" for p in own}
        if master is None:
            lossy |= {p.dtype for p in own}
    return masters, lossy - {torch.float32}


def warn_of_lost_updates(kinds: set[torch.dtype]) -> None:
    """Warns that parameters of these types lose small updates."""
    warnings.warn(
        f"parameters in {' and '.join(sorted(map(str, kinds)))} lose updates of less than "
        "half a unit in their last place; master='f32', 'kahan' or 'stochastic' preserves "
        "them, and master='none' rounds without this warning",
        stacklevel=_count_own_frames(),
    )


def list_state_formats(
    formats: Formats, groups: Mapping[str, Mapping[str, Any]], names: Names
) -> list[str]:
    """Returns the formats of states, of which a later one overrides earlier ones.

    Args:
      formats: Those of all parameters.
      groups: Groups by a glob of the names of their parameters.
      names: The names of the parameters.
    """
    found = as_texts(formats.states or [], "states")
    if formats.minimum is not None and found:
        found = [
            f"{name}:{'f32' if p.numel() < formats.minimum else found[0]}"
            for p, name in names.items()
        ]
    for glob, group in groups.items():
        own = as_texts(group.get("states") or [], "states of a group")
        found += [f"{glob}:{format}" for format in own]
    return found


def list_percentiles(groups: Groups, names: Names) -> dict[torch.Tensor, int]:
    """Returns the percentile of norms by which the gradient of a parameter is clipped.

    Raises:
      UsageError: If it is not one.
    """
    percentiles: dict[torch.Tensor, int] = {}
    for group in groups:
        percentile = group.get("percentile_clipping", LENGTH)
        if not isinstance(percentile, int) or not 1 <= percentile <= LENGTH:
            raise UsageError(
                f"percentile_clipping is a whole number from 1 to {LENGTH}, got "
                f"{percentile!r}"
            )
        if percentile < LENGTH:
            own = [p for p in group["params"] if p in names]
            percentiles |= dict.fromkeys(own, percentile)
    return percentiles


def _count_own_frames() -> int:
    """Returns the stack level of the first caller outside of this package."""
    level, frame = 1, inspect.currentframe()
    while frame and "binade.torch" in frame.f_globals.get("__name__", ""):
        level, frame = level + 1, frame.f_back
    return level - 1


def check_type(name: str, parameter: torch.Tensor) -> None:
    """Raises a UsageError if a parameter has a type that no update has."""
    if parameter.dtype not in ELEMENTS:
        raise UsageError(
            f"parameter {name} is {parameter.dtype}; expected one of "
            f"{', '.join(map(str, ELEMENTS))}"
        )


def check_options(options: Any) -> None:
    """Raises a UsageError if an optimizer does not take these options."""
    if not isinstance(options or {}, Mapping):
        raise UsageError(
            f"options are a dictionary, such as {{'clip': 1.0}}, got {options!r}"
        )
    for name in options or {}:
        if name in _OPTIONS:
            continue
        why = _ELSEWHERE.get(name, f"it has {', '.join(_OPTIONS)}")
        raise UsageError(f"an optimizer has no option '{name}': {why}")
    clip = (options or {}).get("clip", 0)
    if isinstance(clip, bool) or not isinstance(clip, (int, float)) or not clip >= 0:
        raise UsageError(f"clip is the largest norm, or 0 for none; got {clip!r}")
