"""Faults of peers, on the simulated driver: each is reported, and all others are measured.

The first device that ran benchmarks/gpu showed them. test_gpu_archive.py tests the others:
the commit of another repository, and files that the archive lacks.
"""

import pytest
from support.cuda_runs import need_simulated_driver
from support.gpu_benchmarks import measure, prepare
from support.paths import ROOT

TORCH = ROOT / "test/python/support/simulated_torch"
FUSED, COMPILED = "torch fused AdamW", "torch.compile"
PARTS = ["kernels", "steps", "launches"]


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory):
    need_simulated_driver()
    folder = tmp_path_factory.mktemp("faults") / "artifacts"
    return prepare(folder, "--only", "adamw,row,gpt2-bf16", *PARTS)


def run(artifacts, out, fault, *parts):
    """Returns the rows by part and name, and the result; no part may fail."""
    done, result = measure(artifacts, out, "--time", 4, *parts, PYTHONPATH=str(TORCH),
                           SIMULATED_TORCH=fault)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert result["torch"] == "0 (simulated)"
    return {(row["part"], row["name"]): row for row in result["rows"]}, result


def test_peers_in_graphs_keep_their_tensors(artifacts, tmp_path):
    rows, result = run(artifacts, tmp_path, "", "kernels")
    assert result["copies_gbs"].keys() == {"kernel", "torch"}
    for name, peer in (("adamw", FUSED), ("row", COMPILED)):
        assert rows["kernels", name]["peers"][peer]["ms"] > 0
        assert "unavailable" not in rows["kernels", name]


def test_a_peer_whose_tensors_die_is_left_out(artifacts, tmp_path):
    rows, _ = run(artifacts, tmp_path, "dies", "kernels")
    row = rows["kernels", "adamw"]
    assert row["ms"] > 0 and row["peers"] == {}
    missing = row["unavailable"][FUSED]
    assert missing["goal"] == 0.95
    assert "an illegal memory access was encountered" in missing["reason"]
    assert COMPILED in rows["kernels", "row"]["peers"]
    (page,) = tmp_path.glob("*.md")
    assert f"- {FUSED}: {missing['reason']} (adamw)" in page.read_text()


def test_a_peer_that_fails_in_its_first_call_is_left_out(artifacts, tmp_path):
    rows, _ = run(artifacts, tmp_path, "refuses", "kernels")
    row = rows["kernels", "row"]
    assert row["ms"] > 0 and row["peers"] == {}
    reason = row["unavailable"][COMPILED]["reason"]
    assert reason == "RuntimeError: Unsupported: a call on this device"
    assert FUSED in rows["kernels", "adamw"]["peers"]


def test_a_step_without_its_peer_is_measured(artifacts, tmp_path):
    """This PyTorch can neither make a model nor trace kernels."""
    rows, _ = run(artifacts, tmp_path, "", "steps", "launches")
    step = rows["steps", "gpt2-bf16"]
    assert step["ms"] > 0 and step["profile"]["records"]["rows"]
    assert step["unavailable"]["torch.compile, bf16"]["goal"] == 0.95
    launches = rows["launches", "gpt2-bf16"]
    assert launches["kernel_ms"] > 0
    assert launches["notes"][0].startswith("PyTorch's profiler: AttributeError: ")
