"""The rows of sharded parameters (DTensors) that a process has."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import Any

import torch

from binade.errors import UsageError
from binade.rows import divide


@dataclasses.dataclass(frozen=True)
class RowRange:
    """The rows of a sharded parameter that this process has.

    Attributes:
      first: The number of its first row in the whole parameter.
      rows: The number of its rows.
      whole: The number of rows of the whole parameter.
    """

    first: int
    rows: int
    whole: int


def is_dtensor(tensor: object) -> bool:
    """Whether a tensor is a DTensor."""
    # Nothing is one unless the module has been imported, which takes a while.
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)


def is_split(tensor: Any) -> bool:
    """Whether a tensor is a DTensor of which a process may have a part only."""
    return is_dtensor(tensor) and any(not p.is_replicate() for p in tensor.placements)


def find_rows(name: str, tensor: Any) -> RowRange | None:
    """Returns the rows that this process has; None if it has the whole tensor.

    Raises:
      UsageError: If rows are split or not consecutive, or not on the mesh's devices.
        ``name`` names the parameter.
    """
    if not is_dtensor(tensor):
        return None
    from torch.distributed.tensor import Replicate, Shard

    mesh = tensor.device_mesh
    place = tensor.to_local().device.type
    if mesh.device_type != place:
        raise UsageError(
            f"parameter {name} is on '{place}', and its mesh has devices "
            f"'{mesh.device_type}'; expected parameters on the devices of the mesh"
        )
    first, rows, isSharded = 0, tensor.shape[0] if tensor.dim() else 1, False
    for axis, placement in enumerate(tensor.placements):
        if isinstance(placement, Replicate):
            continue
        if type(placement) is not Shard:
            raise UsageError(
                f"parameter {name} is distributed as {placement}, which is not supported; "
                "expected Shard(0) or Replicate. FSDP2 and tensor parallelism along the "
                "same axis interleave rows"
            )
        if placement.dim != 0:
            raise UsageError(
                f"parameter {name} is distributed as {placement}; expected Shard(0) or "
                "Replicate: states are computed row by row. Shard it along its first "
                "axis, or exclude it from the optimizer"
            )
        begin, rows = divide(rows, mesh.size(axis), mesh.get_local_rank(axis))
        first += begin
        isSharded = True
    if not isSharded or tensor.numel() == 0:
        return None
    found = tensor.to_local().shape[0]
    if found != rows:
        raise UsageError(
            f"parameter {name} has {found} rows in this process; expected {rows} of "
            f"{tensor.shape[0]}, as torch.chunk divides them"
        )
    return RowRange(first, rows, tensor.shape[0])


def get_local(tensor: Any, rows: RowRange | None) -> torch.Tensor:
    """Returns the rows of this process, or a row of zeros if it has none: all processes
    compile an update of all parameters, so that they agree on the states."""
    local = tensor.to_local() if is_dtensor(tensor) else tensor
    if rows is not None and rows.rows == 0:
        return local.new_zeros((1, *local.shape[1:]))
    return local


def get_local_gradient(
    gradient: Any, parameter: Any, rows: RowRange | None
) -> torch.Tensor:
    """Returns the gradient of the rows of this process. A gradient with other placements,
    such as ``Partial``, is redistributed: all processes must call this."""
    if is_dtensor(gradient) != is_dtensor(parameter) or (
        is_dtensor(gradient) and gradient.device_mesh != parameter.device_mesh
    ):
        raise UsageError(
            f"a gradient is distributed in another way than its parameter of shape "
            f"{list(parameter.shape)}; expected both to be DTensors of one mesh, or neither"
        )
    if is_dtensor(gradient) and gradient.placements != parameter.placements:
        gradient = gradient.redistribute(placements=parameter.placements)
    local = get_local(gradient, rows)
    return local.wait() if hasattr(local, "wait") else local


def view_rows(
    state: torch.Tensor, parameter: torch.Tensor, rows: RowRange | None
) -> torch.Tensor:
    """Returns a view of a part of a quantized state with one entry for each row of the
    parameter, if it has the same number of elements for each."""
    if state.dim() != 1 or parameter.dim() < 2:
        return state
    count = parameter.shape[0] if rows is None else max(rows.rows, 1)
    return state.view(count, -1) if count and state.numel() % count == 0 else state


def to_dtensor(
    state: torch.Tensor, parameter: Any, rows: RowRange | None
) -> torch.Tensor:
    """Returns a state of this process's rows as a DTensor with the placements of a
    parameter that is one. Shares the memory of ``state``, whose first axis are the rows. A
    single number for all rows, which each process computes, stays a tensor."""
    isNumber = state.dim() == 0 and parameter.dim() > 0
    if not is_dtensor(parameter) or isNumber:
        return state
    from torch.distributed.tensor import DTensor

    shape = state.shape
    if rows is not None:
        state = state[: rows.rows]
        shape = torch.Size((rows.whole, *state.shape[1:]))
    return DTensor.from_local(
        state, parameter.device_mesh, parameter.placements, run_check=False,
        shape=shape, stride=torch.empty(shape, device="meta").stride(),
    )  # fmt: skip


def sum_squares(
    gradients: Sequence[tuple[Any, torch.Tensor | None]],
) -> torch.Tensor:
    """Returns the squared norm of each gradient in f64, over the rows of all processes:
    infinity if it is not finite, NaN where no process has a gradient. Every process that
    has a part of the parameters must call this.

    Args:
      gradients: Parameters in the same order in each process, and what it has of their
        gradients.
    """
    place = gradients[0][0].device
    none = torch.zeros(2, dtype=torch.float64, device=place)
    one = torch.ones(1, dtype=torch.float64, device=place)
    # The square, and the number of processes that have a gradient.
    pairs = [none if g is None else torch.cat((square(g), one)) for _, g in gradients]
    sums = add_up([(p, pair) for (p, _), pair in zip(gradients, pairs)])
    found, given = torch.stack(sums).unbind(dim=1)
    found = found.nan_to_num(nan=torch.inf, posinf=torch.inf)
    return torch.where(given > 0, found, torch.nan)


def gather_rows(
    values: Sequence[tuple[Any, RowRange, torch.Tensor, torch.Tensor]],
) -> None:
    """Collects values of all rows. Every process that has a part of the parameters must
    call this.

    Args:
      values: For each value: the sharded parameter, the rows of this process, a vector of
        values of these rows, and a vector for the values of all rows, which is written.
    """
    parts = []
    for parameter, rows, own, whole in values:
        # The rows of other processes are 0, so that adding them is exact.
        part = torch.zeros_like(whole)
        part[rows.first : rows.first + rows.rows] = own[: rows.rows]
        parts.append((parameter, part))
    for (_, _, _, whole), found in zip(values, add_up(parts)):
        whole.copy_(found)


def square(gradient: torch.Tensor) -> torch.Tensor:
    """Returns the squared norm of a gradient in f64, as a vector of one element."""
    return torch.linalg.vector_norm(gradient, dtype=torch.float64).square().reshape(1)


def add_up(values: Sequence[tuple[Any, torch.Tensor]]) -> list[torch.Tensor]:
    """Returns the sum of each vector over the processes that have other rows of its
    parameter."""
    import torch.distributed as dist

    sums = [value for _, value in values]
    numbers: dict[tuple[Any, ...], list[int]] = {}
    for number, (parameter, value) in enumerate(values):
        if is_dtensor(parameter):
            groups = list_groups(parameter.device_mesh, parameter.placements)
            numbers.setdefault((value.dtype, *groups), []).append(number)
    for (_, *shared), members in numbers.items():
        together = torch.cat([sums[number] for number in members])
        for group in shared:
            dist.all_reduce(together, group=group)
        lengths = [sums[number].numel() for number in members]
        for number, found in zip(members, together.split(lengths)):
            sums[number] = found
    return sums


def list_groups(mesh: Any, placements: Sequence[Any] | None) -> tuple[Any, ...]:
    """Returns the process groups of the axes of a mesh, or of those that shard."""
    return tuple(
        mesh.get_group(axis)
        for axis in range(mesh.ndim)
        if placements is None or placements[axis].is_shard()
    )
