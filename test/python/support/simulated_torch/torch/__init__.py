"""A stand-in for PyTorch on the simulated driver, for tests of benchmarks/gpu.

Tensors are memory of the driver, which ops only read; a captured op reads the addresses that
it had when it was captured, whether or not the tensors are still there. The variable
SIMULATED_TORCH may name a fault: `dies` frees a tensor of a captured optimizer, and `refuses`
makes compiled functions fail when they are called.
"""

import contextlib
import ctypes
import functools
import os
import types

__version__ = "0 (simulated)"
version = types.SimpleNamespace(cuda="13.0")
FAULT = os.environ.get("SIMULATED_TORCH", "")
SIZE = 64  # Bytes of any tensor.


def check(status):
    if status:
        raise RuntimeError(
            f"CUDA error: an illegal memory access was encountered ({status})"
        )


class Device:
    """The driver's first device. It is opened with the first tensor."""

    def __init__(self):
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.stream, context = ctypes.c_void_p(), ctypes.c_void_p()
        check(self.driver.cuInit(0))
        check(self.driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
        check(self.driver.cuCtxSetCurrent(context))
        check(self.driver.cuStreamCreate(ctypes.byref(self.stream), 1))
        self.graph = None  # The one that is captured.

    def allocate(self):
        address = ctypes.c_uint64()
        check(self.driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(SIZE)))
        return address.value

    def free(self, address):
        self.driver.cuMemFree_v2(ctypes.c_uint64(address))

    def run(self, addresses):
        """Reads the addresses, now or when the captured graph runs."""
        if self.graph is not None:
            self.graph.ops.append(addresses)
            return
        for address in addresses:
            data = ctypes.create_string_buffer(SIZE)
            where, size = ctypes.c_uint64(address), ctypes.c_size_t(SIZE)
            check(self.driver.cuMemcpyDtoHAsync_v2(data, where, size, self.stream))


@functools.cache
def open_device():
    return Device()


class Tensor:
    def __init__(self):
        self.address = open_device().allocate()

    def __del__(self):
        open_device().free(self.address)

    def cuda(self):
        return self

    bfloat16 = cuda

    def copy_(self, other):
        open_device().run([self.address, other.address])


def make(*_, **__):
    return Tensor()


from_numpy = randn = empty_like = zeros = ones = tensor = make


def compile(function, **_):  # As PyTorch calls it.
    def refuse(*_):
        raise RuntimeError("Unsupported: a call on this device")

    return refuse if FAULT == "refuses" else lambda *_: open_device().run([])


class Parameter(Tensor):
    def __init__(self, _):
        super().__init__()


class AdamW:
    def __init__(self, parameters, **_):
        self.tensors = [x for p in parameters for x in (p, p.grad)]

    def step(self):
        scratch = Tensor()
        open_device().run([x.address for x in [*self.tensors, scratch]])
        if FAULT != "dies":
            self.tensors.append(scratch)


class CUDAGraph:
    def __init__(self):
        self.ops = []

    def replay(self):
        for addresses in self.ops:
            open_device().run(addresses)


class Stream:
    pass


@contextlib.contextmanager
def capture(graph, **_):
    open_device().graph = graph
    try:
        yield
    finally:
        open_device().graph = None


cuda = types.SimpleNamespace(
    is_available=lambda: True, synchronize=lambda: None, empty_cache=lambda: None,
    Stream=Stream, stream=lambda _: contextlib.nullcontext(), CUDAGraph=CUDAGraph,
    graph=capture,
)  # fmt: skip
nn = types.SimpleNamespace(Parameter=Parameter)
optim = types.SimpleNamespace(AdamW=AdamW)
compiler = types.SimpleNamespace(reset=lambda: None)
