"""Optimizer states of which each rank of a group has a shard (ZeRO stage 1)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
import torch.distributed as dist

from binade import _core
from binade.ports import Ports
from binade.torch.distributed.ranks import Ranks, translate_collective_errors
from binade.torch.tensors import to_torch


class StateBytes(NamedTuple):
    """Bytes of optimizer states.

    Attributes:
      own: Bytes of the states in the memory of this rank.
      whole: Bytes of all states, each element counted once.
      repeated: Bytes of the states that every rank has whole.
    """

    own: int
    whole: int
    repeated: int


class StateShards:
    """Which elements of which states the ranks have.

    Attributes:
      shapes: The shapes of the whole states, by name, in the same order on all ranks.
      owners: The rank that has a state while all states are whole, by name; each rank
        has about as many bytes.
    """

    def __init__(self, ranks: Ranks, program: _core.Program) -> None:
        """Exchanges what ranks have. All of them have to call this."""
        self._ranks = ranks
        self._states = Ports(program, "state")
        shards = program.shards()
        self.shapes = {name: tuple(shape) for name, shape, _ in shards}
        own = [(first, self._states[name].size) for name, _, first in shards]
        every = ranks.all_gather_object(own)
        self._places = dict(zip(self.shapes, zip(*every)))
        self.owners = self._choose_owners()

    def _choose_owners(self) -> dict[str, int]:
        load = [0] * self._ranks.size
        owners = {}
        by_size = sorted(self.shapes, key=self._count_bytes, reverse=True)
        for name in by_size:
            owners[name] = load.index(min(load))
            load[owners[name]] += self._count_bytes(name)
        return owners

    def _count_bytes(self, name: str) -> int:
        return int(np.prod(self.shapes[name])) * self._states[name].itemsize

    def list_owned(self) -> list[str]:
        """Returns the states of which this rank is the owner."""
        return [n for n, owner in self.owners.items() if owner == self._ranks.rank]

    def get_own(self, name: str) -> torch.Tensor:
        """Returns the elements of this rank, over the memory of the step."""
        return to_torch(self._states[name])

    def create_whole(self, name: str) -> torch.Tensor:
        """Returns a tensor for all elements."""
        return torch.empty(self.shapes[name], dtype=self.get_own(name).dtype)

    def gather(self, name: str, to: int) -> torch.Tensor | None:
        """Sends a whole state to a rank. All ranks have to call this.

        Returns:
          The state on rank `to`; None on the others.
        """
        own = self.get_own(name)
        with translate_collective_errors(f"gathering state '{name}'"):
            if self._ranks.rank != to:
                if own.numel():
                    dist.send(_as_bytes(own), group=self._ranks.control, group_dst=to)
                return None
            whole = self.create_whole(name)
            for rank, shard in self._list_shards(name, whole):
                if rank == to:
                    shard.copy_(own)
                else:
                    self._receive(shard, rank)
            return whole

    def scatter(self, name: str, whole: torch.Tensor | None, source: int) -> None:
        """Copies a whole state of a rank to the shards. All ranks have to call this.

        Args:
          name: The state.
          whole: Its elements, on rank `source`.
          source: The rank that has them.
        """
        own = self.get_own(name)
        with translate_collective_errors(f"distributing state '{name}'"):
            if self._ranks.rank != source:
                if own.numel():
                    self._receive(own, source)
                return
            assert whole is not None
            for rank, shard in self._list_shards(name, whole):
                if rank == source:
                    own.copy_(shard)
                else:
                    data = _as_bytes(shard)
                    dist.send(data, group=self._ranks.control, group_dst=rank)

    def _list_shards(
        self, name: str, whole: torch.Tensor
    ) -> list[tuple[int, torch.Tensor]]:
        """Returns the ranks that have elements, with these in `whole`."""
        flat = whole.reshape(-1)
        return [
            (rank, flat[first : first + count])
            for rank, (first, count) in enumerate(self._places[name])
            if count
        ]

    def _receive(self, into: torch.Tensor, rank: int) -> None:
        dist.recv(_as_bytes(into), group=self._ranks.control, group_src=rank)


def _as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a view, because not all backends transfer all types."""
    return tensor.view(torch.uint8)
