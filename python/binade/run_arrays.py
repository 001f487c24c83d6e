"""Hashes of the arrays in the files that a run has read."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

import numpy as np

from binade import safetensors

_CHUNK = 1 << 24


@functools.cache
def hash_arrays(path: Path, expected: str) -> dict[str, str]:
    """Returns the hashes of the arrays in a file by name.

    Raises:
      ValueError: If the SHA-256 of the file is not the expected one.
    """
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != expected:
            raise ValueError(f"{path} has changed")
        file.seek(0)
        magic = file.read(6)
    if magic == b"\x93NUMPY":
        return {path.stem: _hash_array(np.load(path, mmap_mode="r"))}
    if magic.startswith(b"PK"):
        with np.load(path) as arrays:
            return {name: _hash_array(arrays[name]) for name in arrays.files}
    return {name: _hash_array(array) for name, array in safetensors.load(path).items()}


def _hash_array(array: np.ndarray) -> str:
    """Returns a hash of the element type, shape and elements."""
    dtype = safetensors.dtype_name(array.dtype)
    digest = hashlib.sha256(f"{dtype} {list(array.shape)}\n".encode())
    flat = array.reshape(-1)
    for start in range(0, flat.size, _CHUNK):
        digest.update(np.ascontiguousarray(flat[start : start + _CHUNK]).view(np.uint8))
    return digest.hexdigest()
