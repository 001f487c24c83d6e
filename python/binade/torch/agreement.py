"""What the processes with rows of sharded parameters agree on before each update."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import torch

from binade.errors import UsageError
from binade.torch.shards import add_up, is_dtensor, list_groups, square

# Steps with a larger norm of all gradients are skipped, because squares would overflow in
# f32. The kernel has the same limit.
_LARGEST_NORM = float.fromhex("0x1.fffffep63")

# The key of a plan to compile the update again.
COMPILATION = "compilation"
_FAULTS = (
    "the gradient of parameter {name} has other placements than the parameter in some "
    "processes, and not the same ones in all; expected the same placements in all "
    "processes, because they redistribute it together",
    "parameter {name} has its first gradient in some processes only; expected one in all "
    "of them in the same step, because they compile its update together",
)
_OTHER_COMPILATION = (
    "some processes only have to compile the update again, because a type, a shape, a "
    "setting, or a gradient scaler has changed; expected the same change in all of them"
)


def plan(parameter: Any, gradient: Any, begins: bool) -> int:
    """Returns what a process is about to do with a gradient before the update, as a number
    that the others have to have as well: 0 for nothing.

    Args:
      parameter: A DTensor.
      gradient: Its gradient.
      begins: Whether the update has to be compiled for this parameter.
    """
    code = int(begins)
    if is_dtensor(gradient) and gradient.placements != parameter.placements:
        # Below 2^24, so that f32 represents it.
        code += 2 * (1 + zlib.crc32(str(gradient.placements).encode()) % 2**20)
    return code


class Agreement:
    """Exchanges what all processes of a mesh have to know before an update.

    The exchange of a step is one all-reduce of maxima along each axis of a mesh, after
    those that add up squares. It has a maximum and a minimum of the plans of all processes
    for each parameter. On the CPU, ``exchange`` reports plans that differ; on a CUDA device
    a process without plans does not wait for the others, and reports it in the next step.
    """

    def __init__(self, parameters: Iterable[tuple[str, Any]]) -> None:
        """Takes the DTensors that may be updated with their names, in the same order in all
        processes."""
        self._names: dict[Any, list[str]] = {}
        for name, parameter in parameters:
            self._names.setdefault(parameter.device_mesh, []).append(name)
        # Of an exchange that was not checked: for each mesh the maxima and minima, and what
        # has to happen before the host may read them.
        self._unchecked: list[tuple[list[str], torch.Tensor, Any]] = []

    def exchange(
        self,
        gradients: Sequence[tuple[Any, torch.Tensor | None]],
        scale: torch.Tensor,
        *,
        isGiven: bool,
        plans: Mapping[str, int] | None = None,
        waits: bool = False,
        hasLimit: bool = True,
        among: Collection[Any] | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns two f32 scalars: 1 if a process has a gradient, and 1 if a gradient of one
        is not finite, the norm of all is too large, or plans differ; otherwise 0. Every
        process that has a part of the parameters must call this.

        Args:
          gradients: Parameters in the same order in each process, and what it has of their
            gradients.
          scale: By which the gradients will be divided; a scalar on their device.
          isGiven: Whether this process has a gradient.
          plans: What ``plan`` returned, by name, and ``COMPILATION``; those that are 0
            may be left out.
          waits: Whether to check plans also on a CUDA device.
          hasLimit: Whether a norm may be too large; not if it is clipped.
          among: The meshes of the exchange; None for all.

        Raises:
          UsageError: If processes plan different things.
        """
        import torch.distributed as dist

        self.check()
        plans = plans or {}
        none = torch.zeros(1, dtype=torch.float64, device=scale.device)
        squares = add_up(
            [(p, none if one is None else square(one)) for p, one in gradients]
        )
        total = torch.cat(squares).sum() if squares else none.sum()
        limit = (scale.double() * _LARGEST_NORM).square()
        isFine = total <= limit if hasLimit else total.isfinite()  # False for NaN.
        found = torch.full(
            (2,), float(isGiven), dtype=torch.float32, device=none.device
        )
        found[1] = ~isFine
        for mesh, names in self._names.items():
            if among is not None and mesh not in among:
                continue
            keys = [*names, COMPILATION]
            own = _make_codes([plans.get(key, 0) for key in keys], none.device)
            sent = torch.cat((found, own, -own))
            for group in list_groups(mesh, None):
                dist.all_reduce(sent, op=dist.ReduceOp.MAX, group=group)
            found, codes = sent[:2], sent[2:].view(2, -1)
            differs = (codes[0] != -codes[1]).any()
            found = torch.stack((found[0], torch.maximum(found[1], differs.float())))
            if not (codes.is_cuda and torch.cuda.is_current_stream_capturing()):
                self._unchecked.append((keys, *_start_to_read(codes)))
        if waits or not found.is_cuda or any(plans.values()):
            self.check()
        return found[0], found[1]

    def check(self) -> None:
        """Waits for the last exchange.

        Raises:
          UsageError: If processes planned different things.
        """
        unchecked, self._unchecked = self._unchecked, []
        for names, codes, event in unchecked:
            if event is not None:
                event.synchronize()
            for name, most, least in zip(names, codes[0].tolist(), codes[1].tolist()):
                if most == -least:
                    continue
                if name == COMPILATION:
                    raise UsageError(_OTHER_COMPILATION)
                begins = (int(most) ^ int(-least)) & 1
                raise UsageError(_FAULTS[begins].format(name=name))


def _make_codes(codes: list[int], place: torch.device) -> torch.Tensor:
    if any(codes):
        return torch.tensor(codes, dtype=torch.float32, device=place)
    return torch.zeros(
        len(codes), dtype=torch.float32, device=place
    )  # Without waiting.


def _start_to_read(values: torch.Tensor) -> tuple[torch.Tensor, Any]:
    """Returns a copy in the memory of the host, and the event after which it is complete;
    None if it is."""
    if not values.is_cuda:
        return values, None
    copy = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
    copy.copy_(values, non_blocking=True)
    event = torch.cuda.Event()
    event.record()
    return copy, event
