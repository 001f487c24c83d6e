"""The C interface of the runtime, called from Python without any binding.

Bundles are written here from the description of the format, not by Binade's writer.
BINADE_BUILD names the build directory (default: build/release).
"""

import ctypes
import hashlib
import json
import os
import pathlib
import struct
import subprocess
import sys

import pytest

np = pytest.importorskip("numpy")

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BINADE_BUILD", ROOT / "build" / "release"))
LIBRARY = BUILD / "lib" / "libbinade_runtime.so"
KERNELS = BUILD / "lib" / "libBinadeTestKernels42.so"

pytestmark = pytest.mark.skipif(
    not (LIBRARY.exists() and KERNELS.exists()), reason=f"{LIBRARY} is not built"
)

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


@pytest.fixture(scope="module")
def runtime():
    return Runtime()


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


def descend(w, lr, steps):
    """The same in NumPy, in f64."""
    losses = []
    for _ in range(steps):
        error = w * X.astype(np.float64) - T
        losses.append(np.mean(error**2))
        w -= lr * np.mean(2 * error * X)
    return w, losses


@pytest.fixture
def program(runtime):
    code, program = runtime.load(write_bundle(regression_plan()), seed=11)
    assert code == 0, runtime.error()
    return program


def test_a_step_trains(program):
    assert program.assign("batch", "x", X) == 0
    assert program.assign("batch", "t", T) == 0
    assert program.assign("hyper", "lr", np.array(0.25)) == 0
    losses = []
    for _ in range(20):
        assert program.run() == 0
        losses.append(float(program.find("metric", "loss")))
    w, expected = descend(2.0, 0.25, 20)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    np.testing.assert_allclose(program.find("parameter", "w"), [w], rtol=1e-6)
    assert program.find("step", "step") == 20
    np.testing.assert_array_equal(program.find("output", "outer"), np.outer(X, X))


def test_initial_values(program):
    assert program.find("parameter", "w") == [2]
    assert program.find("hyper", "lr") == 0.5
    assert program.find("buffer", "running") == [7]
    np.testing.assert_array_equal(program.find("rng", "rng"), [11, 0])


def test_tensors_are_listed(program, runtime):
    assert program.tensor_count() == 11
    seen = []
    for index in range(11):
        tensor = Tensor()
        assert program.tensor_at(ctypes.c_size_t(index), ctypes.byref(tensor)) == 0
        seen.append((tensor.role.decode(), tensor.name.decode(), tensor.rank))
    assert seen[0] == ("parameter", "w", 1)
    assert seen[10] == ("output", "outer", 2)
    assert program.tensor_at(ctypes.c_size_t(11), ctypes.byref(Tensor())) == 2
    assert runtime.error() == "binade: error: tensor 11 of 11"


def test_state_goes_through_a_file(program, runtime, tmp_path):
    program.find("parameter", "w")[0] = 5
    program.find("step", "step")[...] = 3
    path = os.fsencode(tmp_path / "state.safetensors")
    assert program.save(path) == 0
    _, other = runtime.load(write_bundle(regression_plan()))
    assert other.restore(path) == 0
    assert other.find("parameter", "w") == [5]
    assert other.find("step", "step") == 3
    assert other.restore(os.fsencode(tmp_path / "none")) == 3
    assert "none" in runtime.error()
    assert program.save(os.fsencode(tmp_path / "no" / "directory")) != 0


def test_wrong_calls_are_explained(program, runtime):
    assert program.assign("batch", "y", X) == 2
    assert runtime.error() == "binade: error: the program has no batch 'y'"
    assert program.assign("input", "x", X) == 2
    assert runtime.error() == "binade: error: no role is called 'input'"
    assert program.assign("batch", "x", X[:3]) == 2
    assert runtime.error() == "binade: error: batch 'x' has 16 bytes, got 12"
    assert program.assign("batch", "t", np.int64([1, 2, 100, 3])) == 3
    assert runtime.error() == "batch 't': error: element 2 is 100, not in [0, 100)"
    assert program.assign("batch", "t", np.int64([1, 2, -1, 3])) == 0


def test_hyper_parameters_out_of_range_are_refused(program, runtime):
    for value, wrong in [
        (-0.5, "at least 0, got -0.5"),
        (1.0, "below 1, got 1"),
        (np.nan, "finite, got nan"),
    ]:
        assert program.assign("hyper", "lr", np.array(value)) == 3
        assert runtime.error() == f"hyper 'lr': error: lr must be {wrong}"
    assert program.find("hyper", "lr") == 0.5
    assert program.assign("hyper", "lr", np.array(0.0)) == 0
    assert program.find("hyper", "lr") == 0


def test_wrong_bundles_are_explained(runtime, tmp_path):
    code, _ = runtime.load(tmp_path / "absent")
    assert code == 3 and "absent" in runtime.error()
    code, _ = runtime.load(b"not a bundle")
    assert code == 3 and runtime.error().startswith("bundle in memory: error: ")
    plan = regression_plan()
    plan["records"][1]["m"] = 5
    code, _ = runtime.load(write_bundle(plan))
    assert code == 3
    assert runtime.error() == (
        "bundle in memory:record 1 'outer': error: lhs reaches element 4 of buffer "
        "'x', which has 4"
    )
    path = tmp_path / "good"
    path.write_bytes(write_bundle(regression_plan()))
    code, program = runtime.load(path, threads=1)
    assert code == 0 and program.run() == 0


def test_nothing_but_the_interface_is_exported(runtime):
    symbols = subprocess.run(
        ["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True
    ).stdout.split("\n")
    names = {line.split()[-1].split("@")[0] for line in symbols if line}
    assert {name for name in names if not name.startswith("binade_")} <= {"BINADE_1"}
    assert "binade_program_run" in names
    assert runtime.library.binade_c_api_version() == 2
    assert runtime.library.binade_version().decode().count(".") == 2


def test_a_process_with_torch_has_one_openmp(tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "bundle").write_bytes(write_bundle(regression_plan()))
    script = f"""
import sys
sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})
import torch
torch.set_num_threads(2)
before = torch.ones(300, 300) @ torch.ones(300, 300)
import test_runtime
runtime = test_runtime.Runtime()
code, program = runtime.load({str(tmp_path / "bundle")!r})
assert code == 0 and program.run() == 0, runtime.error()
assert torch.get_num_threads() == 2
assert torch.equal(torch.ones(300, 300) @ torch.ones(300, 300), before)
lines = open("/proc/self/maps").read().split("\\n")
print(len({{line.split()[-1] for line in lines if "gomp" in line}}))
"""
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=600
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "1"
