#!/usr/bin/env python3
"""Writes initial-values.json: elements of random initial weights.

A plain reading of docs/Import.md ("How a value is drawn") in Python integers and f64,
for the tests of every implementation. Values are exact f64, before the last rounding.
"""

import hashlib
import json
import math
from pathlib import Path

MASK = 0xFFFFFFFF
COUNT = 7
CASES = [
    ({"rule": "normal", "mean": 0.0, "std": 0.02}, "token.weight", 0),
    ({"rule": "normal", "mean": 1.5, "std": 2.0}, "blocks.0.attention.qkv.weight", 7),
    ({"rule": "uniform", "low": -0.25, "high": 0.25}, "fc.weight", (5 << 32) + 3),
    ({"rule": "uniform", "low": -0.25, "high": 0.75}, "größe", (1 << 64) - 1),
]


def philox(counter: list[int], key: list[int]) -> list[int]:
    """Philox4x32-10 (Salmon et al., 2011)."""
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & MASK, (a >> 32) ^ c[3] ^ k[1], a & MASK]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return c


def element(rule: dict, name: str, index: int, seed: int) -> float:
    """One element before rounding."""
    digest = hashlib.sha256(name.encode()).digest()
    stream = [int.from_bytes(digest[i : i + 4], "little") for i in (0, 4)]
    block = index // 4
    words = philox([block & MASK, block >> 32, *stream], [seed & MASK, seed >> 32])
    if rule["rule"] == "uniform":
        unit = (words[index % 4] >> 8) / 2**24
        return rule["low"] + (rule["high"] - rule["low"]) * unit
    first, second = words[index % 4 // 2 * 2 :][:2]
    radius = math.sqrt(-2 * math.log((first + 1) / 2**32))
    angle = 2 * math.pi * second / 2**32
    unit = radius * (math.sin(angle) if index % 2 else math.cos(angle))
    return rule["mean"] + rule["std"] * unit


def main() -> None:
    known = [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert philox([0] * 4, [0] * 2) == known, "the authors' known answer"
    # Far elements use the upper half of the block's number.
    indices = [*range(COUNT), (1 << 34) + 5]
    cases = [
        {
            "rule": rule,
            "name": name,
            "seed": seed,
            "elements": {str(i): element(rule, name, i, seed) for i in indices},
        }
        for rule, name, seed in CASES
    ]
    path = Path(__file__).with_name("initial-values.json")
    path.write_text(json.dumps(cases, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
