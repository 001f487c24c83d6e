"""A compiled optimizer update whose parameters, gradients and states are PyTorch tensors."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any

import numpy as np
import torch

from binade import _core, updates
from binade.errors import UsageError
from binade.options import make_options
from binade.safetensors import DTYPES
from binade.torch.devices import Device
from binade.torch.tensors import to_torch

# The element types of parameters and gradients.
ELEMENTS = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}
# What preserves updates that a 16-bit parameter loses (docs/Precision.md).
MASTERS = (
    "none", "f32", "split_round", "split_trunc", "split_8bit", "kahan", "residual",
    "stochastic",
)  # fmt: skip
# Roles of ports that are PyTorch tensors; gradients are buffers.
_BOUND = ["parameter", "buffer", "state", "scaler", "step", "rng", "hyper"]
# ``exp_avg/NAME``, or with another part of its format, such as ``exp_avg/NAME.scale``.
# Names of parameters are two numbers.
_STATE = re.compile(r"(?P<state>\w+)/(?P<parameter>\d+\.\d+)(?P<part>(\.\w+)?)")

Tensors = Mapping[str, torch.Tensor]


@dataclasses.dataclass(frozen=True)
class Scaling:
    """What a gradient scaler passes to a step: f32 scalars on the device of the update.

    Attributes:
      scale: By which the gradients are divided.
      found_inf: Not 0 if a gradient is not finite, in which case nothing is updated.
    """

    scale: torch.Tensor
    found_inf: torch.Tensor

    @classmethod
    def none(cls, place: torch.device) -> Scaling:
        """Returns what a step without a scaler uses."""
        return cls(
            torch.ones((), dtype=torch.float32, device=place),
            torch.zeros((), dtype=torch.float32, device=place),
        )


@dataclasses.dataclass
class RowSums:
    """Sums that a rule needs of all rows of a sharded parameter, by row.

    Attributes:
      own: Those of the rows of this process.
      whole: Those of all rows, which the caller writes before an update.
    """

    own: torch.Tensor | None = None
    whole: torch.Tensor | None = None


@dataclasses.dataclass
class _Ports:
    """Indices of the ports of one parameter."""

    parameter: int = -1
    gradient: int = -1
    states: dict[str, int] = dataclasses.field(default_factory=dict)


class Settings(MutableMapping[str, float]):
    """The hyper-parameters of an update by name; those of a group end in ``@`` and its
    number. They may be set to numbers, or to scalars on the update's CUDA device, which
    are copied without waiting."""

    def __init__(self, program: _core.Program) -> None:
        self._program = program
        self._tensors: dict[str, torch.Tensor] = {}

    def add(self, name: str, tensor: torch.Tensor) -> None:
        """Adds a setting whose value is in ``tensor``, an f64 scalar."""
        self._tensors[name] = tensor

    def __getitem__(self, name: str) -> float:
        return float(self._tensors[name])

    def __setitem__(self, name: str, value: float | torch.Tensor) -> None:
        own = self._tensors[name]
        if isinstance(value, torch.Tensor) and value.is_cuda:
            own.copy_(value.reshape(()))
            return
        number = np.float64(value)
        self._program.check("hyper", name, number.reshape(1).view(np.uint8))
        own.fill_(float(number))

    def __delitem__(self, name: str) -> None:
        raise UsageError("an update keeps all of its settings")

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)


@dataclasses.dataclass(frozen=True)
class QuantizedState:
    """How a state of a parameter is quantized.

    Attributes:
      format: The format, an attribute of MLIR.
      shape: The shape of the dequantized state.
      parts: The shapes of its parts in the program, codes first, by keys such as
        ``exp_avg`` and ``exp_avg.scale``.
    """

    format: str
    shape: tuple[int, ...]
    parts: dict[str, tuple[int, ...]]


class Update:
    """A compiled update of parameters, which writes to them in place.

    Attributes:
      states: The states of each parameter, by its name and theirs, such as ``exp_avg``.
        They have their initial values until the first run.
      common: The states that all parameters share: ``step``, the number of updates, and
        ``rng`` if there are random numbers.
      settings: The hyper-parameters.
      row_sums: The sums of each sharded parameter of which the rule needs some.
    """

    def __init__(
        self,
        parameters: Tensors,
        device: Device,
        *,
        masters: Mapping[str, str],
        attributes: Mapping[str, str],
        factors: Tensors | None = None,
        policy: str | os.PathLike | Mapping[str, Any] = "fp32",
        threads: int = 0,
        **options: Any,
    ) -> None:
        """Compiles the update and creates the states.

        Args:
          parameters: The parameters, whose types are in ``ELEMENTS``, by names that are
            two numbers, such as ``0.1``. Master weights start from their values.
          device: The device that has them.
          masters: Of 16-bit parameters, one of ``MASTERS``.
          attributes: Attributes of the parameters in the IR.
          factors: f32 scalars by which the gradients of some parameters are multiplied,
            with the values that they have when an update runs.
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
            factors=factors or {},
        )
        policy = _store_parameters(policy, narrow, masters)
        # Alarms would read parameters after their update.
        options |= {"alarms": ["off"], "target": device.target}
        with (
            make_options(policy, threads, options) as (_, compile_options),
            _without_warning("loses updates"),  # The optimizer has its own.
        ):
            compiled = _core.compile_update(text, compile_options)
        self._device, factors = device, factors or {}
        with device.guard():
            self._program = compiled.load(device.name, threads, 0, {}, _BOUND)
        self._ports = {name: _Ports() for name in parameters}
        self._scalers: dict[str, int] = {}
        self.states: dict[str, dict[str, torch.Tensor]] = {
            name: {} for name in parameters
        }
        self.common: dict[str, torch.Tensor] = {}
        self.settings = Settings(self._program)
        self.row_sums: dict[str, dict[str, RowSums]] = {}
        fixed: list[tuple[int, torch.Tensor]] = []  # Ports that are bound once.
        for index, (role, name, dtype, shape) in enumerate(self._program.ports()):
            if role == "parameter":
                if parameters[name].numel():
                    _check_element(name, elements[name], dtype.lower())
                self._ports[name].parameter = index
            elif role == "buffer" and name.startswith(updates.KEPT.prefix):
                name = name.removeprefix(updates.KEPT.prefix)
                self._ports[name].gradient = index
            elif role == "buffer" and name.startswith(updates.FACTOR):
                fixed.append((index, factors[name.removeprefix(updates.FACTOR)]))
            elif role == "buffer":
                tensor = self._make_tensor(dtype, shape)
                fixed.append((index, tensor))
                self._add_sums(name, tensor)
            elif role == "scaler":
                self._scalers[name] = index
            elif role == "state":
                self._add_state(index, name, self._make_tensor(dtype, shape))
            elif role in ("step", "rng", "hyper"):
                tensor = self._make_tensor(dtype, shape)
                fixed.append((index, tensor))
                if role == "hyper":
                    self.settings.add(name, tensor)
                else:
                    self.common[role] = tensor
        # Whether the states of some parameters are bound to copies.
        self._binds_copies = True
        self._start(parameters, fixed)

    def _make_tensor(self, dtype: str, shape: Iterable[int]) -> torch.Tensor:
        """Returns a tensor of a port's type and shape."""
        kind = to_torch(np.zeros(0, DTYPES[dtype])).dtype
        return torch.zeros(tuple(shape), dtype=kind, device=self._device.place)

    def _add_state(self, index: int, name: str, state: torch.Tensor) -> None:
        found = _STATE.fullmatch(name)
        if not found:
            raise UsageError(f"the update has a state '{name}' of no parameter")
        key = found["state"] + found["part"]
        self._ports[found["parameter"]].states[key] = index
        self.states[found["parameter"]][key] = state

    def _add_sums(self, name: str, tensor: torch.Tensor) -> None:
        kind, parameter, number = name.split("/")
        sums = self.row_sums.setdefault(parameter, {}).setdefault(number, RowSums())
        if kind == "row_sums":
            sums.own = tensor
        else:
            assert kind == "all_row_sums", name
            sums.whole = tensor

    def _start(
        self, parameters: Tensors, fixed: Iterable[tuple[int, torch.Tensor]]
    ) -> None:
        """Sets the states, and what is in `fixed`, to their initial values."""
        memory, kept = list(fixed), []
        for name, ports in self._ports.items():
            value = self._make_dense(parameters[name].detach())
            kept.append(value)
            # Gradients are not read; all ports have to be bound.
            memory += [(ports.parameter, value), (ports.gradient, value)]
            memory += self._list_states(name, self.states[name])
        none = Scaling.none(self._device.place)
        memory += self._list_scaling(none)
        self._device.bind(self._program, memory)
        self._device.initialize(self._program)

    def _make_dense(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns the tensor, or a copy that is row-major and aligned."""
        dense = tensor.contiguous()
        return dense.clone() if dense.data_ptr() % self._device.alignment else dense

    def list_quantized(self) -> dict[str, list[QuantizedState]]:
        """Returns the quantized states of each parameter."""
        shapes = {
            name: tuple(shape)
            for role, name, _, shape in self._program.ports()
            if role == "state"
        }
        found: dict[str, list[QuantizedState]] = {}
        for entry in json.loads(self._program.plan()).get("quantized_states", ()):
            for state in entry["states"]:
                names = [one for p in state["parts"] if (one := _STATE.fullmatch(p))]
                parts = {one["state"] + one["part"]: shapes[one[0]] for one in names}
                made = QuantizedState(entry["format"], tuple(state["shape"]), parts)
                found.setdefault(names[0]["parameter"], []).append(made)
        return found

    @property
    def count(self) -> int:
        """The number of updates; skipped ones do not count."""
        return int(self.common["step"])

    @count.setter
    def count(self, count: int) -> None:
        self.common["step"].fill_(count)

    @property
    def skipped(self) -> bool:
        """Whether the last run updated nothing because a gradient was not finite. Waits
        for it."""
        self._device.wait()
        with self._device.guard():
            return bool(self._program.scalar("metric", "found_inf"))

    @torch.no_grad()
    def run(self, parameters: Tensors, gradients: Tensors, scaling: Scaling) -> None:
        """Updates the parameters that have a gradient, and their states. On a CUDA device
        it does not wait.

        Args:
          parameters: All parameters, with any strides.
          gradients: Gradients of some of them, which are not sparse.
          scaling: Of a gradient scaler, or 1 and 0.
        """
        memory: list[tuple[int, torch.Tensor]] = []
        kept: list[object] = []
        written: list[tuple[torch.Tensor, torch.Tensor]] = []
        binds_copies = len(gradients) < len(self._ports)
        for name, ports in self._ports.items():
            parameter, gradient = parameters[name], gradients.get(name)
            states = self.states[name]
            value = self._make_dense(parameter.detach())
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
            gradient = self._make_dense(gradient.detach().to(value.dtype))
            kept += [value, gradient]
            memory += [(ports.parameter, value), (ports.gradient, gradient)]
            if binds_copies or self._binds_copies:
                memory += self._list_states(name, states)
        memory += self._list_scaling(scaling)
        # Also if the run fails, states may be bound to copies.
        self._binds_copies = True
        self._device.bind(self._program, memory)
        self._device.run(self._program)
        self._binds_copies = binds_copies
        for parameter, value in written:
            parameter.copy_(value)

    def sum_rows(
        self, parameters: Tensors, gradients: Tensors, scaling: Scaling
    ) -> None:
        """Computes the sums in ``row_sums`` of this process's rows, and updates nothing.
        The arguments are those of the ``run`` that follows."""
        state = self.common.get("rng")
        before = state.clone() if state is not None else None
        skips = torch.ones_like(scaling.found_inf)
        self.run(parameters, gradients, Scaling(scaling.scale, skips))
        if state is not None and before is not None:
            state.copy_(before)

    def _list_states(
        self, name: str, states: Tensors
    ) -> list[tuple[int, torch.Tensor]]:
        indices = self._ports[name].states
        return [(index, states[key]) for key, index in indices.items()]

    def _list_scaling(self, scaling: Scaling) -> list[tuple[int, torch.Tensor]]:
        return [
            (index, self._make_dense(getattr(scaling, name)))
            for name, index in self._scalers.items()
        ]


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
