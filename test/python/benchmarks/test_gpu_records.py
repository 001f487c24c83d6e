"""benchmarks/gpu/records.py: the comparison of a record's results with their limits."""

import sys

import ml_dtypes
import numpy as np
import pytest
from support.gpu_benchmarks import GPU

sys.path.insert(0, str(GPU))

from records import Limits, find_wrong  # noqa: E402

BF16 = ml_dtypes.bfloat16
COLUMNS = 2  # Of each of two results, whose rows alternate in memory.


def make_results():
    """Two results of three rows, which are columns of one matrix: what is expected of each, from
    its first to its last element, and limits of the elements that are its own."""
    matrix = np.arange(1, 13, dtype=np.float32).astype(BF16)
    results, limits = [], Limits()
    for index in range(2):
        begin = COLUMNS * index
        count = len(matrix) - COLUMNS
        access = {"dtype": "BF16", "offset": 64 + 2 * begin}
        low = np.full(count, np.nan, np.float32)
        high = low.copy()
        for row in range(3):
            own = slice(2 * COLUMNS * row, 2 * COLUMNS * row + COLUMNS)
            wanted = matrix[begin:][own].astype(np.float32)
            low[own], high[own] = wanted - 0.25, wanted + 0.25
        limits.add(access, *(x.astype(BF16).view(np.uint8) for x in (low, high)))
        results.append((access, matrix[begin : begin + count]))
    return results, limits


def change(values, element, by):
    changed = values.copy()
    changed[element] = float(changed[element]) + by
    return changed.tobytes()


@pytest.mark.parametrize("element", [0, 2, 3, 8])
def test_limits_of_each_result_hold_in_the_bytes_of_the_others(element):
    """Elements 2 and 3 of the first result's bytes are those of the second."""
    results, limits = make_results()
    access, values = results[0]
    expected = values.tobytes()
    assert not len(find_wrong(access, expected, expected, limits))
    inside, outside = (change(values, element, by) for by in (0.125, 0.5))
    assert not len(find_wrong(access, inside, expected, limits))
    assert find_wrong(access, outside, expected, limits).tolist() == [element]


def test_elements_without_limits_must_be_equal():
    access = {"dtype": "BF16", "offset": 0}
    values = np.ones(4, BF16)
    got = change(values, 1, 2.0**-7)
    assert find_wrong(access, got, values.tobytes(), Limits()).tolist() == [1]


def test_nan_of_other_bits_is_equal():
    access = {"dtype": "BF16", "offset": 0}
    nans = [np.array([1.0, number], BF16).tobytes() for number in (np.nan, -np.nan)]
    assert nans[0] != nans[1]
    assert not len(find_wrong(access, nans[0], nans[1], Limits()))
