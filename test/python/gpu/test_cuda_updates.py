"""Updates of tensors on a CUDA device have the bits of those on the CPU, wherever the tensors
are, on a stream of the caller, and in a graph."""

import json
import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from support import simulated_updates  # noqa: E402
from support.cuda_runs import SIMULATED, need_simulated_driver  # noqa: E402

ADAMW = {"optimizer": "adamw", "settings": {"lr": 0.01, "weight_decay": 0.1}}


def run(case, tmp_path, settings=""):
    need_simulated_driver()
    out = tmp_path / "found"
    done = subprocess.run(
        [sys.executable, simulated_updates.__file__, json.dumps(case), out, tmp_path],
        env={
            **os.environ,
            "LD_LIBRARY_PATH": str(SIMULATED),
            "BINADE_SIMULATED_KERNELS": str(tmp_path),
            "BINADE_SIMULATED_CUDA": settings,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        },
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return torch.load(out)


def assert_equal(found, expected):
    assert set(found) == set(expected)
    for name, value in expected.items():
        one, other = found[name].contiguous(), value.contiguous()
        assert one.dtype == other.dtype, name
        assert torch.equal(one.view(-1).view(torch.uint8), other.view(-1).view(torch.uint8)), name  # fmt: skip


CASES = {
    "f32": {"dtype": "float32", "formats": ADAMW},
    "dyn8": {"dtype": "float32", "formats": ADAMW | {"states": "dyn8"}},
    "e4m3x": {"dtype": "bfloat16", "master": "f32", "formats": ADAMW | {"states": "e4m3x"}},
    "stochastic": {
        "dtype": "bfloat16", "master": "stochastic",
        "formats": ADAMW | {"states": "dyn8:stochastic"},
    },
    "f16": {"dtype": "float16", "master": "kahan", "formats": ADAMW | {"optimizer": "lion"}},
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_updates_have_the_bits_of_the_cpu(name, tmp_path):
    found, expected = run(CASES[name], tmp_path)
    assert_equal(found, expected)
    assert expected["skipped"].tolist() == [False, False, True, False, False]


@pytest.mark.parametrize("name", ["f32", "dyn8"])
def test_a_graph_keeps_the_addresses_that_it_was_captured_with(name, tmp_path):
    found, expected = run({**CASES[name], "graph": True}, tmp_path)
    assert_equal(found, expected)
    assert found["skipped"].tolist() == [False, False, True, False]


def test_the_host_does_not_wait(tmp_path):
    case = {**CASES["f32"], "hangs": True}
    assert run(case, tmp_path, "hang_launch=1") == "returned"
