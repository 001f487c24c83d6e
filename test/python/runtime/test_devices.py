"""`binade list devices` and `binade-run --list-devices` list the CPU and CUDA devices."""

import os
import re
import subprocess

import pytest
from support.cuda_runs import SIMULATED, need_simulated_driver
from support.paths import BUILD

PROGRAMS = [["binade", "list", "devices"], ["binade-run", "--list-devices"]]


def list_devices(library_path, **environment):
    environment = dict(os.environ, LD_LIBRARY_PATH=str(library_path), **environment)
    printed = set()
    for program, *arguments in PROGRAMS:
        done = subprocess.run(
            [BUILD / "bin" / program, *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert (done.returncode, done.stderr) == (0, "")
        printed.add(done.stdout)
    (text,) = printed
    cpu, *others = text.splitlines()
    assert re.fullmatch(r"cpu     \d+ cores?, x86-64-v[34], [\d.]+ GiB", cpu)
    return others


@pytest.fixture
def simulated():
    need_simulated_driver()
    return SIMULATED


def test_devices(simulated):
    settings = "devices=2,memory=8589934592,version=12080,capability=89"
    lines = list_devices(simulated, BINADE_SIMULATED_CUDA=settings)
    assert lines == [
        f"cuda:{index}  Simulated H200, compute capability 8.9, 8.0 GiB at 4917 GB/s, "
        "132 multiprocessors at 1980 MHz, CUDA 12.8"
        for index in range(2)
    ]


def test_hidden_devices(simulated):
    first, second = list_devices(simulated, CUDA_VISIBLE_DEVICES="")
    assert first.startswith("cuda    none: cuInit failed: CUDA_ERROR_NO_DEVICE (100)")
    assert second.strip().startswith("CUDA_VISIBLE_DEVICES is ''")


def test_an_old_driver(simulated):
    first, second = list_devices(simulated, BINADE_SIMULATED_CUDA="version=11040")
    assert first == "cuda    none: the driver is too old: it has CUDA 11.4"
    assert second.strip() == "CUDA 11.8 (driver 520.61.05) or newer is needed"


def test_no_driver(tmp_path):
    # The loader finds this file before the driver of the system.
    (tmp_path / "libcuda.so.1").write_text("no library")
    first, second = list_devices(tmp_path)
    assert first.startswith("cuda    none: the driver cannot be opened: ")
    assert str(tmp_path) in first
    assert "nvidia-smi" in second
