"""Records weights, their updates and the states of an optimizer."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from binade.torch.loading import COMMON, COMPANIONS, name_state
from binade.torch.monitoring.programs import Programs, Quantized
from binade.torch.monitoring.requests import OF_UPDATE, WEIGHTS, Requests
from binade.torch.optimizer import Optimizer
from binade.torch.update import ELEMENTS, QuantizedState


def list_groups(
    optimizer: torch.optim.Optimizer | None,
) -> dict[torch.Tensor, dict[str, Any]]:
    """Returns the parameters that an optimizer updates, with their groups."""
    groups = optimizer.param_groups if optimizer is not None else []
    return {parameter: group for group in groups for parameter in group["params"]}


def is_bare(
    optimizer: torch.optim.Optimizer | None,
    groups: Mapping[torch.Tensor, dict[str, Any]],
    parameter: torch.Tensor,
) -> bool:
    """Whether an optimizer updates a parameter of 16 bits that loses what rounding its
    update takes away. ``groups`` are those of ``list_groups``."""
    group = groups.get(parameter)
    if group is None or parameter.element_size() != 2:
        return False
    if not isinstance(optimizer, Optimizer):
        return True
    return group.get("master", optimizer._formats.master) in (None, "none")


class OptimizerValues:
    """Records weights before, and their changes after an update; also states. An update
    changes the parameters of its optimizer only: others have no statistics of updates.

    Args:
      optimizer: The optimizer; None if there is none.
      requests: Says what is due.
      programs: Computes statistics.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer | None,
        requests: Requests,
        programs: Programs,
    ) -> None:
        self._optimizer = optimizer
        self._requests = requests
        self._programs = programs
        # The parameters that the optimizer updates in this step, with their groups.
        self._groups: dict[torch.Tensor, dict[str, Any]] = {}
        # The parameters whose updates are recorded, and their values before.
        self._before: dict[str, dict[str, torch.Tensor]] = {}
        # The compiled update of Binade's optimizers, and its quantized states.
        self._update: object = None
        self._quantized: list[tuple[torch.Tensor, QuantizedState]] = []

    @torch.no_grad()
    def record_before(self, parameters: Mapping[str, torch.Tensor]) -> None:
        """Records values of trained parameters, by name, as the step begins. Call it before
        the update."""
        self._before.clear()
        self._groups = list_groups(self._optimizer)
        for name, parameter in parameters.items():
            wanted = self._find(name, parameter)
            if any(set(OF_UPDATE) & set(one) for one in wanted.values()):
                checks = [
                    self._programs.check(kind, name, statistics, parameter)
                    for kind, statistics in wanted.items()
                ]
                if not all(checks):
                    continue
                self._before[name] = {
                    key: value.clone() for key, value in self._list(parameter).items()
                }
                continue
            for kind, statistics in wanted.items():
                self._programs.record(kind, name, statistics, parameter)
        if self._requests.needs(["state"]):
            self._record_states(parameters)

    @torch.no_grad()
    def record_after(
        self, parameters: Mapping[str, torch.Tensor], isSkipped: bool
    ) -> None:
        """Records weights whose updates are due. Call it after the update.

        Args:
          parameters: Those of ``record_before``.
          isSkipped: Whether the step updated nothing.
        """
        for name, before in self._before.items():
            parameter = parameters[name]
            gradient = parameter.grad
            after = self._list(parameter)
            for kind, statistics in self._find(name, parameter).items():
                if isSkipped or gradient is None:
                    of_update = [one for one in statistics if one in OF_UPDATE]
                    others = tuple(one for one in statistics if one not in OF_UPDATE)
                    if others:
                        self._programs.record(kind, name, others, before["weight"])
                    self._programs.record_undefined(kind, name, of_update)
                    continue
                change = {"gradient": gradient, "after": after["weight"]}
                if "companion" in before:
                    change["companion"] = before["companion"]
                    change["companion_after"] = after["companion"]
                self._programs.record(
                    kind, name, statistics, before["weight"], change=change
                )
        self.forget()

    def forget(self) -> None:
        """Forgets the values before an update."""
        self._before.clear()

    def _find(self, name: str, parameter: torch.Tensor) -> dict[str, tuple[str, ...]]:
        """Returns the statistics of a weight that are due, by kind."""
        found = {kind: self._requests.find(kind, name) for kind in WEIGHTS}
        if found["narrow_weight"] and not is_bare(
            self._optimizer, self._groups, parameter
        ):
            del found["narrow_weight"]
        if parameter not in self._groups:
            found = {
                kind: tuple(one for one in statistics if one not in OF_UPDATE)
                for kind, statistics in found.items()
            }
        return {kind: statistics for kind, statistics in found.items() if statistics}

    def _list(self, parameter: torch.Tensor) -> dict[str, torch.Tensor]:
        """Returns a weight, and what preserves its small updates."""
        values = {"weight": parameter.detach()}
        if isinstance(self._optimizer, Optimizer):
            states = self._optimizer.state.get(parameter, {})
            for name in COMPANIONS:
                if name in states:
                    values["companion"] = states[name]
        return values

    def _record_states(self, parameters: Mapping[str, torch.Tensor]) -> None:
        quantized = self._find_quantized()
        for name, parameter in parameters.items():
            for key, value in self._list_states(parameter):
                layer = name_state(key, name)
                statistics = self._requests.find("state", layer)
                if not statistics:
                    continue
                coded = quantized.get((parameter, key))
                if coded is not None:
                    self._programs.record_quantized("state", layer, statistics, coded)
                elif value.dtype in ELEMENTS:
                    self._programs.record("state", layer, statistics, value)

    def _list_states(
        self, parameter: torch.Tensor
    ) -> Iterator[tuple[str, torch.Tensor]]:
        """Yields the states of a parameter that are tensors."""
        if self._optimizer is None:
            return
        for key, value in self._optimizer.state.get(parameter, {}).items():
            # Other libraries keep quantized states in subclasses of tensors.
            if key not in COMMON and type(value) is torch.Tensor and value.numel():
                yield key, value

    def _find_quantized(self) -> dict[tuple[torch.Tensor, str], Quantized]:
        """Returns the quantized states of Binade's optimizers."""
        optimizer = self._optimizer
        if not isinstance(optimizer, Optimizer):
            return {}
        if self._update is not optimizer._update:
            self._update = optimizer._update
            self._quantized = optimizer.list_quantized()
        found = {}
        for parameter, form in self._quantized:
            own = optimizer.state[parameter]
            parts = tuple((own[key], shape) for key, shape in form.parts.items())
            key = next(iter(form.parts))
            found[parameter, key] = Quantized(form.format, parts, form.shape)
        return found


# The function by which PyTorch replaces the method `step` of each class of optimizers.
_STEP_CODE = torch.optim.Optimizer.profile_hook_step(lambda: None).__code__


def is_nested(optimizer: torch.optim.Optimizer) -> bool:
    """Whether a method ``step`` calls that of its base class, which calls the hooks again.
    Call it from a hook of the optimizer."""
    frame, calls = inspect.currentframe(), 0
    while frame is not None and calls < 2:
        if frame.f_code is _STEP_CODE and frame.f_locals.get("self") is optimizer:
            calls += 1
        frame = frame.f_back
    return calls == 2
