"""Times of collective operations, against published formulas and numbers worked out by hand."""

import doctest
import math

import pytest
from binade.planning import collectives
from binade.planning.collectives import (
    Level,
    all_gather,
    all_reduce,
    all_to_all,
    divide_ranks,
    find_half_size,
    reduce_scatter,
)

US, GB = 1e-6, 1e9
NODE = Level("NVLink", 8, 2 * US, 450 * GB)
RAIL = Level("InfiniBand", 0, 8 * US, 50 * GB)
CLUSTER = [NODE, RAIL]
FLAT_RING = [Level("InfiniBand", 0, 8 * US, 50 * GB, algorithms=("ring",))]
GRADIENTS = (
    6.74e9 * 2
)  # Bytes of the gradients of a model with 6.74e9 parameters in bf16.


def test_a_ring_takes_the_published_time():
    """Patarasuk and Yuan, 2009: 2 (p - 1) alpha + 2 (p - 1)/p n beta."""
    cost = all_reduce(FLAT_RING, 5, 1e6)
    assert cost.latency == pytest.approx(2 * 4 * 8e-6)
    assert cost.transfer == pytest.approx(2 * 4 / 5 * 1e6 / 50e9)
    assert cost.sent == pytest.approx(1.6e6)


@pytest.mark.parametrize("ranks, steps", [(2, 1), (3, 2), (4, 2), (5, 3), (1024, 10)])
def test_halving_takes_a_logarithm_of_steps(ranks, steps):
    """Thakur et al., 2005: log2 p alpha + (p - 1)/p n beta."""
    cost = reduce_scatter([RAIL], ranks, 4096)
    assert cost.latency == pytest.approx(steps * 8e-6)
    assert cost.transfer == pytest.approx((ranks - 1) / ranks * 4096 / 50e9)


@pytest.mark.parametrize(
    "ranks, milliseconds",
    [
        (8, 52.4),
        (64, 111.4),
        (512, 118.8),
        (1024, 119.3),
        (4096, 119.8),
        (16384, 120.0),
    ],
)
def test_levels_reduce_inside_out(ranks, milliseconds):
    """13.48 GB in a node of 8: 2 * 7/8 * 13.48 / 450 s = 52.4 ms. Then each of n nodes' rails
    carries an eighth: 2 * (n - 1)/n * 13.48 / 8 / 50 s, 67.4 ms for many. Latencies: 6 us per
    half in the node, 8 us per step between nodes."""
    cost = all_reduce(CLUSTER, ranks, GRADIENTS)
    assert 1e3 * cost.seconds == pytest.approx(milliseconds, abs=0.15)


def test_a_flat_ring_of_many_ranks_waits_for_latency():
    """2 * 16,383 messages of 8 us are 262 ms; the bytes take 2 * 13.48 / 50 s = 539 ms."""
    cost = all_reduce(FLAT_RING, 16384, GRADIENTS)
    assert 1e3 * cost.latency == pytest.approx(262.1, abs=0.1)
    assert 1e3 * cost.transfer == pytest.approx(539.2, abs=0.1)


def test_one_vector_is_cheaper_than_a_call_per_tensor():
    """4 KiB on 16,384 ranks: 2 * (3 * 2 us + 11 * 8 us) = 188 us; 450 calls take 85 ms."""
    one = all_reduce(CLUSTER, 16384, 4096)
    assert 1e6 * one.latency == pytest.approx(188)
    assert one.transfer < 1e-6
    assert 450 * one.seconds == pytest.approx(84.6e-3, rel=0.01)


def test_an_all_to_all_reduces_nothing():
    """16 ranks in 2 nodes, 16 bytes each: 7 bytes go to the own node, 8 to the other."""
    cost = all_to_all(CLUSTER, 16, 16)
    assert cost.sent == 15
    assert cost.latency == pytest.approx(7 * 2e-6 + 8 * 8e-6)
    assert cost.transfer == pytest.approx(7 / 450e9 + 8 / 50e9)


def test_an_all_gather_is_half_of_an_all_reduce():
    assert all_gather(CLUSTER, 64, 1e9) == reduce_scatter(CLUSTER, 64, 1e9)
    half, whole = all_gather(CLUSTER, 64, 1e9), all_reduce(CLUSTER, 64, 1e9)
    assert 2 * half.seconds == pytest.approx(whole.seconds)


def test_ranks_that_share_cores_take_turns():
    """Four processes on two cores: messages take twice as long as with two."""
    machine = [Level("loopback", 0, 50 * US, 10 * GB, 2, ("ring",))]
    two, four = all_reduce(machine, 2, 1e9), all_reduce(machine, 4, 1e9)
    assert two.latency == pytest.approx(2 * 50e-6)
    assert four.latency == pytest.approx(2 * 6 * 50e-6)
    assert two.transfer == pytest.approx(1e9 / 10e9)
    assert four.transfer == pytest.approx(2 * 1.5e9 / 10e9)
    assert two.sent == 1e9 and four.sent == 1.5e9


def test_messages_wait_until_their_rank_runs():
    machine = [Level("loopback", 0, 50 * US, 10 * GB, 2, ("ring",), wakeup=30 * US)]
    assert all_reduce(machine, 2, 0).seconds == pytest.approx(2 * 50e-6)
    assert all_reduce(machine, 4, 0).seconds == pytest.approx(6 * (2 * 50e-6 + 30e-6))


def test_one_rank_exchanges_nothing():
    assert all_reduce(CLUSTER, 1, 1e9).seconds == 0
    assert find_half_size(CLUSTER, 1) == 0


def test_the_last_node_may_have_fewer_ranks():
    assert divide_ranks(CLUSTER, 12) == [(NODE, 8), (RAIL, 2)]
    assert divide_ranks(CLUSTER, 3) == [(NODE, 3)]


def test_half_of_the_time_is_latency_at_the_half_size():
    size = find_half_size(CLUSTER, 16384)
    cost = all_reduce(CLUSTER, 16384, size)
    assert cost.latency == pytest.approx(cost.transfer)
    # 188 us at 2 (7/8/450 + 2047/2048/8/50) ns per byte: 21 MB.
    assert size == pytest.approx(188e3 / (2 * (7 / 8 / 450 + 2047 / 2048 / 8 / 50)))
    assert math.isclose(size, 21e6, rel_tol=0.02)


def test_examples():
    assert doctest.testmod(collectives).failed == 0
