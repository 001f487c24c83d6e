"""Overlap of exchanges and the backward pass, against schedules worked out by hand."""

import pytest
from binade.planning.schedule import Bucket, merge_buckets, overlap


def test_an_exchange_waits_for_its_bucket_and_the_one_before():
    """Buckets are ready at 1, 2 and 6 s and take 3, 1 and 2 s: 1-4, 4-5, 6-8. The backward
    pass ends at 6 s."""
    found = overlap([1, 2, 6], [3, 1, 2], 6)
    assert (found.exchange, found.exposed) == (6, 2)
    assert found.hidden == pytest.approx(4 / 6)


def test_a_fast_exchange_is_hidden_but_for_the_last_bucket():
    assert overlap([1, 2, 3], [0.1, 0.1, 0.5], 3).exposed == pytest.approx(0.5)
    assert overlap([1, 2], [0.5, 0.5], 3).hidden == 1


def test_a_slow_exchange_ends_one_after_the_other():
    assert overlap([1, 2, 3], [10, 10, 10], 3).exposed == pytest.approx(1 + 30 - 3)


def test_nothing_to_exchange_is_hidden():
    assert overlap([], [], 1).hidden == 1


def test_buckets_are_filled_in_the_order_of_the_backward_pass():
    gradients = [
        Bucket(1.0, 30, 1),
        Bucket(2.0, 80, 1),
        Bucket(2.5, 100, 1),
        Bucket(3.0, 1, 1),
    ]
    assert merge_buckets(gradients, 100) == [
        Bucket(2.0, 110, 2), Bucket(2.5, 100, 1), Bucket(3.0, 1, 1),
    ]  # fmt: skip
    assert merge_buckets(gradients, 1000) == [Bucket(3.0, 211, 4)]
    assert merge_buckets(gradients, 1) == gradients


def test_buckets_are_joined_and_never_divided():
    buckets = [Bucket(1.0, 110, 2), Bucket(2.0, 100, 1), Bucket(3.0, 1, 1)]
    assert merge_buckets(buckets, 0) == buckets
    assert merge_buckets(buckets, 111) == [Bucket(2.0, 210, 3), Bucket(3.0, 1, 1)]
