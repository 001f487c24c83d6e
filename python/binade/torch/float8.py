"""Quantization to floats of 8 bits with PyTorch's operations, on any device.

Codes and scales have the bits of ``binade.quantize`` and ``#binade.quantized``
(docs/generated/Dialect.md): arithmetic in f32, one rounding per operation, a saturating
cast with round to nearest even. Tests compare them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch

# Elements of a group with one scale, as in the formats e4m3 and e5m2.
GROUP = 128
# Elements that are converted at a time: on a CPU, as many as its cache has; on other devices,
# as few as limit the temporary memory to about 100 MiB.
_CPU_BLOCK, _BLOCK = 1 << 16, 1 << 24
_EXPONENT = 0x7F800000  # The bits of the exponent of a f32.


class TensorFormat(NamedTuple):
    """A format with one scale for a tensor: the type of its codes, and whether the scale is
    a power of two (the rule ``inverse_power`` instead of ``inverse``)."""

    dtype: torch.dtype
    isPower: bool = False


TENSOR_FORMATS = {
    "e4m3-tensor": TensorFormat(torch.float8_e4m3fn),
    "e4m3-power": TensorFormat(torch.float8_e4m3fn, isPower=True),
    "e5m2-tensor": TensorFormat(torch.float8_e5m2),
}
# Formats with a scale for each 128 elements.
GROUP_FORMATS = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}


def cast(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Returns f32 values in a float type of 8 bits: rounded to nearest even, magnitudes
    limited to the largest value, NaN as NaN. Overwrites ``values``."""
    largest = torch.finfo(dtype).max
    return values.clamp_(-largest, largest).to(dtype)


def choose_factors(
    amax: torch.Tensor, form: TensorFormat
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the factors and scales of whole tensors.

    Args:
      amax: The largest magnitude of each tensor in f32; NaN if it has a NaN.
      form: The format.

    Returns:
      What each tensor is multiplied by before rounding, at most the largest f32 and 1 for
      a tensor of zeros or one with a value that is not finite; and what its codes are
      multiplied by (the scale).
    """
    # PyTorch multiplies by the reciprocal where one side of a division is a Python number,
    # which rounds twice.
    factors = torch.full_like(amax, torch.finfo(form.dtype).max) / amax
    factors.clamp_(max=torch.finfo(torch.float32).max)
    if form.isPower:
        factors = (factors.view(torch.int32) & _EXPONENT).view(torch.float32)
    ones = torch.ones_like(factors)
    isUsual = torch.isfinite(amax) & (amax > 0)
    factors = torch.where(isUsual, factors, ones)
    return factors, ones / factors


def choose_group_scales(amax: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Returns the scales of groups (the rule ``amax``), by which values are divided before
    rounding.

    Args:
      amax: The largest magnitude of each group in f32. If it is not finite, so is the scale,
        and all dequantized values of the group are NaN.
      dtype: The type of the codes.
    """
    largest = torch.full_like(amax, torch.finfo(dtype).max)
    scales = (amax / largest).clamp_(min=torch.finfo(torch.float32).tiny)
    return torch.where(amax == 0, 1 / torch.finfo(dtype).max, scales)


def _get_block(tensor: torch.Tensor) -> int:
    return _CPU_BLOCK if tensor.device.type == "cpu" else _BLOCK


def _blocks(*tensors: torch.Tensor) -> Iterator[list[torch.Tensor]]:
    """Yields corresponding parts of flat tensors of equal size."""
    size = _get_block(tensors[0])
    for begin in range(0, tensors[0].numel(), size):
        yield [tensor[begin : begin + size] for tensor in tensors]


def _list_values(dtype: torch.dtype) -> torch.Tensor:
    """Returns the f32 values of all codes."""
    return torch.arange(256, dtype=torch.uint8).view(dtype).float()


def _look_up(table: torch.Tensor, codes: torch.Tensor, out: torch.Tensor) -> None:
    """Writes the entries of a table. On a CPU, PyTorch's cast from e4m3 takes three times
    as long."""
    for part, values in _blocks(codes.view(torch.uint8), out):
        torch.index_select(table, 0, part.int(), out=values)


def quantize_tensor(
    values: torch.Tensor, factor: torch.Tensor, codes: torch.Tensor
) -> None:
    """Writes the codes of a tensor, or of a part of it, whose factor is known.

    Args:
      values: A flat tensor of floats.
      factor: One f32 value, of ``choose_factors``.
      codes: A flat tensor of the size of ``values``, of a float type of 8 bits.
    """
    for part, out in _blocks(values, codes):
        out.copy_(cast(part.float() * factor, codes.dtype))


def dequantize_tensor(
    codes: torch.Tensor, scale: torch.Tensor, out: torch.Tensor
) -> None:
    """Writes codes times their scale, rounded to f32 and then to the type of ``out``.

    Args:
      codes: A flat tensor of a float type of 8 bits.
      scale: One f32 value.
      out: A flat tensor of floats of the size of ``codes``.
    """
    if codes.device.type == "cpu":
        table = (_list_values(codes.dtype) * scale).to(out.dtype)
        _look_up(table, codes, out)
        return
    for part, values in _blocks(codes, out):
        values.copy_(part.float() * scale)


def quantize_groups(
    values: torch.Tensor, codes: torch.Tensor, scales: torch.Tensor
) -> None:
    """Writes the codes and scales of groups of 128 elements.

    Args:
      values: A flat tensor of floats. Zeros complete the last group.
      codes: A flat tensor of a float type of 8 bits, whose size is a multiple of 128.
      scales: A flat f32 tensor with an element for each group.
    """
    for begin in range(0, codes.numel(), _get_block(codes)):
        end = begin + _get_block(codes)
        out, part = codes[begin:end], values[begin:end]
        missing = out.numel() - part.numel()
        groups = torch.nn.functional.pad(part.float(), (0, missing)).view(-1, GROUP)
        chosen = choose_group_scales(groups.abs().amax(-1), codes.dtype)
        scales[begin // GROUP : begin // GROUP + len(chosen)] = chosen
        out.copy_(cast(groups / chosen[:, None], codes.dtype).view(-1))


def dequantize_groups(
    codes: torch.Tensor, scales: torch.Tensor, size: int
) -> torch.Tensor:
    """Returns codes times the scales of their groups in f32.

    Args:
      codes: As ``quantize_groups`` writes them.
      scales: As ``quantize_groups`` writes them.
      size: The number of values without those that complete the last group.
    """
    if codes.device.type == "cpu":
        values = torch.empty(codes.numel())
        _look_up(_list_values(codes.dtype), codes, values)
    else:
        values = codes.float()
    values.view(-1, GROUP).mul_(scales[:, None])
    return values[:size]
