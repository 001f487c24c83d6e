"""1,024 virtual ranks: the order of exchanges, uneven shards, and the time that a step takes."""

import dataclasses

import numpy as np
import pytest
from binade.planning.collectives import Level
from binade.planning.schedule import Bucket, overlap
from binade.errors import PeerError
from binade.planning.simulation import Death, list_exchanges, run_step
from binade.planning.transfers import list_other_transfers
from binade.rows import divide

RANKS = 1024
FABRIC = [Level("NVLink", 8, 2e-6, 450e9), Level("fabric", 0, 8e-6, 50e9)]
BUCKETS = [
    Bucket(0.010, 30_000_000, 5),
    Bucket(0.015, 40_000_000, 9),
    Bucket(0.02, 9, 1),
]
OTHERS = list_other_transfers(RANKS, 3, 0.0)


def measure(exchange):
    return exchange.transfer.cost(FABRIC, RANKS).seconds


def make_program(exchange="f32", **options):
    return list_exchanges(BUCKETS, OTHERS, 0.02, RANKS, exchange, **options)


def test_a_step_takes_what_the_schedule_predicts():
    program = make_program()
    result = run_step([program] * RANKS, measure, np.zeros(RANKS))
    times = [measure(one) for one in program]
    hidden = overlap([0.010, 0.015, 0.02], times[:3], 0.02)
    assert result.is_whole and result.passed == len(program) == 5
    assert np.ptp(result.clocks) == 0
    assert result.clocks[0] == pytest.approx(0.02 + hidden.exposed + sum(times[3:]))


def test_the_slowest_rank_decides():
    speeds = np.ones(RANKS)
    speeds[77] = 1.5
    program = make_program()
    slow = run_step([program] * RANKS, measure, np.zeros(RANKS), speeds)
    same = run_step([program] * RANKS, measure, np.zeros(RANKS), 1.5)
    assert slow.clocks[0] == same.clocks[0] > 0.03


@pytest.mark.parametrize(
    "exchange, transfers", [("f32", 1), ("bf16", 2), ("e4m3", 2), ("exact", 2)]
)
def test_a_bucket_is_exchanged_by_its_transfers_in_order(exchange, transfers):
    program = make_program(exchange)
    assert len(program) == 3 * transfers + 2
    assert [one.name for one in program[: 2 * transfers]] == (
        ["bucket 0"] * transfers + ["bucket 1"] * transfers
    )
    assert run_step([program] * RANKS, measure, np.zeros(RANKS)).is_whole


def run(programs):
    with pytest.raises(PeerError) as caught:
        run_step(programs, measure, np.zeros(len(programs)))
    assert caught.value.exit_code == 9
    return str(caught.value)


def test_another_order_in_one_rank_is_a_deadlock():
    program = make_program()
    other = [program[1], program[0], *program[2:]]
    programs = [program] * RANKS
    programs[17] = other
    assert run(programs) == (
        "deadlock in exchange 0: 1023 ranks in all_reduce of bucket 0 (120000000 bytes); "
        "rank 17 in all_reduce of bucket 1 (160000000 bytes)"
    )


def test_another_size_in_some_ranks_is_a_deadlock():
    program = make_program()
    larger = dataclasses.replace(
        program[2], transfer=dataclasses.replace(program[2].transfer, size=40.0)
    )
    programs = [program] * RANKS
    for rank in (3, 5):
        programs[rank] = [*program[:2], larger, *program[3:]]
    text = run(programs)
    assert text.startswith(
        "deadlock in exchange 2: 1022 ranks in all_reduce of bucket 2"
    )
    assert text.endswith("; ranks 3, 5 in all_reduce of bucket 2 (40 bytes)")


def test_a_rank_that_skips_an_exchange_is_named():
    program = make_program()
    programs = [list(program) for _ in range(RANKS)]  # Equal, but not shared.
    programs[1000] = program[:-1]
    assert "exchange 4: 1023 ranks in all_reduce of magnitudes" in run(programs)
    assert "rank 1000 in none, at the end of the step" in run(programs)


def test_ranks_may_be_ready_at_different_times():
    """Only the order counts, and not when a rank enters an exchange."""
    program = make_program()
    programs = [program] * RANKS
    programs[5] = [dataclasses.replace(one, ready=2 * one.ready) for one in program]
    assert run_step(programs, measure, np.zeros(RANKS)).is_whole


@pytest.mark.parametrize("seed", range(20))
def test_no_rank_hangs_when_a_rank_dies_in_a_step(seed):
    generator = np.random.default_rng(seed)
    program = make_program()
    whole = run_step([program] * RANKS, measure, np.zeros(RANKS)).clocks[0]
    death = Death(int(generator.integers(RANKS)), generator.uniform(0, whole), 0.5)
    speeds = generator.uniform(1, 1.2, RANKS)
    result = run_step([program] * RANKS, measure, np.zeros(RANKS), speeds, death)
    assert not result.is_whole and result.passed < len(program)
    assert result.clocks[death.rank] == death.time
    others = np.delete(result.clocks, death.rank)
    # A rank notices when it waits for the dead one, at the latest at its next exchange.
    assert (others >= death.time + 0.5).all() and (
        others <= 0.02 * 1.2 + whole + 0.5
    ).all()


# --- Shards -----------------------------------------------------------------------------


def test_1601_rows_on_1024_ranks():
    """ceil(1601 / 1024) = 2 rows for 800 ranks, 1 for the next, none for 223."""
    counts = [divide(1601, RANKS, rank)[1] for rank in range(RANKS)]
    assert counts == [2] * 800 + [1] + [0] * 223


@pytest.mark.parametrize("rows", [1, 2, 3, 127, 256, 257, 1601, 50257])
def test_shards_are_a_partition(rows):
    for ranks in range(1, 258):
        end = 0
        for rank in range(ranks):
            first, count = divide(rows, ranks, rank)
            assert first == end and count >= 0
            end = first + count
        assert end == rows, ranks


def test_shards_are_those_of_torch():
    torch = pytest.importorskip("torch")
    for rows, ranks in [(1601, 1024), (5, 3), (6, 4), (1, 7), (50257, 257)]:
        chunks = [len(chunk) for chunk in torch.arange(rows).chunk(ranks)]
        found = [divide(rows, ranks, rank)[1] for rank in range(ranks)]
        assert found == chunks + [0] * (ranks - len(chunks))
