"""Hardware counters: what benchmarks/gpu reads of the output of Nsight Compute, and shows."""

import csv
import io
import sys

import pytest
from support.gpu_benchmarks import GPU

sys.path.insert(0, str(GPU))

import report  # noqa: E402
from counter_table import COLUMNS, list_cells, read_counters, summarize  # noqa: E402

# Some columns of what `ncu --csv --page raw --print-units base` printed on an H100: the name of
# a column, its unit, and its values for two kernels.
TENSOR, TIGER = "attention_1445e6280887", "tiger_finish_update_8a4d605d5c54"
PEAK, PER_ISSUE = ".avg.pct_of_peak_sustained_active", "_per_issue_active.ratio"
STALLED = "smsp__average_warps_issue_stalled_"
PRINTED = [
    ("ID", "", "0", "1"),
    ("Process Name", "", "python3.12", "python3.12"),
    ("Kernel Name", "", TENSOR, TIGER),
    ("Block Size", "", "(128, 1, 1)", "(256, 1, 1)"),
    ("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", "%", "7.63", "7.15"),
    ("gpu__time_duration.sum", "ns", "617,696", "6,240"),
    ("launch__registers_per_thread", "register/thread", "168", "48"),
    ("lts__t_sector_hit_rate.pct", "%", "92.84", "57.02"),
    ("lts__throughput.avg.pct_of_peak_sustained_elapsed", "%", "36.22", "16.10"),
    (f"sm__inst_executed_pipe_alu{PEAK}", "%", "21.00", "6.50"),
    (f"sm__inst_executed_pipe_lsu{PEAK}", "%", "17.17", "5.21"),
    (f"sm__inst_executed_pipe_tensor_op_hmma{PEAK}", "%", "15.25", "0"),
    (f"sm__inst_executed_pipe_xu{PEAK}", "%", "32.14", "0"),
    ("sm__inst_executed_pipe_xu.max.pct_of_peak_sustained_active", "%", "34.23", "0"),
    (f"sm__pipe_alu_cycles_active{PEAK}", "%", "22.41", "6.60"),
    (f"sm__pipe_fma_cycles_active{PEAK}", "%", "11.47", "2.73"),
    (f"sm__pipe_fp64_cycles_active{PEAK}", "%", "0", "0"),
    (f"sm__pipe_shared_cycles_active{PEAK}", "%", "45.75", "0"),
    (f"sm__pipe_tensor_cycles_active{PEAK}", "%", "45.75", "0"),
    (f"sm__pipe_tensor_op_hmma_cycles_active{PEAK}", "%", "45.75", "0"),
    (f"sm__warps_active{PEAK}", "%", "18.08", "10.85"),
    (f"{STALLED}barrier{PER_ISSUE}", "inst", "0.52", "0"),
    (f"{STALLED}long_scoreboard{PER_ISSUE}", "inst", "0.30", "16.72"),
    (f"{STALLED}math_pipe_throttle{PER_ISSUE}", "inst", "0.65", "0.09"),
    (f"{STALLED}not_selected{PER_ISSUE}", "inst", "0.59", "0"),
    (f"{STALLED}selected{PER_ISSUE}", "inst", "1", "1"),
    (f"{STALLED}short_scoreboard{PER_ISSUE}", "inst", "0.96", "0.61"),
    (f"{STALLED}wait{PER_ISSUE}", "inst", "2.26", "1.29"),
    (f"smsp__issue_active{PEAK}", "%", "41.14", "7.47"),
]
AROUND = (
    "==PROF== Connected to process 1787 (/usr/bin/python3.12)",
    "==PROF== Disconnected from process 1787",
)


def write_output(columns):
    table = io.StringIO()
    csv.writer(table, quoting=csv.QUOTE_ALL).writerows(zip(*columns))
    return "\n".join([*AROUND, table.getvalue()])


@pytest.fixture
def kernels():
    return read_counters(write_output(PRINTED))


def test_names_and_numbers_of_kernels_are_read(kernels):
    assert [kernel["kernel"] for kernel in kernels] == [TENSOR, TIGER]
    first, second = kernels
    assert first["gpu__time_duration.sum"] == 617696  # Printed with a separator.
    assert second["lts__throughput.avg.pct_of_peak_sustained_elapsed"] == 16.1
    assert first["launch__registers_per_thread"] == 168
    # Texts are left out.
    assert not {"Process Name", "Block Size", "Kernel Name"} & first.keys()


def test_a_run_without_kernels_has_no_counters():
    assert read_counters("\n".join(AROUND)) == []
    assert read_counters("==WARNING== No kernels were profiled.\n") == []


def test_counters_of_the_table_are_chosen(kernels):
    assert summarize(kernels[0]) == {
        "kernel": TENSOR, "ms": 0.6177, "DRAM, %": 7.63, "L2, %": 36.22,
        "L2 hits, %": 92.84, "issue slots, %": 41.14, "occupancy, %": 18.08, "registers": 168,
        "pipes": {"tensor": 45.75, "xu": 32.14, "alu": 22.41},
        "stalls": {"wait": 2.26, "short_scoreboard": 0.96, "math_pipe_throttle": 0.65},
    }  # fmt: skip


def test_the_busiest_pipes_and_longest_stalls_are_in_order(kernels):
    """Pipes of a matrix unit count once, and what is 0 is left out."""
    shown = summarize(kernels[1])
    assert list(shown["pipes"].items()) == [("alu", 6.6), ("lsu", 5.21), ("fma", 2.73)]
    assert list(shown["stalls"].items()) == [
        ("long_scoreboard", 16.72), ("wait", 1.29), ("short_scoreboard", 0.61),
    ]  # fmt: skip


def test_active_cycles_come_before_instructions(kernels):
    """The counter of instructions has another value here, and comes first."""
    assert kernels[0][f"sm__inst_executed_pipe_alu{PEAK}"] == 21
    assert summarize(kernels[0])["pipes"]["alu"] == 22.41


def test_missing_counters_leave_cells_empty():
    some = [column for column in PRINTED if not column[0].startswith(("sm__", "lts__"))]
    (cells, _) = list_cells(
        {
            "title": "row",
            "counters": [summarize(c) for c in read_counters(write_output(some))],
        }
    )
    by_name = dict(zip(COLUMNS, cells))
    assert (
        by_name["L2, %"] == by_name["occupancy, %"] == by_name["busiest pipes, %"] == ""
    )
    assert by_name["DRAM, %"] == "7.63"


def test_the_page_has_a_row_for_each_kernel(kernels):
    row = {"title": "both", "counters": list(map(summarize, kernels))}
    cells = list_cells(row)
    assert all(len(line) == len(COLUMNS) for line in cells)
    assert cells[0] == [
        "both", TENSOR, "0.6177", "7.63", "36.22", "92.84", "41.14", "18.08", "168",
        "tensor 45.8, xu 32.1, alu 22.4",
        "wait 2.26, short_scoreboard 0.96, math_pipe_throttle 0.65",
    ]  # fmt: skip
    assert cells[1][2:4] == ["0.0062", "7.15"]
    page = report.counters({"rows": [{"title": "without"}, row]})
    assert page.count(TENSOR) == page.count(TIGER) == 1 and "without" not in page
    assert report.counters({"rows": [{"title": "without"}]}) == ""
