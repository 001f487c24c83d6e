"""A compiled optimizer update whose parameters, gradients and states are PyTorch tensors."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from binade import _core, updates
from binade.errors import UsageError
from binade.options import make_options
from binade.ports import Ports, Settings
from binade.safetensors import DTYPES
from binade.torch.tensors import to_torch

# The element types of parameters and gradients.
ELEMENTS = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}
# What preserves updates that a 16-bit parameter loses (docs/Precision.md).
MASTERS = ("none", "f32", "split_round", "split_trunc", "kahan", "stochastic")
# Roles of ports that are PyTorch tensors; gradients are buffers.
_BOUND = ["parameter", "buffer", "state", "scaler"]
# ``exp_avg/NAME``, or with another part of its format, such as ``exp_avg/NAME.scale``.
# Names of parameters are two numbers.
_STATE = re.compile(r"(?P<state>\w+)/(?P<parameter>\d+\.\d+)(?P<part>(\.\w+)?)")

Tensors = Mapping[str, torch.Tensor]


@dataclasses.dataclass(frozen=True)
class Scaling:
    """What a gradient scaler passes to a step: f32 tensors with one element on the CPU.

    Attributes:
      scale: By which the gradients are divided.
      found_inf: Not 0 if a gradient is not finite, in which case nothing is updated.
    """

    scale: torch.Tensor
    found_inf: torch.Tensor


@dataclasses.dataclass
class _Ports:
    """Indices of the ports of one parameter."""

    parameter: int = -1
    gradient: int = -1
    states: dict[str, int] = dataclasses.field(default_factory=dict)


class Update:
    """A compiled update of parameters on the CPU, which writes to them in place.

    Attributes:
      states: The states of each parameter, by its name and theirs, such as ``exp_avg``.
        They have their initial values until the first run.
      settings: The hyper-parameters.
    """

    def __init__(
        self,
        parameters: Tensors,
        *,
        masters: Mapping[str, str],
        attributes: Mapping[str, str],
        policy: str | os.PathLike | Mapping[str, Any] = "fp32",
        threads: int = 0,
        **options: Any,
    ) -> None:
        """Compiles the update and creates the states.

        Args:
          parameters: The parameters, whose types are in ``ELEMENTS``, by names that are
            two numbers, such as ``0.1``. Master weights start from their values.
          masters: Of 16-bit parameters, one of ``MASTERS``.
          attributes: Attributes of the parameters in the IR.
          policy: As for ``binade.compile``: decides about states.
          threads: As for ``binade.compile``.
          options: As for ``binade.compile``: ``optimizer``, ``settings``, ``groups``,
            ``states``, ``clip``, ``on_nonfinite``.

        Raises:
          RejectedError: If the update cannot be compiled.
          UsageError: If the policy stores a parameter in another type than it has.
        """
        elements = {name: ELEMENTS[value.dtype] for name, value in parameters.items()}
        narrow = {name: kind for name, kind in elements.items() if kind != "f32"}
        text = updates.write_update(
            {name: tuple(value.shape) for name, value in parameters.items()},
            updates.KEPT,
            narrow_gradients=narrow,
            scalers=("scale", "found_inf"),
            attributes=attributes,
        )
        policy = _store_parameters(policy, narrow, masters)
        # Alarms would read parameters after their update.
        options["alarms"] = ["off"]
        with (
            make_options(policy, threads, options) as (_, compile_options),
            _without_warning("loses updates"),  # The optimizer has its own.
        ):
            compiled = _core.compile_update(text, compile_options)
        self._program = compiled.load("cpu", threads, 0, {}, _BOUND)
        self._ports = {name: _Ports() for name in parameters}
        self._scalers: dict[str, int] = {}
        self.states: dict[str, dict[str, torch.Tensor]] = {
            name: {} for name in parameters
        }
        for index, (role, name, dtype, shape) in enumerate(self._program.ports()):
            if role == "parameter":
                if parameters[name].numel():
                    _check_element(name, elements[name], dtype.lower())
                self._ports[name].parameter = index
            elif role == "buffer":
                name = name.removeprefix(updates.KEPT.prefix)
                self._ports[name].gradient = index
            elif role == "scaler":
                self._scalers[name] = index
            elif role == "state":
                self._add_state(index, name, _make_tensor(dtype, shape))
        self.settings = Settings(self._program)
        # Whether the states of some parameters are bound to copies.
        self._binds_copies = True
        self._start(parameters)

    def _add_state(self, index: int, name: str, state: torch.Tensor) -> None:
        found = _STATE.fullmatch(name)
        if not found:
            raise UsageError(f"the update has a state '{name}' of no parameter")
        key = found["state"] + found["part"]
        self._ports[found["parameter"]].states[key] = index
        self.states[found["parameter"]][key] = state

    def _start(self, parameters: Tensors) -> None:
        """Sets the states to their initial values."""
        memory, kept = [], []
        for name, ports in self._ports.items():
            value = parameters[name].detach().contiguous()
            kept.append(value)
            # Gradients are not read; all ports have to be bound.
            memory += [(ports.parameter, value), (ports.gradient, value)]
            memory += self._list_states(name, self.states[name])
        one, zero = (
            torch.tensor(value, dtype=torch.float32, device="cpu") for value in (1, 0)
        )
        none = Scaling(one, zero)
        self._bind([*memory, *self._list_scaling(none)])
        self._program.initialize(0)

    def ports(self, role: str) -> Ports:
        """Returns the tensors of this role in the program's own memory."""
        return Ports(self._program, role)

    @property
    def count(self) -> int:
        """The number of updates; skipped ones do not count."""
        return int(self._program.scalar("step", "step") or 0)

    @count.setter
    def count(self, count: int) -> None:
        self.ports("step").set("step", np.int64(count))

    @property
    def skipped(self) -> bool:
        """Whether the last run updated nothing because a gradient was not finite."""
        return bool(self.ports("metric")["found_inf"])

    @torch.no_grad()
    def run(self, parameters: Tensors, gradients: Tensors, scaling: Scaling) -> None:
        """Updates the parameters that have a gradient, and their states.

        Args:
          parameters: All parameters, with any strides.
          gradients: Gradients of some of them, which are not sparse.
          scaling: Of a gradient scaler, or 1 and 0.
        """
        memory, kept, written = [], [], []
        binds_copies = len(gradients) < len(self._ports)
        for name, ports in self._ports.items():
            parameter, gradient = parameters[name], gradients.get(name)
            states = self.states[name]
            value = parameter.detach().contiguous()
            if gradient is None:
                # The kernel updates all parameters: let it update copies of these.
                value, gradient = value.clone(), torch.zeros_like(value)
                states = {key: state.clone() for key, state in states.items()}
                kept.append(states)
            elif value.data_ptr() != parameter.data_ptr():
                written.append((parameter, value))
            if gradient.shape != value.shape:
                raise UsageError(
                    f"the gradient of parameter {name} has shape {list(gradient.shape)}; "
                    f"expected {list(value.shape)}"
                )
            gradient = gradient.detach().to(value.dtype).contiguous()
            kept += [value, gradient]
            memory += [(ports.parameter, value), (ports.gradient, gradient)]
            if binds_copies or self._binds_copies:
                memory += self._list_states(name, states)
        self._bind([*memory, *self._list_scaling(scaling)])
        self._program.run()
        self._binds_copies = binds_copies
        for parameter, value in written:
            parameter.copy_(value)

    def _list_states(
        self, name: str, states: Tensors
    ) -> list[tuple[int, torch.Tensor]]:
        indices = self._ports[name].states
        return [(index, states[key]) for key, index in indices.items()]

    def _list_scaling(self, scaling: Scaling) -> list[tuple[int, torch.Tensor]]:
        return [
            (index, getattr(scaling, name)) for name, index in self._scalers.items()
        ]

    def _bind(self, memory: Iterable[tuple[int, torch.Tensor]]) -> None:
        self._program.bind([(index, tensor.data_ptr()) for index, tensor in memory])


