"""utils/check_gpu_numbers.py, and the result files of GPU benchmarks that it reads."""

import itertools
import json
import sys

import pytest
from support.paths import ROOT
from support.sources import load, write

GPU = ROOT / "benchmarks" / "gpu"
FILE = "benchmarks/gpu/results/h200.json"
LINK = f"[results](../{FILE})"


def find_violations(root):
    return load("check_gpu_numbers").find_violations(root)


def write_results(root, standing="measured"):
    result = {
        "standing": standing,
        "copy_gbs": 4312.4,
        "rows": [{"ms": 0.8164, "gbs": 4268, "share": 0.9927, "arena": 3 << 30,
                  "peers": {"torch": {"ratio": 0.942}}}],
    }  # fmt: skip
    write(root, FILE, json.dumps(result))


def test_numbers_on_pages_are_in_result_files():
    assert find_violations(ROOT) == []


TABLE = """
| kernel | ms | GB/s | share (goal) | time / peer's (goal) |
|---|---|---|---|---|
| AdamW, 8 bits | {} | 4268 | 99.3 % (90 %) | 0.942 (0.95) torch |
"""


@pytest.mark.parametrize("text", [
    f"# H200\n\nA copy moves 4312 GB/s or 4.31 TB/s, {LINK}: 99.3 % of a copy, 0.94x.\n",
    f"# On a GPU\n{LINK}\n{TABLE.format('0.816')}",
    "# On a CPU\n\nA step takes 7.4 ms, 0.5x of the peer's.\n",
    "# CUDA\n\nTwo kernels of 16 bytes, 30 % smaller, `4.4 ms`.\n\n```sh\nrun 3 ms\n```\n",
])  # fmt: skip
def test_pages_may_quote_results_of_linked_files(text, tmp_path):
    write_results(tmp_path)
    write(tmp_path, "docs/Page.md", text)
    assert find_violations(tmp_path) == []


@pytest.mark.parametrize(("text", "expected"), [
    ("# H200\n\nA step takes 44 ms.\n",
     "docs/Page.md:1: '44 ms' is of a GPU: link the file of benchmarks/gpu/results that has it"),
    (f"# Speed\n\n## CPU\n\n3 ms\n\n## An H200\n\n4400 GB/s, {LINK}\n",
     f"docs/Page.md:7: '4400 GB/s': not in {FILE}"),
    (f"# H200\n\n{LINK}: 0.82 ms, 0.90x of CUDA's.\n", f"docs/Page.md:1: '0.90 x': not in {FILE}"),
    (f"# GPU\n\n{LINK}\n{TABLE.format('0.7')}", f"docs/Page.md:1: '0.7 ms': not in {FILE}"),
    (f"# GPU\n\n98 % of a copy: {LINK}\n", f"docs/Page.md:1: '98 %': not in {FILE}"),
    ("# GPU\n\n[gone](../benchmarks/gpu/results/gone.json): 3 ms\n",
     "docs/Page.md:1: benchmarks/gpu/results/gone.json does not exist"),
])  # fmt: skip
def test_numbers_without_a_result_file_are_reported(text, expected, tmp_path):
    write_results(tmp_path)
    write(tmp_path, "docs/Page.md", text)
    assert find_violations(tmp_path) == [expected]


def test_pages_must_call_predictions_predicted(tmp_path):
    write_results(tmp_path, "predicted")
    write(tmp_path, "docs/Page.md", f"# H200\n\nIt takes 0.82 ms: {LINK}\n")
    expected = f"docs/Page.md:1: {FILE} is predicted: the section has to say so"
    assert find_violations(tmp_path) == [expected]
    write(tmp_path, "docs/Page.md", f"# H200\n\n0.82 ms are predicted: {LINK}\n")
    assert find_violations(tmp_path) == []


def test_predictions_are_complete():
    result = json.loads((GPU / "results/predicted-h100.json").read_text())
    sys.path.insert(0, str(GPU))
    from cases import CASES
    from contraction_cases import CONTRACTIONS, LIBRARY
    from steps import STEPS

    contractions = []
    for case in itertools.chain(*CONTRACTIONS.values()):
        contractions.append(case.name)
        if case.library_peers is not None:
            contractions.append(f"{case.name}{LIBRARY}")
    assert [row["name"] for row in result["rows"]] == [
        *(case.name for case in CASES), *contractions, *(step.name for step in STEPS),
    ]  # fmt: skip
    assert result["standing"] == "predicted" and result["assumptions"]


@pytest.mark.parametrize(
    "path", sorted(GPU.glob("results/*.json")), ids=lambda p: p.stem
)
def test_result_pages_are_up_to_date(path):
    sys.path.insert(0, str(GPU))
    import report

    same = path.with_suffix(".md").read_text() == report.render_file(path)
    assert same, "run .venv/bin/python benchmarks/gpu/report.py"


def test_reports_show_measurements_with_predictions():
    sys.path.insert(0, str(GPU))
    import report

    peers = {
        "torch": {"ratio": 0.97, "goal": 0.95},
        "other": {"ratio": 2.0, "goal": None},
    }
    kernel = {"part": "kernels", "title": "AdamW", "ms": 0.9, "gbs": 3870, "share": 0.91,
              "share_goal": 0.9, "peers": peers}  # fmt: skip
    step = {"part": "steps", "title": "GPT-2", "ms": 44.0, "arena": 1000 << 20,
            "live": 990 << 20, "memory": 1011 << 20, "records": 7,
            "peers": {"torch": {"ratio": 0.9, "goal": 0.95}},
            "memory_peers": {"torch": {"ratio": 0.5, "goal": 0.6}}}  # fmt: skip
    result = {
        "standing": "measured", "device": "NVIDIA H200", "date": "2026-12-01",
        "commit": "abc", "driver": "580.1", "cuda": "13.0", "torch": "2.11",
        "copy_gbs": 4250.0, "rows": [kernel, step],
        "parts": [{"name": "steps", "status": "stopped", "message": "not done after 9 s",
                   "seconds": 9.1}],
    }  # fmt: skip
    predicted = json.loads((GPU / "results/predicted-h100.json").read_text())
    page = report.render(result, predicted)
    assert page.startswith("# NVIDIA H200, 2026-12-01: measured\n")
    assert "| steps | not done after 9 s | 9 |" in page
    # Six goals: share, time of the kernel and of the step, two for the memory of the plan,
    # memory relative to the peer. Two are missed.
    assert "6 goals: 4 reached, 2 missed." in page
    assert "| 91.0 % (≥ 90 %) | **0.970** (≤ 0.95) torch<br>2.000 other |" in page
    assert "| 0.99 | 0.98 | **1.011** (≤ 1.01) | 1.010 (≤ 1.02) | 7 |" in page
    assert page.index("| AdamW | 0.900 |") < page.index(
        f"Predicted ({predicted['date']})"
    )
    assert (
        page.count("| AdamW, f32 |") == page.count("GPT-2 124M, 32 x 1024, coat |") == 1
    )
