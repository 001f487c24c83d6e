"""The C interface of exchanges, called by ctypes: two ranks that are threads."""

import ctypes
import threading

import numpy as np
import pytest
from support.runtime import LIBRARY, Runtime

if not LIBRARY.exists():
    pytest.skip(f"{LIBRARY} is not built", allow_module_level=True)
pytest.importorskip("onnx")

from support.exchanged_steps import compile_bundle  # noqa: E402

SUM, MAX, START, JOIN = 0, 1, 0, 1
TYPES = {b"F32": np.float32, b"I32": np.int32, b"I64": np.int64}
CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_uint32,
    ctypes.c_void_p,
)  # fmt: skip


class Transfer(ctypes.Structure):
    _fields_ = (
        ("operation", ctypes.c_int32),
        ("dtype", ctypes.c_char_p),
        ("send", ctypes.c_void_p),
        ("receive", ctypes.c_void_p),
        ("count", ctypes.c_size_t),
    )


@pytest.fixture(scope="module")
def runtime():
    runtime = Runtime()
    runtime.library.binade_exchange_bucket_count.argtypes = [ctypes.c_void_p]
    runtime.library.binade_exchange_fail.restype = None
    return runtime


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    path = tmp_path_factory.mktemp("api") / "step.bnd"
    compile_bundle(path, "exact", accumulate=2)
    return path


def load(runtime, bundle):
    program = ctypes.c_void_p()
    assert runtime.library.binade_program_load(
        str(bundle).encode(), ctypes.c_uint32(1), ctypes.c_uint64(1), ctypes.byref(program)
    ) == 0, runtime.error()  # fmt: skip
    return program


def join(runtime, program, rank, size, callback):
    return runtime.library.binade_program_set_exchange(
        program, ctypes.c_uint32(rank), ctypes.c_uint32(size), callback, None
    )


def view(transfer):
    dtype = np.dtype(TYPES[transfer.dtype])
    bytes = (ctypes.c_char * (transfer.count * dtype.itemsize)).from_address(
        transfer.receive
    )
    return np.frombuffer(bytes, dtype)


def test_the_version(runtime):
    assert runtime.library.binade_c_api_version() >= 4


def test_two_ranks_exchange(runtime, bundle):
    library, barrier, sent = runtime.library, threading.Barrier(2), [None, None]
    found, codes = [[], []], [None, None]

    def make(rank):
        def exchange(user, handle, event, bucket, stream):
            found[rank].append((event, bucket))
            if event == JOIN:
                assert bucket == library.binade_exchange_bucket_count(handle)
                return 0
            handle = ctypes.c_void_p(handle)
            count = library.binade_exchange_transfer_count(
                handle, ctypes.c_uint32(bucket)
            )
            for index in range(count):
                transfer = Transfer()
                assert library.binade_exchange_transfer(
                    handle, ctypes.c_uint32(bucket), ctypes.c_uint32(index),
                    ctypes.byref(transfer),
                ) == 0  # fmt: skip
                assert transfer.send == transfer.receive
                assert transfer.send % 64 == 0
                sent[rank] = view(transfer).copy()
                barrier.wait()
                combine = np.add if transfer.operation == SUM else np.maximum
                view(transfer)[:] = combine(sent[0], sent[1])
                barrier.wait()
            return library.binade_exchange_finish(handle, ctypes.c_uint32(bucket))

        return CALLBACK(exchange)

    programs = [load(runtime, bundle) for _ in range(2)]
    callbacks = [make(rank) for rank in range(2)]
    for rank in range(2):
        assert join(runtime, programs[rank], rank, 2, callbacks[rank]) == 0

    def step(rank):
        codes[rank] = library.binade_program_run(programs[rank])

    threads = [threading.Thread(target=step, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == [0, 0]
    assert found[0] == found[1]
    assert found[0][0] == (START, 0)
    assert [event for event, _ in found[0]].count(JOIN) == 1
    for program in programs:
        library.binade_program_free(program)


def test_errors(runtime, bundle):
    library, program = runtime.library, load(runtime, bundle)
    assert join(runtime, program, 2, 2, CALLBACK(lambda *given: 0)) == 2
    assert "rank 2 of a group of 2" in runtime.error()

    def fail(user, handle, event, bucket, stream):
        library.binade_exchange_fail(ctypes.c_void_p(handle), b"the cable is cut")
        return 7

    kept = CALLBACK(fail)
    assert join(runtime, program, 0, 2, kept) == 0
    assert library.binade_program_run(program) == 9
    assert "the exchange of bucket 0 of" in runtime.error()
    assert "failed: the cable is cut" in runtime.error()
    assert join(runtime, program, 0, 1, CALLBACK()) == 0  # Null: alone again.
    assert (
        library.binade_program_accumulate(program, ctypes.byref(ctypes.c_double())) == 0
    )
    assert library.binade_program_run(program) == 0
    library.binade_program_free(program)


@pytest.mark.parametrize("role", ["accumulator", "rng"])
def test_exchanged_memory_is_not_the_callers(role, runtime, bundle):
    program = ctypes.c_void_p()
    assert runtime.library.binade_program_load_bound(
        str(bundle).encode(), b"cpu", ctypes.c_uint32(1), role.encode(), ctypes.byref(program)
    ) == 2  # fmt: skip
    assert "cannot be in memory of the caller" in runtime.error()
