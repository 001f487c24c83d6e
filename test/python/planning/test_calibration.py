"""Latency and bandwidth fitted to times that a formula gives, and the benchmark that measures."""

import subprocess
import sys

import numpy as np
import pytest
from binade.planning.calibration import Measurement, fit_level, get_error, predict
from binade.planning.fabric import read_fabric
from support.paths import ROOT

SIZES = [4096, 65536, 2**19, 2**22, 2**24]


def take(ranks, size, latency=50e-6, bandwidth=3e9, cores=2, wakeup=0.0):
    """A ring of processes that share cores: 2 (p - 1) messages of n / p bytes."""
    slower = max(1, ranks / cores)
    wait = wakeup if ranks > cores else 0
    return 2 * (ranks - 1) * (slower * (latency + size / ranks / bandwidth) + wait)


def measure(noise=0.0, **parameters):
    generator = np.random.default_rng(1)
    return [
        Measurement(
            ranks,
            size,
            take(ranks, size, **parameters) * (1 + noise * generator.uniform(-1, 1)),
        )  # fmt: skip
        for ranks in (2, 4)
        for size in SIZES
    ]


def test_the_numbers_of_the_formula_are_found():
    level = fit_level("loopback", measure(), at_once=2)
    assert level.latency == pytest.approx(50e-6) and level.bandwidth == pytest.approx(
        3e9
    )
    assert get_error(level, measure()) < 1e-9
    for size in SIZES:
        assert predict(level, 3, size) == pytest.approx(take(3, size))


def test_the_time_until_a_waiting_process_runs_is_found():
    level = fit_level("loopback", measure(wakeup=60e-6), at_once=2)
    assert level.wakeup == pytest.approx(60e-6)
    assert predict(level, 3, 4096) == pytest.approx(take(3, 4096, wakeup=60e-6))


def test_processes_that_never_wait_have_no_wakeup():
    assert fit_level("loopback", measure(wakeup=60e-6), at_once=4).wakeup == 0
    # Times that are too short for the number of processes are not explained by less than 0.
    assert fit_level("loopback", measure(wakeup=-10e-6), at_once=2).wakeup == 0


def test_noise_of_ten_percent_leaves_predictions_within_ten_percent():
    level = fit_level("loopback", measure(noise=0.1), at_once=2)
    for size in SIZES:
        assert predict(level, 3, size) == pytest.approx(take(3, size), rel=0.1)


def test_cores_that_are_shared_matter():
    """Without them, three processes would be predicted too fast or two too slow."""
    level = fit_level("loopback", measure(), at_once=0)
    assert get_error(level, measure()) > 0.2


@pytest.mark.slow
def test_the_benchmark_writes_a_fabric(tmp_path):
    pytest.importorskip("torch")
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks/exchange_model.py", "--rounds", "1",
         "--write", tmp_path / "here.yaml"],
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "three processes predicted from two and four: error" in done.stdout
    [level] = read_fabric(str(tmp_path / "here.yaml")).levels
    assert (
        level.wakeup < 1 and 1e-6 < level.latency < 1 and 1e6 < level.bandwidth < 1e12
    )
