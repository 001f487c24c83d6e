"""Converts numpy arrays of a step to PyTorch tensors."""

from __future__ import annotations

import numpy as np
import torch

# PyTorch's types with the same encoding as the types of ml_dtypes.
_EXTENDED = {
    "bfloat16": torch.bfloat16,
    "float8_e4m3fn": torch.float8_e4m3fn,
    "float8_e5m2": torch.float8_e5m2,
    "float8_e8m0fnu": torch.float8_e8m0fnu,
}


def to_torch(array: np.ndarray) -> torch.Tensor:
    """Returns a tensor that shares the memory of an array."""
    if array.dtype.name not in _EXTENDED:
        return torch.from_numpy(array)
    bits = array.view(f"i{array.dtype.itemsize}")
    return torch.from_numpy(bits).view(_EXTENDED[array.dtype.name])
