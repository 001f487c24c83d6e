"""Files of results of benchmarks/gpu: what later runs add to them, and their pages."""

import json
import sys

import pytest
from support.paths import ROOT

sys.path.insert(0, str(ROOT / "benchmarks" / "gpu"))

import goals
import parts
import report
import result_file
from result_file import ResultFile

ABOUT = {
    "standing": "measured", "device": "NVIDIA H300", "device_line": "NVIDIA H300, 1.0 GiB",
    "driver": "580.1", "cuda": "13.0", "torch": "2.11", "date": "2026-12-01",
    "commit": "abc", "artifacts": "abc",
}  # fmt: skip


def make_row(part, name, ms, **more):
    row = {
        "part": part,
        "name": name,
        "title": f"title of {name}",
        "ms": ms,
        "peers": {},
    }
    if part == "kernels":
        row |= {"gbs": 1, "share": 0.5, "share_goal": None}
    if part == "steps":
        row |= {"arena": 100, "live": 100, "memory": 100, "records": 1}
    return row | more


def run(folder, part, rows, status="passed", facts=None, **about):
    """Writes a part as run.py does; returns the path."""
    results = ResultFile(folder, ABOUT | about)
    results.add({"name": part, "status": status, "message": "", "seconds": 1.0})
    results.update({"rows": rows, "facts": facts or {}})
    return results.path


def test_each_part_adds_to_the_same_file(tmp_path):
    kernels = [make_row("kernels", "adamw", 1.0), make_row("kernels", "e4m3", 2.0)]
    path = run(tmp_path, "kernels", kernels, facts={"copy_gbs": 2400.0})
    steps = [make_row("steps", "gpt2-bf16", 70.0)]
    assert run(tmp_path, "steps", steps, date="2026-12-02") == path
    result = json.loads(path.read_text())
    # In the order of the parts, not of the runs.
    assert [part["name"] for part in result["parts"]] == ["steps", "kernels"]
    assert [row["name"] for row in result["rows"]] == ["gpt2-bf16", "adamw", "e4m3"]
    assert result["copy_gbs"] == 2400.0
    page = path.with_suffix(".md").read_text()
    for name in ("adamw", "e4m3", "gpt2-bf16"):
        assert f"title of {name}" in page


def test_a_row_that_is_measured_again_replaces_the_first(tmp_path):
    kernels = [make_row("kernels", "adamw", 1.0), make_row("kernels", "e4m3", 2.0)]
    run(tmp_path, "kernels", kernels, status="failed")
    path = run(tmp_path, "kernels", [make_row("kernels", "adamw", 3.0)])
    result = json.loads(path.read_text())
    assert [(row["name"], row["ms"]) for row in result["rows"]] == [
        ("adamw", 3.0),
        ("e4m3", 2.0),
    ]
    assert [part["status"] for part in result["parts"]] == ["passed"]


@pytest.mark.parametrize(
    "change",
    [
        {"artifacts": "def"},
        {"torch": "2.12"},
        {"driver": "600.1"},
        {"prepared": "12:00"},
    ],
)
def test_results_of_others_are_not_mixed(change, tmp_path):
    first = run(tmp_path, "kernels", [make_row("kernels", "adamw", 1.0)])
    before = first.read_text()
    second = run(tmp_path, "kernels", [make_row("kernels", "adamw", 9.0)], **change)
    assert second.name == "nvidia-h300-2026-12-01-2.json"
    assert first.read_text() == before
    assert run(tmp_path, "steps", [], **change) == second


def test_tables_of_records_have_a_line_for_each_record(tmp_path):
    table = {
        "columns": ["path", "ms"],
        "rows": [["0", 0.5], ["1/0", 0.25], ['"a"\\', 1]],
    }
    row = make_row("kernels", "adamw", 1.0, records=table, quartiles=[[1, 2]])
    path = run(tmp_path, "kernels", [row])
    text = path.read_text()
    assert '\n["1/0", 0.25],\n' in text
    assert json.loads(text)["rows"][0]["records"] == table


def test_predictions_of_the_device_are_compared(tmp_path, monkeypatch):
    counts = {"instructions": 1, "alu": 1, "special": 1}
    predicted = {"device": ABOUT["device"], "commit": "p", "standing": "predicted",
                 "date": "2026-11-30", "assumptions": [],
                 "rows": [make_row("kernels", "adamw", 1.2, limit="DRAM", per_element=counts),
                          make_row("steps", "s", 109)]}  # fmt: skip
    path = tmp_path / "predicted.json"
    path.write_text(json.dumps(predicted))
    monkeypatch.setattr(report, "PREDICTED", path)
    rows = [make_row("kernels", "adamw", 1.0), make_row("kernels", "new", 1.0)]
    out = run(tmp_path, "kernels", rows)
    run(tmp_path, "steps", [make_row("steps", "s", 100.0)])
    result = json.loads(out.read_text())
    assert [row.get("predicted_ms") for row in result["rows"]] == [109, 1.2, None]
    assert result["predictions"] == "p"
    found = [g for row in result["rows"] for g in goals.list_goals(row)]
    judged = {(g.row, g.what): g.result for g in found}
    assert judged["title of adamw", "predicted / measured"] == "**missed**"  # 15 %.
    assert judged["title of s", "predicted / measured"] == "reached"  # 10 %.
    rows = [make_row("kernels", "adamw", 1.0)]
    assert result_file.add_predictions(rows, {"device": "other"}) == {}
    assert "predicted_ms" not in rows[0]


