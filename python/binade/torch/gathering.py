"""Sharded parameters whose update needs the whole: each has an owner, a process that gathers
its rows, updates it, and returns them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from binade.errors import UsageError
from binade.rows import divide
from binade.torch.shards import RowRange
from binade.torch.update import QuantizedState

Tensors = Mapping[str, torch.Tensor]
States = Mapping[str, Mapping[str, torch.Tensor]]


@dataclasses.dataclass(frozen=True)
class _Member:
    """A sharded parameter.

    Attributes:
      owner: The number of the owner in the group of processes.
      rows: The rows of this process.
      shape: The shape of the whole parameter.
    """

    owner: int
    rows: RowRange
    shape: tuple[int, ...]


class Gathering:
    """Exchanges the rows of parameters between the processes that have them and the owners,
    which take turns.

    States persist as rows, as those of rules that need no whole. A state without an entry
    for each row, such as column means of Adafactor, is the same in all processes.
    """

    def __init__(
        self, parameters: Mapping[str, Any], rows: Mapping[str, RowRange]
    ) -> None:
        """Chooses the owners.

        Args:
          parameters: DTensors by name, in the same order in all processes.
          rows: The rows of this process.

        Raises:
          UsageError: If they are sharded along several axes or meshes.
        """
        import torch.distributed as dist

        axes = set()
        for name, parameter in parameters.items():
            found = [a for a, p in enumerate(parameter.placements) if p.is_shard()]
            axes |= {(parameter.device_mesh, axis) for axis in found}
            if len(axes) > 1:
                raise UsageError(
                    f"parameter {name} is sharded along another axis of a mesh than others, "
                    "or along several; expected one axis, because the update rule needs "
                    "whole parameters"
                )
        ((mesh, axis),) = axes
        self._group = mesh.get_group(axis)
        self._size, self._rank = (
            dist.get_world_size(self._group),
            mesh.get_local_rank(axis),
        )
        self._members = {
            name: _Member(number % self._size, rows[name], tuple(parameter.shape))
            for number, (name, parameter) in enumerate(parameters.items())
        }
        # What the update uses of each parameter: nothing but for its owner.
        self.parameters: dict[str, torch.Tensor] = {}
        self._gradients: dict[str, torch.Tensor] = {}
        for name, parameter in parameters.items():
            shape = self._members[name].shape
            shape = shape if self.isOwned(name) else (0, *shape[1:])
            local = parameter.to_local()
            self.parameters[name] = local.new_zeros(shape)
            self._gradients[name] = local.new_zeros(shape)
        self._whole: States = {}
        # The states of each parameter that have an entry for each row.
        self._split: dict[str, set[str]] = {}
        self.states: dict[str, dict[str, torch.Tensor]] = {}
        self.quantized: dict[str, list[QuantizedState]] = {}

    def isOwned(self, name: str) -> bool:
        """Whether this process is the owner of a parameter."""
        return self._members[name].owner == self._rank

    def read_parameters(self, own: Tensors) -> None:
        """Gathers the values of the parameters, of which ``own`` are the rows of this
        process."""
        self._gather(
            {name: [own[name][: m.rows.rows]] for name, m in self._members.items()},
            {name: [self.parameters[name]] for name in self._members},
        )

    def link(
        self, whole: States, quantized: Mapping[str, list[QuantizedState]]
    ) -> None:
        """Creates the states of this process's rows from those of the update, of which
        ``quantized`` lists the quantized ones."""
        import torch.distributed as dist

        self._whole = whole
        forms = {
            name: {
                key: (state.dtype, self._find_shape(name, key, state))
                for key, state in whole[name].items()
            }
            for name in self._members
            if self.isOwned(name)
        }
        own = {name: quantized.get(name, []) for name in forms}
        gathered: list[Any] = [None] * self._size
        dist.all_gather_object(gathered, (forms, own), group=self._group)
        for name, member in self._members.items():
            self.states[name], self._split[name] = {}, set()
            known, listed = gathered[member.owner]
            self.quantized[name] = listed[name]
            for key, (dtype, shape) in known[name].items():
                if shape[:1] == member.shape[:1]:
                    shape = (member.rows.rows, *shape[1:])
                    self._split[name].add(key)
                place = self.parameters[name].device
                self.states[name][key] = torch.zeros(shape, dtype=dtype, device=place)
        self._return({name: [*self.states[name].values()] for name in self._members},
                     {name: [*whole[name].values()] for name in self._members})  # fmt: skip

    def gather(self, own: Tensors, gradients: Tensors) -> Tensors:
        """Gathers parameters, gradients and states for the update. Returns the gradients of
        the parameters that have one in some process; of others, those without elements."""
        # Of each row, whether its process has a gradient.
        flags: dict[str, torch.Tensor] = {}
        sent, received = {}, {}
        for name in self._members:
            place = self.parameters[name].device
            gradient = gradients.get(name)
            isGiven = gradient is not None
            if gradient is None:
                gradient = torch.zeros_like(own[name])
            member = self._members[name]
            rows = member.rows.rows
            flag = torch.full((rows,), int(isGiven), dtype=torch.uint8, device=place)
            flags[name] = flag.new_zeros(member.shape[0])
            sent[name] = [flag, own[name][:rows], gradient[:rows]]
            received[name] = [flags[name], self.parameters[name], self._gradients[name]]
            for key, state in self.states[name].items():
                if key in self._split[name]:
                    sent[name].append(state)
                if not self.isOwned(name):
                    continue
                if key in self._split[name]:
                    received[name].append(self._whole[name][key])
                else:
                    self._whole[name][key].copy_(state)
        self._gather(sent, received)
        return {
            name: self._gradients[name]
            for name in self._members
            if not self.isOwned(name) or bool(flags[name].any())
        }

    def scatter(self, own: Tensors) -> None:
        """Returns parameters and states to the processes."""
        self._return(
            {
                name: [own[name][: member.rows.rows], *self.states[name].values()]
                for name, member in self._members.items()
            },
            {
                name: [self.parameters[name], *self._whole[name].values()]
                for name in self._members
            },
        )

    def _find_shape(self, name: str, key: str, state: torch.Tensor) -> tuple[int, ...]:
        shape = tuple(self._by_rows(name, state).shape)
        isVector = len(shape) == 1 and shape == self._members[name].shape[:1]
        # As of parameters that are not gathered: scales have a second axis.
        return (*shape, 1) if isVector and "." in key else shape

    def _by_rows(self, name: str, state: torch.Tensor) -> torch.Tensor:
        """Returns a view of a state of the whole with an entry for each row, if it has the
        same number of elements for each."""
        rows = self._members[name].shape[0]
        if state.dim() == 1 and state.numel() % rows == 0 and state.numel() > rows:
            return state.view(rows, -1)
        return state

    def isSplit(self, name: str, key: str) -> bool:
        """Whether a state has an entry for each row of its parameter."""
        return key in self._split[name]

    def _list_rows(self, name: str, process: int) -> tuple[int, int]:
        return divide(self._members[name].shape[0], self._size, process)

    def _gather(
        self,
        sent: Mapping[str, Sequence[torch.Tensor]],
        received: Mapping[str, Sequence[torch.Tensor]],
    ) -> None:
        """Sends the rows of this process to the owners, and receives those of the parameters
        that it owns."""
        parts = [
            [
                part
                for name, member in self._members.items()
                if member.owner == process
                for part in sent[name]
            ]
            for process in range(self._size)
        ]
        targets = [
            [
                self._cut(name, whole, process)
                for name in self._members
                if self.isOwned(name)
                for whole in received[name]
            ]
            for process in range(self._size)
        ]
        self._exchange(parts, targets)

    def _return(
        self,
        own: Mapping[str, Sequence[torch.Tensor]],
        whole: Mapping[str, Sequence[torch.Tensor]],
    ) -> None:
        """Sends the rows of parameters that this process owns to the others."""
        parts = [
            [
                self._cut(name, one, process)
                for name in self._members
                if self.isOwned(name)
                for one in whole[name]
            ]
            for process in range(self._size)
        ]
        targets = [
            [
                part
                for name, member in self._members.items()
                if member.owner == process
                for part in own[name]
            ]
            for process in range(self._size)
        ]
        self._exchange(parts, targets)

    def _cut(self, name: str, whole: torch.Tensor, process: int) -> torch.Tensor:
        """Returns the rows that a process has; all of what has no entry for each row."""
        viewed = self._by_rows(name, whole)
        if viewed.shape[:1] != self._members[name].shape[:1]:
            return viewed
        first, count = self._list_rows(name, process)
        return viewed[first : first + count]

    def _exchange(
        self, sent: list[list[torch.Tensor]], received: list[list[torch.Tensor]]
    ) -> None:
        """Sends a list of tensors to each process, and receives one from each."""
        import torch.distributed as dist

        place = next(iter(self.parameters.values())).device
        given = [
            torch.cat([_as_bytes(one) for one in part])
            if part else torch.empty(0, dtype=torch.uint8, device=place)
            for part in sent
        ]  # fmt: skip
        sizes = [sum(one.nbytes for one in part) for part in received]
        found = torch.empty(sum(sizes), dtype=torch.uint8, device=place)
        dist.all_to_all_single(
            found, torch.cat(given), sizes, [one.numel() for one in given],
            group=self._group,
        )  # fmt: skip
        rest = iter(_split(found, [one for part in received for one in part]))
        for part in received:
            for one in part:
                one.copy_(next(rest).view(one.dtype).view(one.shape))


def _as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


def _split(found: torch.Tensor, like: Sequence[torch.Tensor]) -> Iterator[torch.Tensor]:
    begin = 0
    for one in like:
        # A copy, whose memory is aligned for the type.
        yield found[begin : begin + one.nbytes].clone()
        begin += one.nbytes
