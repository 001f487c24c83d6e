"""Functions of the runtime's C interface that execute single plan records, and profile them."""

import ctypes
import json

import numpy as np
import pytest
from support.runtime import (
    KERNELS,
    LIBRARY,
    Runtime,
    T,
    X,
    regression_plan,
    write_bundle,
)

pytestmark = pytest.mark.skipif(
    not (LIBRARY.exists() and KERNELS.exists()), reason=f"{LIBRARY} is not built"
)
OUTER, X_AT, OUTER_AT = 1, 64, 640  # The index of a record, and offsets of buffers.


@pytest.fixture(scope="module")
def runtime():
    return Runtime()


def load(runtime, plan):
    code, program = runtime.load(write_bundle(plan))
    assert code == 0, runtime.error()
    return program


@pytest.fixture
def program(runtime):
    return load(runtime, regression_plan())


def write(program, offset, values):
    data = values.tobytes()
    return program.write_arena(
        ctypes.c_uint64(offset), data, ctypes.c_size_t(len(data))
    )


def read(program, offset, count):
    data = ctypes.create_string_buffer(count)
    assert (
        program.read_arena(ctypes.c_uint64(offset), data, ctypes.c_size_t(count)) == 0
    )
    return data.raw


def run(program, path, iteration=(), records=b"step"):
    return program.run_record(
        records, (ctypes.c_size_t * len(path))(*path), ctypes.c_size_t(len(path)),
        (ctypes.c_int64 * len(iteration))(*iteration),
    )  # fmt: skip


def test_one_record_runs_by_itself(program):
    assert write(program, X_AT, X) == 0
    assert run(program, [OUTER]) == 0
    found = np.frombuffer(read(program, OUTER_AT, 64), np.float32).reshape(4, 4)
    np.testing.assert_array_equal(found, np.outer(X, X))
    # The earlier record did not run.
    assert program.find("step", "step") == 0


def test_a_record_of_a_loop_runs_in_one_iteration(runtime):
    plan = regression_plan()
    outer = plan["records"].pop()
    outer["m"] = 1
    outer["lhs"]["steps"] = [1]
    outer["out"]["steps"] = [4]
    plan["records"].append(
        {"kind": "loop", "label": "rows", "count": 4, "body": [outer]}
    )
    program = load(runtime, plan)
    assert write(program, X_AT, X) == 0 and write(program, OUTER_AT, 0 * X) == 0
    assert run(program, [1, 0], [2]) == 0
    found = np.frombuffer(read(program, OUTER_AT, 64), np.float32).reshape(4, 4)
    np.testing.assert_array_equal(found[2], X[2] * X)
    assert not found[[0, 1, 3]].any()
    for path, iteration in (([1], []), ([1, 0], [4]), ([1, 0], [-1]), ([1, 1], [0])):
        assert run(program, path, iteration) == 2
        assert "the plan has no such record" in runtime.error()


def test_records_and_addresses_out_of_range_are_rejected(runtime, program):
    assert run(program, [2]) == 2 and run(program, [0, 0], [0]) == 2
    assert run(program, [0], records=b"nothing") == 2
    assert "no record list is called 'nothing'" in runtime.error()
    assert write(program, 700, X) == 2
    assert "16 bytes at 700, the arena has 704" in runtime.error()
    assert write(program, 2**64 - 4, X) == 2


def test_a_profile_has_each_record_of_each_step(program, tmp_path):
    assert program.assign("batch", "x", X) == 0 and program.assign("batch", "t", T) == 0
    assert program.run() == 0
    assert program.set_profiling(1) == 0
    assert program.run() == 0 and program.run() == 0
    path = tmp_path / "trace.json"
    assert program.write_trace(str(path).encode()) == 0
    events = json.loads(path.read_text())["traceEvents"]
    names = [e["name"] for e in events if e["ph"] == "X" and e["cat"] != "step"]
    assert names == ["step", "outer", "step", "outer"]
    assert program.set_profiling(0) == 0 and program.run() == 0
    assert program.write_trace(str(tmp_path / "no" / "trace.json").encode()) == 5
