#!/usr/bin/env python3
"""Prints the shuffled orders that TrainingTest.cpp expects.

Implements Philox4x32-10 of Salmon et al. (2011) in Python's integers. Takes no arguments.
"""

MASK = 0xFFFFFFFF


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & MASK, (a >> 32) ^ c[3] ^ k[1], a & MASK]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return c


def key(seed):
    return [seed & MASK, seed >> 32]


def shuffle(count, seed, epoch):
    """Fisher-Yates from the end. The index is the upper half of (64 random bits) x (i + 1)."""
    order = list(range(count))
    for i in range(count - 1, 0, -1):
        words = philox([i & MASK, i >> 32, epoch, 0x6F726472], key(seed))
        j = ((words[1] << 32 | words[0]) * (i + 1)) >> 64
        order[i], order[j] = order[j], order[i]
    return order


if __name__ == "__main__":
    print(shuffle(10, 7, 0))
    print(shuffle(10, 7, 1))
    print(shuffle(10, (5 << 32) + 7, 0))
