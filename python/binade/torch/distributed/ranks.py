"""The processes that execute a step together, and collectives on data of the host."""

from __future__ import annotations

import contextlib
import datetime
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist

from binade.errors import PeerError, UsageError


@contextlib.contextmanager
def translate_collective_errors(attempt: str) -> Iterator[None]:
    """Turns an error of a collective into one that says what it means.

    Raises:
      PeerError: If PyTorch reports an error.
    """
    try:
        yield
    except RuntimeError as error:  # Also dist.DistBackendError and others of c10d.
        text = str(error).strip().partition("\n")[0]
        raise PeerError(
            f"{attempt}: another process of the run failed, or does not answer: {text}; "
            "the log of the launcher names the first failure"
        ) from error


class Ranks:
    """The processes of a group.

    Attributes:
      rank: The number of this process in the group.
      size: The number of processes.
      exchange: The process group in which gradients are exchanged; None for one process.
      control: The process group for losses, checkpoints and all else; None for one
        process.
    """

    def __init__(self, group: Any, timeout: float) -> None:
        """Creates the process groups. All processes of `group` have to call this.

        Args:
          group: A process group, a one-dimensional mesh, or None for all processes.
          timeout: After how many seconds without an answer a process counts as failed.

        Raises:
          UsageError: If `group` is something else, or this process does not belong to it.
        """
        self.rank, self.size = 0, 1
        self.exchange: dist.ProcessGroup | None = None
        self.control: dist.ProcessGroup | None = None
        known = _find_group(group)
        if known is None:
            return
        self.rank, self.size = dist.get_rank(known), dist.get_world_size(known)
        if self.size == 1:
            return
        members = dist.get_process_group_ranks(known)
        # Groups of their own, because the order of collectives in a group has to be the
        # same on all ranks, and the exchange has a thread of its own.
        with translate_collective_errors("creating the process groups of the step"):
            self.exchange, self.control = (
                dist.new_group(
                    members,
                    timeout=datetime.timedelta(seconds=timeout),
                    backend="gloo",
                    use_local_synchronization=True,
                    group_desc=f"binade {purpose}",
                )
                for purpose in ("exchange", "control")
            )

    @property
    def is_rank_zero(self) -> bool:
        """Whether this process writes what is written once."""
        return self.rank == 0

    def all_gather_object(self, value: Any) -> list[Any]:
        """Returns a value of each process, in the order of ranks; by pickle."""
        if self.control is None:
            return [value]
        found: list[Any] = [None] * self.size
        with translate_collective_errors("exchanging what ranks know"):
            dist.all_gather_object(found, value, group=self.control)
        return found

    def all_gather_f64(self, values: Sequence[float]) -> list[list[float]]:
        """Returns as many f64 of each process, in the order of ranks."""
        if self.control is None:
            return [list(values)]
        own = torch.tensor(values, dtype=torch.float64)
        found = [torch.empty_like(own) for _ in range(self.size)]
        with translate_collective_errors("exchanging losses"):
            dist.all_gather(found, own, group=self.control)
        return [one.tolist() for one in found]

    def call_on_rank_zero(self, function: Callable[[], Any]) -> Any:
        """Calls a function on rank 0. All ranks return its result, or raise its error."""
        result, error = None, None
        if self.is_rank_zero:
            try:
                result = function()
            except Exception as raised:
                error = raised
        if self.control is not None:
            known = [(result, error)]
            with translate_collective_errors("waiting for rank 0"):
                dist.broadcast_object_list(known, group=self.control, group_src=0)
            if not self.is_rank_zero:
                result, error = known[0]
        if error is not None:
            raise error
        return result


def _find_group(group: Any) -> dist.ProcessGroup | None:
    """Returns the process group of an argument; None for this process alone."""
    if not dist.is_available() or not dist.is_initialized():
        if group is not None or int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise UsageError(
                "distribute: there is no process group yet: call "
                "torch.distributed.init_process_group first"
            )
        return None
    if group is None:
        return dist.group.WORLD
    if isinstance(group, dist.DeviceMesh):
        if group.ndim != 1:
            raise UsageError(
                f"distribute: expected a mesh with one axis, got {group.ndim} "
                f"({', '.join(group.mesh_dim_names or ())}): choose one with mesh['NAME']"
            )
        group = group.get_group()
    if group == dist.GroupMember.NON_GROUP_MEMBER:
        raise UsageError(
            f"distribute: rank {dist.get_rank()} does not belong to the group: call "
            "distribute only in its processes"
        )
    if not isinstance(group, dist.ProcessGroup):
        raise UsageError(
            "distribute: expected a process group or a mesh, got "
            f"{type(group).__name__}"
        )
    return group
