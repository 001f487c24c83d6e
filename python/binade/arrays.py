"""Converts arrays of any library to the bytes of a port, and ports to numpy arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from binade import _core
from binade.errors import UsageError
from binade.safetensors import DTYPES

# Types that numpy has no DLPack code for, by (code, bits) of DLPack.
_EXTENDED = {
    (4, 16): ml_dtypes.bfloat16,
    (10, 8): ml_dtypes.float8_e4m3fn,
    (12, 8): ml_dtypes.float8_e5m2,
    (14, 8): ml_dtypes.float8_e8m0fnu,
}


def as_array(values: Any, place: str = "the values") -> np.ndarray:
    """Returns a numpy array of an object with DLPack or numpy's protocol, or of a list.

    Dense CPU memory is shared without a copy. An array on another device is first copied
    to the CPU by its own library. ``place`` names the values in errors.

    Raises:
      UsageError: If it is not a dense array of numbers.
    """
    if not isinstance(values, np.ndarray) and hasattr(values, "__dlpack__"):
        return _from_dlpack(values, place)
    try:
        array = np.asarray(values)
    except ValueError as error:  # Lists whose rows have different lengths.
        raise UsageError(f"{place}: no array of numbers: {error}") from error
    if array.dtype.kind in "OSUMm":
        raise UsageError(
            f"{place}: expected numbers, got {type(values).__name__} of {array.dtype}"
        )
    return array


def _from_dlpack(values: Any, place: str) -> np.ndarray:
    if getattr(values, "requires_grad", False):
        values = values.detach()
    try:
        device, _ = values.__dlpack_device__()
    except (BufferError, ValueError) as error:  # PyTorch's device "meta".
        raise UsageError(f"{place}: no memory to read: {error}") from error
    if device not in (1, 3):  # kDLCPU, and pinned by CUDA.
        return as_array(_copy_to_host(values, int(device), place), place)
    try:
        memory, code, bits, shape = _core.read_dlpack(values)
    except TypeError as error:  # PyTorch's sparse tensors say no better.
        raise UsageError(
            f"{place}: cannot be read as a dense array, got {type(values).__name__}"
        ) from error
    if (code, bits) in _EXTENDED:
        return memory.view(_EXTENDED[code, bits]).reshape(shape)
    kind = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}.get(code)
    if kind is None:
        raise UsageError(
            f"{place}: no array has DLPack type code {code} with {bits} bits"
        )
    return memory.view(f"{kind}{bits // 8}").reshape(shape)


def _copy_to_host(values: Any, device: int, place: str) -> Any:
    for name in ("cpu", "get"):  # As PyTorch and CuPy call it.
        if callable(copy := getattr(values, name, None)):
            return copy()
    if hasattr(values, "__array__"):  # JAX
        return np.asarray(values)
    raise UsageError(
        f"{place}: is on DLPack device type {device}, from which {type(values).__name__} "
        "has no copy; expected memory of the CPU"
    )


def as_bytes(
    values: object, dtype: str, shape: Sequence[int], place: str
) -> np.ndarray:
    """Returns ``values`` as the bytes of a port with this element type and shape.

    Floats are rounded to the port's type; integers must fit into it.

    Raises:
      UsageError: If the shape or the kind of type (float, integer, bool, complex)
        differs, or an integer does not fit.
    """
    array = as_array(values, place)
    if array.shape != tuple(shape):
        raise UsageError(f"{place} has shape {list(shape)}, got {list(array.shape)}")
    wanted = DTYPES[dtype]
    if array.dtype != wanted:
        if _kind(array.dtype) not in (_kind(wanted), "integer"):
            raise UsageError(f"{place} has type {wanted}, got {array.dtype}")
        cast = array.astype(wanted)
        if _kind(wanted) == "integer" and not np.array_equal(cast, array):
            raise UsageError(f"{place} has type {wanted}, which does not hold all "
                             f"of the values of type {array.dtype}")  # fmt: skip
        array = cast
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _kind(dtype: np.dtype) -> str:
    # The types of ml_dtypes have kinds of their own.
    kinds = {"i": "integer", "u": "integer", "b": "bool", "c": "complex"}
    return kinds.get(dtype.kind, "float")


def from_bytes(memory: np.ndarray, dtype: str, shape: Sequence[int]) -> np.ndarray:
    """Returns a view of a port's bytes as an array of its type and shape."""
    assert memory.size == math.prod(shape) * DTYPES[dtype].itemsize
    return memory.view(DTYPES[dtype]).reshape(tuple(shape))
