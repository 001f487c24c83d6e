"""The reduce-scatter of gradients in a narrow format: an all-to-all, then sums in f32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from binade.errors import UsageError
from binade.torch.float8 import (
    GROUP,
    GROUP_FORMATS,
    dequantize_groups,
    quantize_groups,
)
from binade.torch.fsdp import ReduceScatter

# Formats without scales.
PLAIN_FORMATS = {
    "f32": torch.float32,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
}
_SUPPORTED = (torch.float32, torch.bfloat16, torch.float16)
_SCALE_BYTES = 4


def _encode_plain(parts: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Returns parts in a 16-bit or 32-bit format, or in their own type if that loses
    nothing."""
    if torch.promote_types(parts.dtype, dtype) == dtype:
        return parts.contiguous()
    return parts.to(dtype)


def _split(part: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the codes and scales of a part of a message, whose bytes are those of the
    scales of its groups, followed by those of its codes."""
    end = part.numel() // (_SCALE_BYTES + GROUP) * _SCALE_BYTES
    return part[end:].view(dtype), part[:end].view(torch.float32)


def _encode_groups(parts: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Returns the bytes of all parts. Zeros complete the last group of a part."""
    count, size = parts.shape
    groups = -(-size // GROUP)
    message = torch.empty(
        (count, groups * (_SCALE_BYTES + GROUP)), dtype=torch.uint8, device=parts.device
    )
    for part, row in zip(parts, message, strict=True):
        quantize_groups(part, *_split(row, dtype))
    return message


def _read_factors(op: Any, world: int) -> tuple[float | None, float | None]:
    """Returns what the terms of a reduction are multiplied by, and what their sum is divided
    by.

    Raises:
      UsageError: If the reduction is not a sum.
    """
    kind, factor = _read_state(op)
    if kind == dist.ReduceOp.SUM:
        return None, None
    if kind == dist.ReduceOp.AVG:
        return None, float(world)
    if kind == dist.ReduceOp.PREMUL_SUM and factor is not None:
        return float(factor), None
    raise UsageError(f"gradients are reduced by {op}; expected SUM, AVG or PREMUL_SUM")


def _read_state(op: Any) -> tuple[Any, Any]:
    """Returns the kind and the factor of a ``ReduceOp``."""
    try:
        kind, factor = op.__getstate__()
    except (TypeError, ValueError):  # A kind without a factor.
        return op, None
    return kind, factor


class OrderedReduceScatter(ReduceScatter):
    """Sends the parts of a gradient in a format, and adds what arrives in f32, in the order
    of the ranks. The sum is rounded to the type of the output.

    The bits of a sum depend on the terms and on their order only: not on the size of the
    message, as with rings and trees.
    """

    def __init__(self, format: str) -> None:
        self.format = format

    def allocate(
        self,
        size: Sequence[int | torch.SymInt],
        *,
        dtype: torch.dtype,
        device: torch.device,
    ) -> torch.Tensor:
        return torch.empty(*size, dtype=dtype, device=device)

    @torch.no_grad()
    def __call__(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        group: dist.ProcessGroup,
        op: Any,
        async_op: bool = False,
    ) -> None:
        """Writes the sum of the parts for this process.

        Args:
          output_tensor: A flat tensor of the size of a part.
          input_tensor: A part for each process, flat, in the order of the ranks.
          group: The processes.
          op: SUM, AVG (divides the sum) or PREMUL_SUM (multiplies the terms).
          async_op: False.

        Raises:
          UsageError: If ``op``, ``async_op`` or the type of the tensors is another.
        """
        if async_op or input_tensor.dtype not in _SUPPORTED:
            raise UsageError(
                f"gradients of {input_tensor.dtype} with async_op={async_op} cannot be "
                "reduced; expected f32, bf16 or f16, and async_op=False"
            )
        world = group.size()
        factor, divisor = _read_factors(op, world)
        size = output_tensor.numel()
        received = self._exchange(input_tensor.view(world, size), group)
        total = self._decode(received[0], size, factor)
        for part in received[1:]:
            total += self._decode(part, size, factor)
        if divisor is not None:
            total /= divisor
        output_tensor.copy_(total)

    def _exchange(self, parts: torch.Tensor, group: dist.ProcessGroup) -> torch.Tensor:
        """Returns this process's part of each process, in rows."""
        if self.format in GROUP_FORMATS:
            sent = _encode_groups(parts, GROUP_FORMATS[self.format])
        else:
            sent = _encode_plain(parts, PLAIN_FORMATS[self.format])
        # As bytes, because not all backends transfer all types.
        data = sent.view(torch.uint8)
        received = torch.empty_like(data)
        dist.all_to_all_single(received, data, group=group)
        return received.view(sent.dtype)

    def _decode(
        self, part: torch.Tensor, size: int, factor: float | None
    ) -> torch.Tensor:
        """Returns the terms of a sum in f32; they may share the memory of the message."""
        if self.format in GROUP_FORMATS:
            codes, scales = _split(part, GROUP_FORMATS[self.format])
            terms = dequantize_groups(codes, scales, size)
        else:
            terms = part.float()
        return terms if factor is None else terms * factor
