"""Encodings of exchanged gradients, compared with integers and ml_dtypes.

The reference of exact sums adds Python's integers, which have no size.
"""

import ctypes
import itertools
import struct

import ml_dtypes
import numpy as np
import pytest
from support.runtime import LIBRARY

pytestmark = pytest.mark.skipif(not LIBRARY.exists(), reason=f"{LIBRARY} is not built")

BLOCK, DIGIT, NOT_FINITE = 128, 16, 17


@pytest.fixture(scope="module")
def library():
    library = ctypes.CDLL(str(LIBRARY))
    library.binade_exact_sum_size.restype = ctypes.c_size_t
    return library


def call(function, *arguments):
    pointers = [
        ctypes.c_void_p(a.ctypes.data)
        if isinstance(a, np.ndarray)
        else ctypes.c_size_t(a)
        for a in arguments
    ]
    assert function(*pointers) == 0


class Exact:
    """The sums of one rank."""

    def __init__(self, library, count):
        self.library, self.count = library, count
        self.sum = np.zeros(
            library.binade_exact_sum_size(ctypes.c_size_t(count)), np.int32
        )

    @property
    def numbers(self):
        return self.sum[3 * self.count :]

    def add(self, values):
        call(
            self.library.binade_exact_add,
            self.sum,
            np.ascontiguousarray(values),
            self.count,
        )
        return self

    def pack(self, numbers):
        packed = np.zeros(self.count, np.int64)
        call(self.library.binade_exact_pack, self.sum, numbers, self.count, packed)
        return packed


def reduce(ranks):
    """All-reduces the sums of ranks: a maximum, then a sum of integers."""
    numbers = np.max([rank.numbers for rank in ranks], axis=0)
    packed = np.sum([rank.pack(numbers) for rank in ranks], axis=0)
    values = np.zeros(ranks[0].count, np.float32)
    call(ranks[0].library.binade_exact_decode, packed, numbers, ranks[0].count, values)
    return values