def test_pages_judge_every_goal():
    row = make_row(
        "steps", "gpt2-bf16", 70.0, memory=102 << 30, arena=100 << 30, live=100 << 30,
        peers={"torch": {"ratio": 0.951, "goal": 0.95, "ms": 73.6}, "own": {"ratio": 2.0, "goal": None}},
        memory_peers={"torch": {"ratio": 0.6, "goal": 0.6}},
        unavailable={"cuDNN": {"goal": 1.15, "reason": "not installed"},
                     "other": {"goal": None, "reason": "not installed"}},
    )  # fmt: skip
    kernel = make_row("kernels", "adamw", 1.0, gbs=899, share=0.899, share_goal=0.9)
    result = ABOUT | {"rows": [row, kernel], "parts": [], "copy_gbs": 0}
    page = report.render(result)
    for line in (
        "| title of gpt2-bf16 | time / torch | 70.0 ms / 73.6 ms | 0.951 | ≤ 0.950 "
        "| **missed** |",
        "| title of gpt2-bf16 | memory / torch |  | 0.600 | ≤ 0.600 | reached |",
        "| title of gpt2-bf16 | time / cuDNN |  |  | ≤ 1.150 | not known: not installed |",
        "| title of gpt2-bf16 | memory / planned | 102.00 GiB / 100.00 GiB | 1.020 | ≤ 1.010 "
        "| **missed** |",
        "| title of gpt2-bf16 | planned / live | 100.00 GiB / 100.00 GiB | 1.000 | ≤ 1.020 "
        "| reached |",
        "| title of adamw | share of a copy | 899 GB/s / 1000 GB/s | 89.9 % | ≥ 90.0 % "
        "| **missed** |",
        "6 goals: 2 reached, 3 missed, 1 not known.",
        "- cuDNN: not installed (gpt2-bf16)", "- other: not installed (gpt2-bf16)",
    ):  # fmt: skip
        assert line in page, line
    assert "time / own" not in page and "time / other" not in page


def test_pages_show_every_part():
    peers = {"cuDNN": {"ratio": 1.2, "goal": 1.15, "ms": 0.5}}
    rows = [
        make_row("attention", "a", 0.6, tflops=300.0, peers=peers, implementation="cudnn 9"),
        make_row("head", "h", 17.0, gbs=9, share=0.9, share_goal=0.85),
        make_row("autotune", "gpt2-bf16", 70.0, memory_peers={}, memory=5, arena=4, live=3),
        make_row("launches", "gpt2-bf16", 70.0, records=500, kernels=600, kernel_ms=63.0,
                 gap_ms=7.0, source="PyTorch's profiler"),
    ]  # fmt: skip
    result = ABOUT | {"rows": rows, "parts": [], "copy_gbs": 0}
    page = report.render(result)
    for line in (
        "| title of a | 0.600 | 300 |  | **1.200** (≤ 1.15) cuDNN | cudnn 9 |",
        "| title of h | 17.000 |  | 90.0 % (≥ 85 %) |  |  |",
        "| title of gpt2-bf16 | 500 | 600 | 70.00 | 63.00 | 7.00 | 10.0 % "
        "| PyTorch's profiler |",
        "2 goals: 1 reached, 1 missed.",
    ):
        assert line in page, line


def test_parts_fit_into_their_time():
    """Three minutes with --quick, and eight if all but one of the others end early."""
    quick = parts.choose(parts.PARTS, isQuick=True)
    assert sum(parts.PARTS[name].quick for name in quick) <= parts.QUICK_SECONDS == 180
    assert parts.DEVICE_SECONDS == 480
    assert all(part.seconds <= parts.DEVICE_SECONDS for part in parts.PARTS.values())
    default = parts.choose(parts.PARTS, isQuick=False)
    counters = {"attention-counters", "kernels-counters", "steps-counters"}
    assert set(parts.PARTS) - set(default) == {"loop", "rates", "autotune", *counters}


def test_parts_took_less_than_their_time():
    """Parts of the committed results; those that were stopped ran on a slow host."""
    measured = {}
    for path in report.RESULTS.glob("nvidia-*.json"):
        for part in json.loads(path.read_text())["parts"]:
            if part["status"] == "passed":
                seconds = max(measured.get(part["name"], 0), part["seconds"])
                measured[part["name"]] = seconds
    assert {"records", "models", "kernels", "steps"} <= measured.keys()
    for name, seconds in measured.items():
        assert seconds < 0.8 * parts.PARTS[name].seconds, name
