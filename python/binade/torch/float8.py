"""Quantization to floats of 8 bits with PyTorch's operations, on any device.

Codes and scales have the bits of ``binade.quantize`` and ``#binade.quantized``
(docs/generated/Dialect.md): arithmetic in f32, one rounding per operation, a saturating
cast with round to nearest even. Tests compare them.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

# Elements of a group with one scale, as in the formats e4m3 and e5m2.
GROUP = 128
# Elements that are converted at a time, which limits the temporary memory to 64 MiB.
_BLOCK = 1 << 24
# Formats with one scale for a tensor: those of Transformer Engine's current scaling.
TENSOR_FORMATS = {
    "e4m3-tensor": torch.float8_e4m3fn,
    "e5m2-tensor": torch.float8_e5m2,
}
# Formats with a scale for each 128 elements.
GROUP_FORMATS = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}


def cast(values: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Returns f32 values in a float type of 8 bits: rounded to nearest even, magnitudes
    limited to the largest value, NaN as NaN. Overwrites ``values``."""
    largest = torch.finfo(dtype).max
    return values.clamp_(-largest, largest).to(dtype)


def choose_factors(
    amax: torch.Tensor, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the factors and scales of whole tensors (the rule ``inverse``).

    Args:
      amax: The largest magnitude of each tensor in f32; NaN if it has a NaN.
      dtype: The type of the codes.

    Returns:
      What each tensor is multiplied by before rounding, at most the largest f32 and 1 for
      a tensor of zeros or one with a value that is not finite; and what its codes are
      multiplied by (the scale).
    """
    # PyTorch multiplies by the reciprocal where one side of a division is a Python number,
    # which rounds twice.
    factors = torch.full_like(amax, torch.finfo(dtype).max) / amax
    factors.clamp_(max=torch.finfo(torch.float32).max)
    ones = torch.ones_like(factors)
    isUsual = torch.isfinite(amax) & (amax > 0)
    factors = torch.where(isUsual, factors, ones)
    return factors, ones / factors


def _blocks(*tensors: torch.Tensor) -> Iterator[list[torch.Tensor]]:
    """Yields corresponding parts of flat tensors of equal size."""
    for begin in range(0, tensors[0].numel(), _BLOCK):
        yield [tensor[begin : begin + _BLOCK] for tensor in tensors]


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
    for part, values in _blocks(codes, out):
        values.copy_(part.float() * scale)


def quantize_groups(
    values: torch.Tensor, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the codes and f32 scales of groups (the rule ``amax``). A value that is not
    finite makes the scale of its group infinite or NaN, and all dequantized values NaN.

    Args:
      values: A tensor of floats, whose last axis is a group.
      dtype: The type of the codes.

    Returns:
      Codes of the shape of ``values``, and a scale for each group: the same shape with 1 as
      last axis.
    """
    values = values.float()
    amax = values.abs().amax(-1, keepdim=True)
    largest = torch.full_like(amax, torch.finfo(dtype).max)
    scales = (amax / largest).clamp_(min=torch.finfo(torch.float32).tiny)
    scales = torch.where(amax == 0, 1 / torch.finfo(dtype).max, scales)
    return cast(values / scales, dtype), scales


def dequantize_groups(codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Returns codes times the scales of their groups in f32."""
    return codes.float() * scales
