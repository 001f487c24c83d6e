"""The C interface of exchanges, called by ctypes: two ranks that are threads."""

import ctypes

import pytest
from support.runtime import LIBRARY, Runtime

if not LIBRARY.exists():
    pytest.skip(f"{LIBRARY} is not built", allow_module_level=True)
pytest.importorskip("onnx")

from support.exchange_api import (  # noqa: E402
    CALLBACK,
    JOIN,
    START,
    Group,
    join,
    load,
)
from support.exchanged_steps import compile_bundle  # noqa: E402


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


def test_the_version(runtime):
    assert runtime.library.binade_c_api_version() >= 4


def test_two_ranks_exchange(runtime, bundle):
    library, group = runtime.library, Group(runtime.library, 2)
    programs = [load(runtime, bundle) for _ in range(2)]
    for rank in range(2):
        assert join(runtime, programs[rank], rank, 2, group.callbacks[rank]) == 0
    assert group.run(programs) == [0, 0]
    found = group.events
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
