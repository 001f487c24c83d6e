"""The C interface of the runtime, called with ctypes, and bundles written by hand."""

import ctypes
import hashlib
import json
import os
import struct

import pytest
from support.paths import BUILD

np = pytest.importorskip("numpy")
LIBRARY = BUILD / "lib" / "libbinade_runtime.so"
KERNELS = BUILD / "lib" / "libBinadeTestKernels42.so"
TYPES = {
    "F32": np.float32, "F64": np.float64, "I64": np.int64, "BOOL": np.bool_,
    "U8": np.uint8,
}  # fmt: skip


class Tensor(ctypes.Structure):
    _fields_ = [
        ("role", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("dtype", ctypes.c_char_p),
        ("data", ctypes.c_void_p),
        ("bytes", ctypes.c_size_t),
        ("rank", ctypes.c_int64),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
    ]

    def array(self):
        """A view of the program's memory."""
        shape = [self.shape[i] for i in range(self.rank)]
        memory = (ctypes.c_byte * self.bytes).from_address(self.data)
        return np.frombuffer(memory, TYPES[self.dtype.decode()]).reshape(shape)


class Runtime:
    """The library with the types of its functions."""

    def __init__(self):
        self.library = ctypes.CDLL(str(LIBRARY))
        self.library.binade_last_error.restype = ctypes.c_char_p
        self.library.binade_version.restype = ctypes.c_char_p
        self.library.binade_program_tensor_count.restype = ctypes.c_size_t

    def error(self):
        return self.library.binade_last_error().decode()

    def load(self, bundle, threads=0, seed=0):
        program = ctypes.c_void_p()
        if isinstance(bundle, bytes):
            code = self.library.binade_program_load_memory(
                bundle, ctypes.c_size_t(len(bundle)), b"", ctypes.c_uint32(threads),
                ctypes.c_uint64(seed), ctypes.byref(program),
            )  # fmt: skip
        else:
            code = self.library.binade_program_load(
                os.fsencode(bundle), ctypes.c_uint32(threads), ctypes.c_uint64(seed),
                ctypes.byref(program),
            )  # fmt: skip
        return code, Program(self, program) if code == 0 else None


class Program:
    def __init__(self, runtime, handle):
        self.runtime, self.handle = runtime, handle

    def __del__(self):
        self.runtime.library.binade_program_free(self.handle)

    def __getattr__(self, name):
        function = getattr(self.runtime.library, f"binade_program_{name}")
        return lambda *arguments: function(self.handle, *arguments)

    def find(self, role, name):
        tensor = Tensor()
        code = self.tensor(role.encode(), name.encode(), ctypes.byref(tensor))
        assert code == 0, self.runtime.error()
        return tensor.array()

    def _loss_of(self, name):
        loss = ctypes.c_double()
        function = getattr(self.runtime.library, f"binade_program_{name}")
        return function(self.handle, ctypes.byref(loss)), loss.value

    def evaluate(self):
        return self._loss_of("evaluate")

    def accumulate(self):
        return self._loss_of("accumulate")

    def assign(self, role, name, array):
        return self.set(
            role.encode(), name.encode(), array.ctypes.data_as(ctypes.c_void_p),
            ctypes.c_size_t(array.nbytes),
        )  # fmt: skip


def write_safetensors(tensors, metadata):
    """Tensors as (name, type, shape, bytes), without a library."""
    header, data = {"__metadata__": metadata}, b""
    for name, dtype, shape, content in tensors:
        header[name] = {
            "dtype": dtype,
            "shape": shape,
            "data_offsets": [len(data), len(data) + len(content)],
        }
        data += content
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def write_bundle(plan):
    text, kernels = json.dumps(plan).encode(), KERNELS.read_bytes()
    metadata = {
        "format": "binade-bundle",
        "format_version": "1",
        "sha256.plan": hashlib.sha256(text).hexdigest(),
        "sha256.kernels/x86-64-v3": hashlib.sha256(kernels).hexdigest(),
    }
    return write_safetensors(
        [
            ("plan", "U8", [len(text)], text),
            ("kernels/x86-64-v3", "U8", [len(kernels)], kernels),
            ("init/running", "F32", [1], struct.pack("<f", 7.0)),
        ],
        metadata,
    )


def regression_plan():
    """Kernel `regression` of test/unittests/Runtime/Kernels.c, then a matmul."""
    specs = [
        ("parameter", "w", "F32", [1], {"kind": "fill", "value": 2}),
        ("batch", "x", "F32", [4], None),
        ("batch", "t", "I64", [4], None),
        ("hyper", "lr", "F64", [], {"kind": "fill", "value": 0.5}),
        ("metric", "loss", "F32", [], None),
        ("gradient", "w", "F32", [1], None),
        ("metric", "found_inf", "BOOL", [], None),
        ("step", "step", "I64", [], {"kind": "fill", "value": 0}),
        ("buffer", "running", "F32", [1], {"kind": "bundle", "tensor": "init/running"}),
        ("rng", "rng", "I64", [2], None),
        ("output", "outer", "F32", [4, 4], None),
    ]
    buffers, ports = [], []
    for index, (role, name, dtype, shape, init) in enumerate(specs):
        size = int(np.prod(shape)) * np.dtype(TYPES[dtype]).itemsize
        buffers.append(
            {"name": name, "offset": 64 * index, "bytes": size, "dtype": dtype,
             "shape": shape, "category": "workspace"}
        )  # fmt: skip
        port = {"role": role, "name": name, "buffer": index}
        ports.append(port | {"init": init} if init else port)
    ports[2]["check"] = {"low": 0, "high": 100, "ignored": -1}
    ports[3]["range"] = {"min": 0, "below": 1}
    operands = [{"buffer": index} for index in range(10)]
    return {
        "version": 1,
        "model": "regression",
        "policy": {"name": "fp32", "hash": "00"},
        "dims": {"batch": 4},
        "threads": 2,
        "skips_non_finite": True,
        "arena_bytes": 64 * len(specs),
        "ledger": {"workspace": 64 * len(specs)},
        "buffers": buffers,
        "ports": ports,
        "records": [
            {"kind": "launch", "label": "step", "kernel": "regression", "grain": 1,
             "segments": [{"operands": operands, "extent": 1}]},
            {"kind": "matmul", "label": "outer", "m": 4, "n": 4, "k": 1,
             "lhs": {"buffer": 1, "strides": [1, 1]},
             "rhs": {"buffer": 1, "strides": [1, 1]},
             "out": {"buffer": 10, "strides": [4, 1]}},
        ],
    }  # fmt: skip


X = np.float32([1, 0.5, -1, 0.25])
T = np.int64([3, 1, 0, 2])
