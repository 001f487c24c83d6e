"""Rates of failures and intervals of checkpoints, against published formulas and a table."""

import math

import numpy as np
import pytest
from binade.planning.failures import Failures

# 419 unplanned stops of 16,384 GPUs in 54 days (The Llama 3 Herd of Models, 2024).
RANK_HOURS = 54 * 24 * 16384 / 419
SAVES = Failures(RANK_HOURS * 3600, save=30)


@pytest.mark.parametrize(
    "ranks, hours, minutes, percent",
    [(8, 6335, 616, 0.2), (64, 792, 218, 0.5), (512, 99, 77, 1.3), (1024, 49.5, 54, 1.8),
     (4096, 12.4, 27, 3.7), (16384, 3.1, 13.6, 7.3)],
)  # fmt: skip
def test_the_rate_of_llama_3(ranks, hours, minutes, percent):
    """Young's interval, sqrt(2 * 30 s * M), and his overhead, sqrt(2 * 30 s / M). Daly's
    estimates differ by a few percent."""
    assert SAVES.get_mean_time(ranks) / 3600 == pytest.approx(hours, rel=0.01)
    interval = SAVES.find_interval(ranks)
    young = math.sqrt(2 * 30 * SAVES.get_mean_time(ranks))
    assert young / 60 == pytest.approx(minutes, rel=0.01)
    assert interval == pytest.approx(young, rel=0.04)
    lost = 100 * SAVES.get_lost_share(ranks, interval)
    assert lost == pytest.approx(percent, rel=0.05, abs=0.06)


def test_the_higher_order_estimate():
    """Daly, 2006: sqrt(2 d M) (1 + sqrt(d / 2M) / 3 + d / 2M / 9) - d for d < 2 M. With
    d = 2 and M = 100: 20 * (1 + 0.1/3 + 0.01/9) - 2 = 18.6889."""
    assert Failures(100, save=2).find_interval(1) == pytest.approx(18.68889, abs=1e-5)
    assert Failures(100, save=200).find_interval(1) == 100


@pytest.mark.parametrize("save, mean", [(30, 11137), (60, 3600), (5, 600)])
def test_no_other_interval_loses_less(save, mean):
    failures = Failures(mean, save, restart=120)
    best = failures.find_interval(1)
    found = [
        failures.get_lost_share(1, t) for t in np.geomspace(best / 8, best * 8, 400)
    ]
    assert failures.get_lost_share(1, best) <= min(found) * 1.002


def test_the_share_lost_is_that_of_random_failures():
    """An independent simulation: the time until an interval and its save pass without a
    failure, each of which costs the time since its start, and the restart."""
    save, mean, restart, interval = 20.0, 1000.0, 50.0, 180.0
    generator = np.random.default_rng(1)
    total, count = 0.0, 40_000
    for _ in range(count):
        need = interval + save
        while True:
            failure = generator.exponential(mean)
            if failure >= need:
                total += need
                break
            total += failure
            # A failure during the restart begins it anew.
            while (during := generator.exponential(mean)) < restart:
                total += during
            total += restart
    lost = 1 - count * interval / total
    expected = Failures(mean, save, restart).get_lost_share(1, interval)
    assert lost == pytest.approx(expected, rel=0.02)


def test_nothing_is_finished_if_failures_are_too_frequent():
    assert Failures(1.0, save=10_000).get_lost_share(1, 1.0) == 1.0