def divide(library, batches, ranks):
    """Adds the batches of each rank, which are consecutive, and reduces."""
    count = len(batches[0])
    firsts = [rank * len(batches) // ranks for rank in range(ranks + 1)]
    sums = []
    for first, last in itertools.pairwise(firsts):
        one = Exact(library, count)
        for batch in batches[first:last]:
            one.add(batch)
        sums.append(one)
    return reduce(sums)


# --- The reference ----------------------------------------------------------------------


def split(value):
    """Returns sign, significand and the position of its lowest bit, from 2^-149."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    exponent, fraction = bits >> 23 & 255, bits & 0x7FFFFF
    significand = fraction | (0x800000 if exponent else 0)
    return -1 if bits >> 31 else 1, significand, max(exponent, 1) - 1


def round_to_f32(total):
    """Returns the f32 nearest to total * 2^-149, ties to even."""
    magnitude = abs(total)
    shift = max(magnitude.bit_length() - 24, 0)
    quotient, rest = magnitude >> shift, magnitude & ((1 << shift) - 1)
    half = 1 << shift >> 1
    if shift and (rest > half or (rest == half and quotient & 1)):
        quotient += 1
    exact = quotient << shift
    if exact >= 1 << (128 + 149):
        return np.float32(np.inf if total > 0 else -np.inf)
    result = np.float32(np.ldexp(np.float64(quotient), shift - 149))
    return result if total >= 0 else -result


def add_up(batches):
    """Returns the sum of finite batches in which each value loses the bits below the
    lowest digit that its block keeps."""
    count = len(batches[0])
    result = np.zeros(count, np.float32)
    for first in range(0, count, BLOCK):
        parts = [batch[first : first + BLOCK] for batch in batches]
        highest = 0
        for value in np.concatenate(parts):
            _, significand, low = split(value)
            if significand:
                highest = max(highest, low + significand.bit_length() - 1)
        lowest = DIGIT * (max(highest // DIGIT, 2) - 2)
        for index in range(len(parts[0])):
            total = 0
            for part in parts:
                sign, significand, low = split(part[index])
                total += sign * (significand << low >> lowest << lowest)
            result[first + index] = round_to_f32(total)
    return result


def draw(random, count, low, high):
    """Values with exponents from low to high, some of them 0."""
    values = random.standard_normal(count) * 2.0 ** random.integers(low, high, count)
    values[random.random(count) < 0.1] = 0
    return values.astype(np.float32)


# --- Exact sums -------------------------------------------------------------------------

RANGES = [(-3, 3), (-40, 40), (-148, -100), (-149, 127), (90, 120)]


@pytest.mark.parametrize("exponents", RANGES)
@pytest.mark.parametrize("count", [1, 128, 300])
def test_sums_equal_those_of_integers(library, exponents, count):
    random = np.random.default_rng(count)
    batches = [draw(random, count, *exponents) for _ in range(12)]
    found = divide(library, batches, 1)
    np.testing.assert_array_equal(found, add_up(batches))


@pytest.mark.parametrize("exponents", RANGES)
def test_any_number_of_ranks_and_any_order_give_the_same_bits(library, exponents):
    random = np.random.default_rng(7)
    batches = [draw(random, 777, *exponents) for _ in range(16)]
    batches[3] *= np.float32(2.0**-60)
    expected = divide(library, batches, 1)
    for ranks in range(2, 17):
        np.testing.assert_array_equal(divide(library, batches, ranks), expected)
        random.shuffle(batches)


@pytest.mark.parametrize("place", range(3))
def test_a_late_large_value_drops_the_digits_of_earlier_ones(library, place):
    """The block's largest magnitude comes first, in between, or last."""
    random = np.random.default_rng(place)
    batches = [draw(random, 128, -60, -50) for _ in range(3)]
    batches[place][5] = 2.0**30
    batches[(place + 1) % 3][5] = 1.0
    found = divide(library, batches, 1)
    np.testing.assert_array_equal(found, add_up(batches))
    assert found[5] == 2.0**30 + 1 or found[5] == 2.0**30


def test_the_error_is_that_of_one_rounding(library):
    random = np.random.default_rng(0)
    batches = [random.standard_normal(4096).astype(np.float32) for _ in range(8)]
    exact = np.sum(np.array(batches, np.float64), axis=0)
    found = divide(library, batches, 8)
    assert np.abs(found / exact - 1).max() <= 6.1e-8


def test_values_that_are_not_finite(library):
    """NaN and infinities of ranks become what addition makes of them, and the rest of
    their block NaN; other blocks do not change."""
    nan, inf = np.nan, np.inf
    columns = [
        ((1, 2), nan), ((inf, 1), inf), ((1, -inf), -inf), ((inf, -inf), nan),
        ((nan, inf), nan), ((inf, inf), inf), ((-inf, -inf), -inf), ((nan, 1), nan),
    ]  # fmt: skip
    ranks = [np.ones(256, np.float32), np.ones(256, np.float32)]
    expected = np.full(256, nan)
    expected[128:] = 2
    for index, (values, total) in enumerate(columns):
        ranks[0][index], ranks[1][index] = values
        expected[index] = total
    for batches in (ranks, ranks[::-1]):
        for size in (1, 2):
            np.testing.assert_array_equal(divide(library, batches, size), expected)


def test_sums_that_overflow_become_infinite(library):
    largest = np.full(128, np.finfo(np.float32).max, np.float32)
    assert np.all(divide(library, [largest, largest], 2) == np.inf)
    assert np.all(divide(library, [largest, -largest], 2) == 0)


# --- E4M3 -------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-42, 1e-30, 1.0, 1e30])
def test_e4m3_equals_ml_dtypes(library, scale):
    random = np.random.default_rng(1)
    values = (random.standard_normal(1024) * scale).astype(np.float32)
    values[128:256] = 0
    codes, scales = np.zeros(1024, np.uint8), np.zeros(8, np.float32)
    call(library.binade_e4m3_encode, values, 1024, codes, scales)
    blocks = values.reshape(-1, BLOCK)
    largest = np.abs(blocks).max(axis=1)
    tiny = np.float32(2.0**-149)
    expected = np.where(largest > 0, np.maximum(largest / np.float32(448), tiny), 0)
    np.testing.assert_array_equal(scales, expected)
    with np.errstate(invalid="ignore"):
        quotients = np.nan_to_num(blocks / scales[:, None])
    narrow = np.clip(quotients, -448, 448).astype(ml_dtypes.float8_e4m3fn)
    np.testing.assert_array_equal(
        codes.view(ml_dtypes.float8_e4m3fn).astype(np.float32),
        narrow.ravel().astype(np.float32),
    )
    total = np.ones(1024, np.float32)
    call(library.binade_e4m3_add, codes, scales, 1024, total)
    wide = (narrow.astype(np.float32) * scales[:, None]).ravel()
    np.testing.assert_array_equal(total, np.float32(1) + wide)


def test_all_codes_of_e4m3(library):
    numbers = np.arange(256, dtype=np.uint8)
    values = numbers.view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    finite = np.nan_to_num(values)
    finite[numbers & 0x7F == 0x7F] = 448
    codes, scales = np.zeros(256, np.uint8), np.zeros(2, np.float32)
    call(library.binade_e4m3_encode, finite, 256, codes, scales)
    assert np.all(scales == 1)
    found = codes.view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    np.testing.assert_array_equal(found, finite)


def test_a_block_that_is_not_finite_becomes_nan(library):
    values = np.ones(256, np.float32)
    values[3] = np.inf
    codes, scales = np.zeros(256, np.uint8), np.zeros(2, np.float32)
    call(library.binade_e4m3_encode, values, 256, codes, scales)
    total = np.zeros(256, np.float32)
    call(library.binade_e4m3_add, codes, scales, 256, total)
    assert np.all(np.isnan(total[:128])) and np.all(total[128:] == 1)
