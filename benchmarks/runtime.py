"""Compiled steps in this process, through the runtime's C interface.

BINADE_RUNTIME names the library, where it is not that of the build directory.
"""

from __future__ import annotations

import ctypes
import os
import pathlib
import subprocess
from collections.abc import Sequence
from typing import NamedTuple

import ml_dtypes
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = pathlib.Path(os.environ.get("BINADE_BUILD", ROOT / "build" / "release"))
LIBRARY = os.environ.get("BINADE_RUNTIME", BUILD / "lib" / "libbinade_runtime.so")
DTYPES = {
    "F64": np.float64, "F32": np.float32, "F16": np.float16,
    "BF16": ml_dtypes.bfloat16, "F8_E4M3": np.uint8, "F8_E5M2": np.uint8, "U8": np.uint8,
    "I64": np.int64, "I32": np.int32, "I8": np.int8, "BOOL": np.bool_,
}  # fmt: skip


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("role", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("dtype", ctypes.c_char_p),
        ("data", ctypes.c_void_p),
        ("bytes", ctypes.c_size_t),
        ("rank", ctypes.c_int64),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
    ]


def compile_step(model: pathlib.Path, out: pathlib.Path, *options: str) -> pathlib.Path:
    """A bundle of `model`, made by the command that users call."""
    command = [BUILD / "bin" / "binade", "compile", model, "-o", out, *options]
    subprocess.run([str(part) for part in command], check=True)
    return out


class _Loaded:
    """A bundle that is loaded."""

    def __init__(self) -> None:
        self.handle = ctypes.c_void_p()
        self.library = ctypes.CDLL(str(LIBRARY))
        self.library.binade_last_error.restype = ctypes.c_char_p
        self.library.binade_program_tensor_count.restype = ctypes.c_size_t

    def __del__(self) -> None:
        if self.handle:
            self.library.binade_program_free(self.handle)

    def _check(self, status: int) -> None:
        if status != 0:
            raise RuntimeError(self.library.binade_last_error().decode())

    def run(self) -> None:
        self._check(self.library.binade_program_run(self.handle))


class Port(NamedTuple):
    index: int
    role: str
    name: str
    dtype: str
    shape: tuple[int, ...]


class BoundProgram(_Loaded):
    """A bundle whose ports of some roles are in memory of the caller."""

    def __init__(self, path: pathlib.Path, device: str, roles: Sequence[str]):
        super().__init__()
        self._check(
            self.library.binade_program_load_bound(
                str(path).encode(), device.encode(), ctypes.c_uint32(0),
                ",".join(roles).encode(), ctypes.byref(self.handle),
            )
        )  # fmt: skip
        self.ports = [
            port
            for port in map(self._describe, range(self._count()))
            if port.role in roles
        ]

    def _count(self) -> int:
        return self.library.binade_program_tensor_count(self.handle)

    def _describe(self, index: int) -> Port:
        tensor = _Tensor()
        self._check(
            self.library.binade_program_tensor_at(
                self.handle, ctypes.c_size_t(index), ctypes.byref(tensor)
            )
        )
        shape = tuple(tensor.shape[axis] for axis in range(tensor.rank))
        return Port(
            index,
            tensor.role.decode(),
            tensor.name.decode(),
            tensor.dtype.decode(),
            shape,
        )

    def bind(self, index: int, address: int) -> None:
        self._check(
            self.library.binade_program_bind(
                self.handle, ctypes.c_size_t(index), ctypes.c_void_p(address)
            )
        )

    def initialize(self) -> None:
        self._check(
            self.library.binade_program_initialize(self.handle, ctypes.c_uint64(0))
        )

    def enqueue(self, stream: int) -> None:
        self._check(
            self.library.binade_program_enqueue(self.handle, ctypes.c_void_p(stream))
        )


class Program(_Loaded):
    """A bundle that is loaded and initialized."""

    def __init__(self, path: pathlib.Path, threads: int = 0, seed: int = 0):
        super().__init__()
        self._check(
            self.library.binade_program_load(
                str(path).encode(), ctypes.c_uint32(threads), ctypes.c_uint64(seed),
                ctypes.byref(self.handle),
            )
        )  # fmt: skip

    def __getitem__(self, key: tuple[str, str]) -> np.ndarray:
        """The memory of tensor (role, name)."""
        tensor = _Tensor()
        role, name = key
        self._check(
            self.library.binade_program_tensor(
                self.handle, role.encode(), name.encode(), ctypes.byref(tensor)
            )
        )
        shape = [tensor.shape[i] for i in range(tensor.rank)]
        memory = (ctypes.c_byte * tensor.bytes).from_address(tensor.data)
        return np.frombuffer(memory, DTYPES[tensor.dtype.decode()]).reshape(shape)

    def set_profiling(self, on: bool) -> None:
        """Measures every record of the runs that follow, or none."""
        self._check(self.library.binade_program_set_profiling(self.handle, int(on)))

    def write_trace(self, path: pathlib.Path) -> None:
        """What was measured since, as Chrome's tracing has it."""
        self._check(
            self.library.binade_program_write_trace(self.handle, str(path).encode())
        )

    def read_arena(self, offset: int, count: int) -> bytes:
        data = ctypes.create_string_buffer(count)
        self._check(
            self.library.binade_program_read_arena(
                self.handle, ctypes.c_uint64(offset), data, ctypes.c_size_t(count)
            )
        )
        return data.raw

    def write_arena(self, offset: int, data: bytes) -> None:
        self._check(
            self.library.binade_program_write_arena(
                self.handle, ctypes.c_uint64(offset), data, ctypes.c_size_t(len(data))
            )
        )

    def run_record(self, records: str, path: list[int], iteration: list[int]) -> None:
        """One record of a list by itself; see `binade_program_run_record`."""
        self._check(
            self.library.binade_program_run_record(
                self.handle, records.encode(), (ctypes.c_size_t * len(path))(*path),
                ctypes.c_size_t(len(path)),
                (ctypes.c_int64 * len(iteration))(*iteration),
            )
        )  # fmt: skip
