"""Reads and writes safetensors files as numpy arrays, BF16 and FP8 included.

The ``safetensors`` package has no numpy types for BF16 and FP8; this module uses those of
``ml_dtypes``. The whole header of a file is checked before an array is created.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from binade.errors import RejectedError, reading, writing

_MAX_HEADER = 100_000_000
_ALIGNMENT = 8

# numpy types by the names of the safetensors format.
DTYPES: dict[str, np.dtype] = {
    name: np.dtype(dtype).newbyteorder("<")
    if np.dtype(dtype).kind in "iufc"
    else np.dtype(dtype)
    for name, dtype in {
        "F64": np.float64,
        "F32": np.float32,
        "F16": np.float16,
        "BF16": ml_dtypes.bfloat16,
        "F8_E4M3": ml_dtypes.float8_e4m3fn,
        "F8_E5M2": ml_dtypes.float8_e5m2,
        "F8_E8M0": ml_dtypes.float8_e8m0fnu,
        "I64": np.int64,
        "I32": np.int32,
        "I16": np.int16,
        "I8": np.int8,
        "U64": np.uint64,
        "U32": np.uint32,
        "U16": np.uint16,
        "U8": np.uint8,
        "BOOL": np.bool_,
    }.items()
}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}


@dataclass(frozen=True)
class TensorInfo:
    """Where one tensor of a file is.

    Attributes:
      dtype: Name of the element type in the format, for example ``"BF16"``.
      shape: Sizes; empty for a scalar.
      offset: First byte, counted from the start of the file.
      length: Bytes.
    """

    dtype: str
    shape: tuple[int, ...]
    offset: int
    length: int


@dataclass(frozen=True)
class Header:
    """Tensors and metadata of a file; tensors are in the order of their bytes."""

    tensors: dict[str, TensorInfo]
    metadata: dict[str, str]


def dtype_name(dtype: np.dtype) -> str:
    """Returns the format's name of a numpy type, for example ``"F32"``."""
    name = _NAMES.get(np.dtype(dtype))
    if name is None:
        raise RejectedError(
            f"safetensors has no element type for numpy's "
            f"'{np.dtype(dtype)}'; it has {' '.join(DTYPES)}"
        )
    return name


