"""Tables of records and of kernels between which nothing runs."""

import sys
import types

import pytest
from support.paths import ROOT

sys.path.insert(0, str(ROOT / "benchmarks" / "gpu"))

import launches
import peers
import profiles


def event(name, category, start, duration, **arguments):
    return {"ph": "X", "name": name, "cat": category, "ts": start, "dur": duration,
            "args": arguments}  # fmt: skip


RECORDS = [
    {"kind": "launch"},
    {"kind": "loop", "count": 2, "body": [{"kind": "matmul"}, {"kind": "launch"}]},
]


def make_trace(factors):
    """Steps whose records take `factors` times as long as those of the first."""
    events = [{"ph": "M", "name": "process_name"}]
    for factor in factors:
        events.append(event("step 1", "step", 0, 100))
        events.append(event("copy_in", "transfer", 0, 5))
        events.append(event("cast_0 x", "launch", 0, 10 * factor, bytes=12))
        for first in (20, 40):
            events += [
                event("matmul y", "matmul", first, first * factor, bytes=8, flops=64,
                      implementation="cublaslt 13"),
                event("add_1 z", "launch", first + 5, factor, bytes=4),
            ]  # fmt: skip
        events.append(event("tile y", "loop", 20, 40, iterations=2))
    return {"traceEvents": events}


def test_records_have_the_median_of_their_steps():
    rows = profiles.tabulate(make_trace([1, 5, 2]), RECORDS, 3)
    assert rows == [
        ["0", "cast_0 x", "launch", 1, 0.02, 12, 0, ""],
        ["1/0", "matmul y", "matmul", 2, 0.12, 8, 64, "cublaslt 13"],
        ["1/1", "add_1 z", "launch", 2, 0.004, 4, 0, ""],
    ]
    assert len(profiles.COLUMNS) == len(rows[0])


def test_other_calls_than_the_plan_has_make_no_table():
    assert profiles.tabulate(make_trace([1, 1]), RECORDS[:1], 2) == []


def test_time_between_kernels():
    trace = {
        "traceEvents": [
            event("cudaGraphLaunch", "cuda_runtime", 0, 50),
            event("adamw_update_0", "kernel", 130, 30),
            event("cast_0", "kernel", 100, 10),
            event("matmul_0", "kernel", 112, 8),  # 2 after the cast.
            event("Memset", "gpu_memset", 115, 10),  # Overlaps, and 5 before the next.
            event("cast_0", "kernel", 162, 8),
        ]
    }
    row = launches.summarize(trace)
    assert (row["kernels"], row["copies"]) == (4, 1)
    assert row["kernel_ms"] == pytest.approx(0.066)
    assert row["span_ms"] == pytest.approx(0.070)
    assert row["idle_ms"] == pytest.approx(0.009)
    assert row["by_name"]["rows"][:2] == [
        ["adamw_update_0", 1, 0.03],
        ["cast_0", 2, 0.018],
    ]


def test_a_trace_without_kernels_is_an_error():
    with pytest.raises(RuntimeError, match="no kernels"):
        launches.summarize({"traceEvents": [event("x", "cpu_op", 0, 1)]})


@pytest.mark.parametrize("hasDevice", [False, True])
def test_without_a_trace_the_times_of_records_are_added(hasDevice, monkeypatch):
    """PyTorch sees no device, or its profiler fails."""
    program = types.SimpleNamespace(run=lambda: None)
    loaded = types.SimpleNamespace(program=program, describe=lambda _: {"records": 5})
    lines = [{"kind": "launch", "ms": 2.0}, {"kind": "matmul", "ms": 1.5},
             {"kind": "transfer", "ms": 9.0}]  # fmt: skip
    monkeypatch.setattr(launches.whole, "LoadedStep", lambda *_: loaded)
    monkeypatch.setattr(launches.timing, "median", lambda _: 4.0)
    monkeypatch.setattr(profiles, "measure", lambda *_: {"lines": lines})
    monkeypatch.setattr(peers, "HAS_DEVICE", hasDevice)
    row = launches.measure(types.SimpleNamespace(name="gpt2", title="GPT-2"), None)
    assert row["source"] == "times of records" and "kernels" not in row
    assert (row["ms"], row["kernel_ms"], row["gap_ms"]) == (4.0, 3.5, 0.5)
    assert row["notes"][0].startswith("PyTorch's profiler: ")
