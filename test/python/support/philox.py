"""Philox4x32-10 in numpy, written from the paper (Salmon et al., 2011)."""

import numpy as np

MASK = np.uint64(0xFFFFFFFF)


def draw_words(count, seed, step, stream):
    """The four words of each index below `count`."""
    index = np.arange(count, dtype=np.uint64)
    c = [index & MASK, index >> np.uint64(32),
         np.full_like(index, stream), np.full_like(index, step)]  # fmt: skip
    k = [np.uint64(seed & 0xFFFFFFFF), np.uint64(seed >> 32)]
    for _ in range(10):
        first, second = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [second >> np.uint64(32) ^ c[1] ^ k[0], second & MASK,
             first >> np.uint64(32) ^ c[3] ^ k[1], first & MASK]  # fmt: skip
        k = [k[0] + np.uint64(0x9E3779B9) & MASK, k[1] + np.uint64(0xBB67AE85) & MASK]
    return c


def draw_uniform(count, seed, step, stream):
    """The words of `draw_words` as values in [0, 1)."""
    words = draw_words(count, seed, step, stream)
    return [(word >> np.uint64(8)).astype(np.float64) * 2.0**-24 for word in words]


def draw_elements(count, seed, step, stream):
    """Values in [0, 1) of `count` elements, of which each counter gives four."""
    words = draw_uniform(-(-count // 4), seed, step, stream)
    return np.stack(words, axis=1).ravel()[:count]
