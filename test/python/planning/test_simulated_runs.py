"""Runs of 1,024 virtual ranks that die at random moments."""

import numpy as np
import pytest
from binade.planning.failures import Failures
from binade.planning.schedule import Bucket
from binade.planning.simulated_runs import Job, Storage, simulate
from binade.errors import PeerError
from binade.planning.simulation import Death, list_exchanges
from binade.planning.transfers import list_other_transfers

RANKS = 1024
PROGRAM = list_exchanges(
    [Bucket(0.5, 10**8, 9), Bucket(1.0, 10**8, 9)],
    list_other_transfers(RANKS, 0, 0.0), 1.0, RANKS,
)  # fmt: skip
STEP = 1.0 + 0.2 + 0.2  # The last bucket and the loss follow the backward pass.


def make_job(mean, save=30.0, restart=0.0, interval=None, **options):
    failures = Failures(mean * RANKS, save, restart)
    steps = round((interval or failures.find_interval(RANKS)) / STEP)
    return Job(RANKS, PROGRAM, lambda exchange: 0.2, STEP, steps, failures, **options)


@pytest.mark.parametrize("mean", [600.0, 3600.0, 11137.0, 50_000.0])
def test_the_time_lost_is_that_of_the_formula(mean):
    """The estimate of 400 deaths has a relative standard error of about 5 %; what is left of a
    step after a death is not in the formula."""
    job = make_job(mean, restart=60.0, detection=0.0)
    interval = job.interval * STEP
    outcome = simulate(job, round(400 * mean / interval), seed=7)
    assert outcome.deaths > 300
    expected = job.failures.get_lost_share(RANKS, interval)
    assert outcome.lost == pytest.approx(expected, rel=0.12)


def test_longer_and_shorter_intervals_lose_more():
    lost = {}
    for factor in (0.2, 1, 5):
        best = Failures(3600 * RANKS, 30).find_interval(RANKS)
        job = make_job(3600.0, interval=factor * best)
        lost[factor] = simulate(job, round(600 * 3600 / (factor * best)), seed=3).lost
    assert lost[1] < lost[0.2] and lost[1] < lost[5]


def test_no_rank_hangs_and_all_continue_from_one_checkpoint():
    """`simulate` checks after each death that the checkpoint has the files of all ranks."""
    job = make_job(300.0, save=60.0, interval=100.0, detection=10.0)
    outcome = simulate(job, 300, seed=11)
    assert outcome.deaths > 100 and outcome.broken_saves > 10
    # A rank is at most in a step or writes its file when another dies.
    assert outcome.longest <= 60 + STEP + 10


def test_a_seed_decides_everything():
    job = make_job(3600.0)
    assert simulate(job, 100, seed=1) == simulate(job, 100, seed=1)
    assert simulate(job, 100, seed=1) != simulate(job, 100, seed=2)


def save(death):
    """Rank r writes for 10 + r seconds from 0 s on; the manifest takes one second more."""
    storage, start = Storage(), np.zeros(4)
    ended, isWhole = storage.save(1, start, 10.0 + np.arange(4), 1.0, death)
    return storage, ended, isWhole


@pytest.mark.parametrize(
    "rank, time, files, good",
    [
        (1, 5.0, {0, 2, 3}, 0),  # While it writes.
        (3, 12.9, {0, 1, 2}, 0),
        (1, 12.0, {0, 1, 2, 3}, 0),  # Before rank 0 has all hashes.
        (1, 13.5, {0, 1, 2, 3}, 1),  # Rank 0 writes the manifest without it.
        (0, 13.5, {0, 1, 2, 3}, 0),  # Rank 0 itself, before the manifest.
        (0, 14.0, {0, 1, 2, 3}, 1),
    ],
)
def test_a_checkpoint_counts_once_it_has_a_manifest(rank, time, files, good):
    storage, ended, _ = save(Death(rank, time, 2.0))
    assert storage.files[1] == files and storage.find_good(4) == good
    assert (ended <= 13 + 2 + 1).all()


def test_the_newest_file_of_each_rank_would_differ():
    """Without manifests, ranks would continue from different steps."""
    storage, _, _ = save(Death(1, 5.0, 2.0))
    newest = {max((n for n, ranks in storage.files.items() if rank in ranks), default=0)
              for rank in range(4)}  # fmt: skip
    assert newest == {0, 1}


def test_a_manifest_that_lists_missing_files_is_found():
    storage = Storage({1: {0, 1, 2}}, {1})
    with pytest.raises(PeerError, match="checkpoint 1 has 3 of 4 files"):
        storage.find_good(4)