@contextlib.contextmanager
def _without_warning(text: str) -> Iterator[None]:
    """Suppresses warnings of the compiler that contain a text."""
    log = logging.getLogger("binade")

    def accepts(record: logging.LogRecord) -> bool:
        return text not in record.getMessage()

    log.addFilter(accepts)
    try:
        yield
    finally:
        log.removeFilter(accepts)


def _make_tensor(dtype: str, shape: Iterable[int]) -> torch.Tensor:
    """Returns a tensor of a port's type and shape."""
    kind = to_torch(np.zeros(0, DTYPES[dtype])).dtype
    return torch.zeros(tuple(shape), dtype=kind, device="cpu")


def _check_element(name: str, own: str, stored: str) -> None:
    if own != stored:
        raise UsageError(
            f"the policy stores parameter {name} as {stored}, and its tensor is {own}; "
            "leave 'parameter' out of the policy, and convert the module, for example by "
            "module.bfloat16()"
        )


def _store_parameters(
    policy: str | os.PathLike | Mapping[str, Any],
    elements: Mapping[str, str],
    masters: Mapping[str, str],
) -> str | os.PathLike | Mapping[str, Any]:
    """Returns a policy that extends `policy` and stores parameters in 16 bits.

    Args:
      policy: As for ``binade.compile``.
      elements: ``bf16`` or ``f16``, by parameter.
      masters: What preserves lost updates, by parameter.

    Raises:
      UsageError: If there are such parameters, and the policy is not ``fp32``.
    """
    if not elements:
        return policy
    if policy != "fp32":
        raise UsageError(
            "a policy and parameters of 16 bits: choose the formats of states by the "
            "argument 'states', and leave 'policy' out"
        )
    rules = []
    for name, element in elements.items():
        match = {"op": "optimizer_update", "name": name}
        # Nothing updates a parameter without elements.
        rule = {"match": match, "parameter": element, "optional": True}
        rules.append(
            rule if masters[name] == "none" else rule | {"master": masters[name]}
        )
    return {"name": "update", "extends": policy, "rules": rules}
