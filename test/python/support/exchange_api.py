"""Ranks that are threads and exchange by the C interface, called by ctypes."""

import ctypes
import threading

import numpy as np

SUM, MAX, ALL_GATHER, START, JOIN = 0, 1, 3, 0, 1
TYPES = {b"F32": np.float32, b"I32": np.int32, b"I64": np.int64, b"U8": np.uint8}
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


def view(address, transfer, times=1):
    """Returns the memory of a transfer at an address."""
    dtype = np.dtype(TYPES[transfer.dtype])
    size = times * transfer.count * dtype.itemsize
    return np.frombuffer((ctypes.c_char * size).from_address(address), dtype)


class Group:
    """Ranks that are threads.

    Attributes:
      callbacks: The callback of each rank.
      events: The calls of each.
      errors: The message of each after `run`.
    """

    def __init__(self, library, size, failing=None):
        """The start of bucket `failing` returns an error."""
        library.binade_last_error.restype = ctypes.c_char_p
        self._failing, self.errors = failing, [""] * size
        self._library, self._size = library, size
        self._barrier = threading.Barrier(size)
        self._sent = [None] * size
        self.events = [[] for _ in range(size)]
        self.callbacks = [self._make(rank) for rank in range(size)]

    def run(self, programs):
        """Executes a step of each program; returns the exit codes."""
        codes = [None] * self._size

        def step(rank):
            codes[rank] = self._library.binade_program_run(programs[rank])
            if codes[rank]:  # Of this thread.
                self.errors[rank] = self._library.binade_last_error().decode()

        threads = [threading.Thread(target=step, args=(r,)) for r in range(self._size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return codes

    def _make(self, rank):
        library = self._library

        def exchange(user, handle, event, bucket, stream):
            self.events[rank].append((event, bucket))
            if event == JOIN:
                assert bucket == library.binade_exchange_bucket_count(handle)
                return 0
            if bucket == self._failing:
                return 7
            handle, bucket = ctypes.c_void_p(handle), ctypes.c_uint32(bucket)
            count = library.binade_exchange_transfer_count(handle, bucket)
            for index in range(count):
                transfer = Transfer()
                assert library.binade_exchange_transfer(
                    handle, bucket, ctypes.c_uint32(index), ctypes.byref(transfer)
                ) == 0  # fmt: skip
                self._perform(rank, transfer)
            return library.binade_exchange_finish(handle, bucket)

        return CALLBACK(exchange)

    def _perform(self, rank, transfer):
        assert transfer.send % 64 == 0
        self._sent[rank] = view(transfer.send, transfer).copy()
        self._barrier.wait()
        if transfer.operation == ALL_GATHER:
            received = view(transfer.receive, transfer, self._size)
            received[:] = np.concatenate(self._sent)
        else:
            assert transfer.send == transfer.receive
            combine = np.sum if transfer.operation == SUM else np.max
            view(transfer.receive, transfer)[:] = combine(self._sent, axis=0)
        self._barrier.wait()
