"""Statistics of a tensor from those of its parts.

A program is compiled for one size. For tensors of many sizes, such as the activations of
texts of any length, it computes statistics of parts whose sizes are powers of two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

Values = Mapping[str, float | list[int]]


def list_chunks(size: int) -> Iterator[tuple[int, int]]:
    """Yields the begin and end of parts whose sizes are different powers of two."""
    begin = 0
    for bit in reversed(range(size.bit_length())):
        if size >> bit & 1:
            yield begin, begin + (1 << bit)
            begin += 1 << bit


def list_needed(statistics: Sequence[str]) -> tuple[str, ...]:
    """Returns the statistics of the parts from which those of the whole follow."""
    bases = {one.split("(")[0] for one in statistics}
    needed = dict.fromkeys(statistics)
    if "underflow" in bases:
        needed["zeros"] = None
    if "std" in bases:
        needed["mean"] = None
    return tuple(needed)


def combine(
    statistics: Sequence[str], sizes: Sequence[int], parts: Sequence[Values]
) -> dict[str, float | list[int]]:
    """Returns statistics of the whole.

    Args:
      statistics: Their names.
      sizes: The numbers of elements of the parts.
      parts: The statistics ``list_needed`` of each part.
    """
    count = np.asarray(sizes, np.float64)

    def get(name: str) -> np.ndarray:
        return np.asarray([part[name] for part in parts])

    def compute(name: str) -> float | list[int]:
        x, base = get(name), name.split("(")[0]
        if base == "exponents":
            return x.sum(0).tolist()
        if base == "norm":
            return float(np.sqrt(np.sum(x * x)))
        if base in ("max", "absmax"):
            return float(x.max())
        if base == "min":
            return float(x.min())
        if base == "underflow":  # A share of the elements that are not 0.
            nonzero = count - np.rint(get("zeros") * count)
            small = np.where(nonzero > 0, x * nonzero, 0)
            return float(small.sum() / nonzero.sum()) if nonzero.sum() else float("nan")
        if base == "std":
            return _combine_deviations(x, get("mean"), count)
        return float(np.sum(x * count) / count.sum())  # A mean or a share.

    return {name: compute(name) for name in statistics}


def _combine_deviations(
    deviation: np.ndarray, mean: np.ndarray, count: np.ndarray
) -> float:
    """Returns the unbiased standard deviation of the whole (Chan et al., 1979)."""
    if count.sum() < 2:
        return float("nan")
    # A part with one element has none.
    within = np.where(count > 1, deviation**2 * (count - 1), 0)
    between = count * (mean - np.sum(mean * count) / count.sum()) ** 2
    return float(np.sqrt(np.sum(within + between) / (count.sum() - 1)))