def read_header(path: str | os.PathLike[str]) -> Header:
    """Reads and checks the header of a file.

    Raises:
      RejectedError: If there is no such file, or it is not a valid safetensors file;
        the message names the file and the tensor.
      FileError: If the system refuses to read it.
    """
    path = os.fspath(path)

    def reject(text: str) -> RejectedError:
        return RejectedError(f"{path}: {text}", where=path, message=text)

    with reading(path), open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size < 8:
            raise reject(f"a safetensors file has at least 8 bytes, this one {size}")
        length = int.from_bytes(file.read(8), "little")
        if length > min(size - 8, _MAX_HEADER):
            raise reject(
                f"the header claims {length} bytes, but the file has "
                f"{size - 8} after the length and the limit is {_MAX_HEADER}"
            )
        text = file.read(length)
    try:
        header = json.loads(text.decode("utf-8"), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise reject(f"the header is not valid JSON: {error}") from error
    if not isinstance(header, dict):
        raise reject("the header is not a JSON object")

    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(
        isinstance(value, str) for value in metadata.values()
    ):
        raise reject("__metadata__ must map names to strings")
    tensors: dict[str, TensorInfo] = {}
    end = 0
    places = {name: _check_entry(name, entry, reject) for name, entry in header.items()}
    for name, (begin, stop) in sorted(places.items(), key=lambda item: item[1]):
        if begin != end:
            kind = "a hole" if begin > end else "an overlap"
            raise reject(
                f"tensor '{name}' begins at byte {begin} of the data, where "
                f"{end} was expected: {kind}"
            )
        end = stop
        entry = header[name]
        tensors[name] = TensorInfo(
            entry["dtype"], tuple(entry["shape"]), 8 + length + begin, stop - begin
        )
    if 8 + length + end != size:
        raise reject(f"the tensors end at byte {8 + length + end}, the file at {size}")
    return Header(tensors, metadata)


def load(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Reads all tensors of a file into newly allocated arrays.

    Raises:
      RejectedError, FileError: As ``read_header``.
    """
    header = read_header(path)
    arrays = {}
    with reading(path), open(path, "rb") as file:
        for name, info in header.tensors.items():
            file.seek(info.offset)
            data = bytearray(info.length)
            if file.readinto(data) != info.length:
                raise RejectedError(
                    f"{os.fspath(path)}: the file was cut while "
                    f"tensor '{name}' was read"
                )
            array = np.frombuffer(data, DTYPES[info.dtype])
            arrays[name] = array.reshape(info.shape)
    return arrays


def save(
    path: str | os.PathLike[str],
    tensors: Mapping[str, np.ndarray],
    metadata: Mapping[str, str] | None = None,
) -> Header:
    """Writes a file; an existing one is replaced only when the new one is complete.

    Tensors are stored by falling element size, so that each is aligned, and in the given
    order within a size.

    Args:
      path: The file to write.
      tensors: Arrays by name.
      metadata: Text by name for the ``__metadata__`` entry.

    Returns:
      The header as ``read_header`` would give it.

    Raises:
      RejectedError: If the format has no type for a tensor, or a name is reserved.
      FileError: If the system refuses to write the file.
    """
    path = os.fspath(path)
    arrays = {name: np.asarray(array, order="C") for name, array in tensors.items()}
    if "__metadata__" in arrays:
        raise RejectedError(f"{path}: no tensor can be called '__metadata__'")
    entries: dict[str, object] = {}
    if metadata:
        entries["__metadata__"] = dict(metadata)
    places: dict[str, TensorInfo] = {}
    end = 0
    for name in sorted(arrays, key=lambda name: -arrays[name].itemsize):
        array = arrays[name]
        dtype = dtype_name(array.dtype.newbyteorder("<"))
        entries[name] = {
            "dtype": dtype,
            "shape": list(array.shape),
            "data_offsets": [end, end + array.nbytes],
        }
        places[name] = TensorInfo(dtype, array.shape, end, array.nbytes)
        end += array.nbytes
    text = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)

    parts = [len(text).to_bytes(8, "little"), text]
    for name in places:
        array = arrays[name]
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        parts.append(little.reshape(-1).view(np.uint8).data)
    with writing(path):
        _replace(path, parts)
    start = 8 + len(text)
    return Header(
        {
            name: TensorInfo(
                place.dtype, place.shape, start + place.offset, place.length
            )
            for name, place in places.items()
        },
        dict(metadata or {}),
    )


def _replace(path: str, parts: Iterable[bytes | memoryview]) -> None:
    """Writes a temporary file next to `path` and renames it when it is complete."""
    handle, temporary = tempfile.mkstemp(
        prefix=os.path.basename(path) + ".", dir=os.path.dirname(path) or "."
    )
    try:
        with os.fdopen(handle, "wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Builds a JSON object and refuses a name that comes twice."""
    result = dict(pairs)
    if len(result) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the name '{twice}' comes twice")
    return result


def _check_entry(name: str, entry: object, reject) -> tuple[int, int]:
    """Returns begin and end of a tensor's bytes after checking its entry."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise reject(f"tensor '{name}' must have dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if dtype not in DTYPES:
        raise reject(
            f"tensor '{name}' has element type {dtype!r}; known are {' '.join(DTYPES)}"
        )
    if not _are_sizes(shape) or not _are_sizes(offsets) or len(offsets) != 2:
        raise reject(
            f"shape and data_offsets of tensor '{name}' must be lists of "
            f"non-negative integers, got {shape!r} and {offsets!r}"
        )
    begin, stop = offsets
    expected = math.prod(shape) * DTYPES[dtype].itemsize
    if stop - begin != expected:
        raise reject(
            f"tensor '{name}' of {dtype} {shape} needs {expected} bytes, but "
            f"its data_offsets {offsets} hold {stop - begin}"
        )
    return begin, stop


def _are_sizes(value: object) -> bool:
    return isinstance(value, list) and all(
        type(item) is int and item >= 0 for item in value
    )


def _umask() -> int:
    """Returns the process's file mode mask, which can only be read by setting it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask
