"""Sharded optimizer states by the C interface: two ranks that are threads."""

import ctypes

import numpy as np
import pytest
from support.runtime import LIBRARY, Runtime, Tensor

if not LIBRARY.exists():
    pytest.skip(f"{LIBRARY} is not built", allow_module_level=True)
pytest.importorskip("onnx")

from support.exchange_api import JOIN, START, Group, join, load  # noqa: E402
from support.exchanged_steps import compile_bundle  # noqa: E402

SIZE = 2


@pytest.fixture(scope="module")
def runtime():
    runtime = Runtime()
    runtime.library.binade_exchange_bucket_count.argtypes = [ctypes.c_void_p]
    return runtime


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    path = tmp_path_factory.mktemp("api") / "step.bnd"
    compile_bundle(path, "exact", accumulate=SIZE)
    return path


def shard(runtime, program, rank, size=SIZE):
    part = ctypes.c_void_p()
    code = runtime.library.binade_program_shard_states(
        program, ctypes.c_uint32(rank), ctypes.c_uint32(size), ctypes.byref(part)
    )
    return code, part


def read(runtime, program, roles):
    """The values of ports, with the index of their first element and the whole shape."""
    found = {}
    for index in range(runtime.library.binade_program_tensor_count(program)):
        tensor, first, rank = Tensor(), ctypes.c_int64(), ctypes.c_int64()
        shape = ctypes.POINTER(ctypes.c_int64)()
        place = ctypes.c_size_t(index)
        assert runtime.library.binade_program_tensor_at(
            program, place, ctypes.byref(tensor)
        ) == 0  # fmt: skip
        assert runtime.library.binade_program_tensor_shard(
            program, place, ctypes.byref(first), ctypes.byref(rank), ctypes.byref(shape)
        ) == 0  # fmt: skip
        if tensor.role.decode() in roles:
            values = np.frombuffer(
                ctypes.string_at(tensor.data, tensor.bytes), np.uint8
            )
            found[tensor.name] = values, first.value, shape[: rank.value]
    return found


def train(runtime, programs):
    group = Group(runtime.library, SIZE)
    for rank in range(SIZE):
        assert join(runtime, programs[rank], rank, SIZE, group.callbacks[rank]) == 0
    assert group.run(programs) == group.run(programs) == [0, 0]
    return group


def test_ranks_with_parts_compute_what_ranks_with_all_states_do(runtime, bundle):
    whole = [load(runtime, bundle) for _ in range(SIZE)]
    parts = [shard(runtime, program, rank)[1] for rank, program in enumerate(whole)]
    train(runtime, whole)
    group = train(runtime, parts)
    for part in parts:
        own = read(runtime, part, ["parameter", "step", "rng"])
        for name, (values, _, _) in read(
            runtime, whole[0], ["parameter", "step", "rng"]
        ).items():
            assert (own[name][0] == values).all(), name
    both = [read(runtime, part, ["state"]) for part in parts]
    for name, (values, first, shape) in read(runtime, whole[0], ["state"]).items():
        pieces = [one[name] for one in both]
        assert first == 0 and all(piece[2] == shape for piece in pieces)
        assert (np.concatenate([piece[0] for piece in pieces]) == values).all(), name
    # The gather has a start and a join of its own.
    events = group.events[0][: len(group.events[0]) // 2]
    last = max(bucket for event, bucket in events if event == START)
    assert events[-3:] == [(JOIN, last + 1), (START, last), (JOIN, last + 1)]
    for program in [*whole, *parts]:
        runtime.library.binade_program_free(program)


def test_errors(runtime, bundle, tmp_path):
    library, whole = runtime.library, load(runtime, bundle)
    code, _ = shard(runtime, whole, 2)
    assert code == 2 and "rank 2 of a group of 2" in runtime.error()
    _, part = shard(runtime, whole, 1)
    library.binade_program_free(whole)
    assert shard(runtime, part, 0)[0] == 2
    assert "the states are sharded already" in runtime.error()
    assert library.binade_program_run(part) == 2
    assert "the states of rank 1 of 2" in runtime.error()
    assert join(runtime, part, 0, SIZE, Group(library, SIZE).callbacks[0]) == 2
    assert (
        "cannot join as rank 0 of 2: the program has the states of rank 1 of 2"
        in runtime.error()
    )
    assert library.binade_program_save(part, str(tmp_path / "x").encode()) == 2
    assert "only a shard of state 'exp_avg/" in runtime.error()
    library.binade_program_free(part)


def test_a_failed_gather_says_what_parameters_are(runtime, bundle):
    library, whole = runtime.library, load(runtime, bundle)
    parts = [shard(runtime, whole, rank)[1] for rank in range(SIZE)]
    buckets = {bucket for _, bucket in train(runtime, parts).events[0]}
    group = Group(library, SIZE, failing=max(buckets) - 1)
    for rank in range(SIZE):
        assert join(runtime, parts[rank], rank, SIZE, group.callbacks[rank]) == 0
    assert group.run(parts) == [9, 9]
    for error in group.errors:
        assert (
            "some parameters are updated and some are not: continue from a checkpoint"
            in error
        )
    for program in [whole, *parts]:
        library.binade_program_free(program)
