"""Checks and copies states that an optimizer loads."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from binade.errors import UsageError
from binade.torch.update import ELEMENTS

States = Mapping[str, torch.Tensor]

# States that all parameters share: the number of updates, and the position of the random
# number generator.
COMMON = ("step", "rng")
# States that preserve what the rounding of a parameter of 16 bits loses.
COMPANIONS = ("master", "remainder", "compensation", "residual")
# The code book or the element type of a format.
_ELEMENT = re.compile(r'#binade\.quantized<(?:#binade\.code_book<"([^"]*)"|(\w+))')
# A state that is not of the update, and may be missing.
NORMS = "gnorm_vec"


def list_own(states: States) -> dict[str, torch.Tensor]:
    """Returns the states that belong to one parameter. Without momentum, a state of
    PyTorch's SGD is None."""
    return {k: v for k, v in states.items() if k not in COMMON and v is not None}


def name_state(key: str, parameter: str) -> str:
    """Returns the name of a state as in a compiled step, such as
    ``exp_avg/fc.weight.scale``.

    Args:
      key: Its key in ``Optimizer.state``, such as ``exp_avg.scale``.
      parameter: The name of the parameter.
    """
    state, dot, part = key.partition(".")
    return f"{state}/{parameter}{dot}{part}"


def isPart(name: str, state: torch.Tensor) -> bool:
    """Whether a tensor belongs to a quantized state: codes, or scales and the like."""
    return "." in name or not state.is_floating_point()


def isOtherGrouping(own: States, given: States) -> bool:
    """Whether quantized states have another number of scales than an optimizer's own."""
    return any(
        state.numel() != own[name].numel()
        for name, state in given.items()
        if name.endswith(".scale") and name in own
    )


def check_form(name: str, own: States, given: States) -> None:
    """Checks that states have the names, shapes and types of an optimizer's own. Floats of
    16 bits or more are converted. The scales of all rows may be one after the other, as
    earlier versions wrote them.

    Args:
      name: The name of the parameter, for the error.
      own: The states of the optimizer.
      given: The states to load.

    Raises:
      UsageError: If they differ.
    """
    own, given = (
        {key: state for key, state in list_own(one).items() if key != NORMS}
        for one in (own, given)
    )
    expected = {key: tuple(state.shape) for key, state in own.items()}
    found = {
        key: expected[key]
        if key in own and _isFlattened(key, state, expected[key])
        else tuple(state.shape)
        for key, state in given.items()
    }
    if found == expected and all(
        _haveEqualTypes(own[key], state) for key, state in given.items()
    ):
        return
    raise UsageError(
        "the states are those of another rule, of other formats, or of other tensors: "
        f"parameter {name} has {expected}, got {found}"
    )


def _isFlattened(name: str, state: torch.Tensor, expected: tuple[int, ...]) -> bool:
    return "." in name and state.dim() == 1 and state.numel() == math.prod(expected)


def _haveEqualTypes(own: torch.Tensor, given: torch.Tensor) -> bool:
    wide = (torch.float64, *ELEMENTS)
    return own.dtype == given.dtype or (own.dtype in wide and given.dtype in wide)


def name_formats(formats: Iterable[str]) -> str:
    """Returns the code books and element types of formats, which are attributes of MLIR.
    Codes of one are not codes of another, although both may be int8."""
    names = {
        found[1] or found[2] for text in formats if (found := _ELEMENT.search(text))
    }
    return ", ".join(sorted(names))


def check_formats(own: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Checks that a group that is loaded has states in the formats of an optimizer's. Earlier
    versions did not write them.

    Raises:
      UsageError: If they differ.
    """
    expected, found = own.get("state_formats"), given.get("state_formats")
    if expected and found and expected != found:
        raise UsageError(
            f"the states are those of other formats: expected {expected}, got {found}"
        )


def copy_checked(own: States, given: States) -> None:
    """Copies states that ``check_form`` accepts, except the number of updates."""
    for name, value in given.items():
        if name in own and name != "step":
            target = own[name]
            if name == NORMS and value.shape != target.shape:
                continue
            same = value.shape == target.shape
            target.copy_(value if same else value.view(target.shape))


def copy_all(
    source: Mapping[torch.Tensor, States], target: Mapping[torch.Tensor, States]
) -> None:
    """Copies the states of parameters to states with the same names.

    Raises:
      UsageError: If shapes differ.
    """
    for parameter, states in source.items():
        for name, value in states.items():
            own = target[parameter].get(name)
            if own is None:
                continue
            if own.shape != value.shape:
                raise UsageError(
                    f"a parameter has another shape than before: its state '{name}' has "
                    f"{list(value.shape)}, expected {list(own.shape)}"
                )
            own.copy_(value)


def count_updates(states: Mapping[torch.Tensor, States]) -> int | None:
    """Returns the number of updates that states have; None if they do not say.

    Raises:
      UsageError: If they have different ones.
    """
    counts = {int(own["step"]) for own in states.values() if "step" in own}
    if len(counts) > 1:
        raise UsageError(
            f"the parameters were updated {sorted(counts)} times; expected one "
            "number for all"
        )
    return counts.pop() if counts else None


@dataclasses.dataclass
class Uncast:
    """The states of one parameter, which PyTorch does not convert to its type."""

    value: dict[str, Any]


def protect_from_casts(
    _: torch.optim.Optimizer, state_dict: dict[str, Any]
) -> dict[str, Any]:
    """Wraps states for PyTorch's ``load_state_dict``, as a hook that it calls first."""
    states = state_dict["state"]
    wrapped = {index: Uncast(dict(own)) for index, own in states.items()}
    return {**state_dict, "state": wrapped}
