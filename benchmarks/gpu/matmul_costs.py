"""Predicts the time of a matmul of cuBLASLt.

A law with four constants for each type, times a correction: the mean of what measured
matmuls of similar shapes took more than the law says, weighted by their distance.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import math
import pathlib

from chips import Chip

TILES = [(128, 256), (128, 128), (64, 128), (64, 256), (256, 128), (192, 128)]
SPLITS = (1, 2, 3, 4, 6, 8, 12, 16)  # Of the contracted axis.
LEAST_TERMS = 256  # Of a part.
SPLIT_START = 2e-6  # Seconds of the kernel that adds the parts.
FAR = 9  # Squared distance from where on a measured matmul says little.


@dataclasses.dataclass(frozen=True)
class Matmul:
    """(m, k) times (k, n), `batch` times."""

    m: int
    n: int
    k: int
    batch: int = 1
    bytes: int = 2  # Of an element of the operands.
    out_bytes: int = 2  # Of an element of the result.
    accumulate: bool = False  # Adds to what the result holds.

    @property
    def flops(self) -> float:
        return 2.0 * self.m * self.n * self.k * self.batch

    def distance(self, other: Matmul) -> float:
        """Squared, in doublings of the smaller and larger axis of the result and of k."""
        return sum(
            math.log2(a / b) ** 2 for a, b in zip(self.extents(), other.extents())
        )

    def extents(self) -> tuple[int, int, int]:
        return (min(self.m, self.n), max(self.m, self.n), self.k)


@dataclasses.dataclass(frozen=True)
class Law:
    """FLOPs per second of all multiprocessors in large tiles; seconds from a wave of tiles to
    the next; seconds to start; and how much of its rate a tile loses, in elements of its
    circumference."""

    rate: float
    wave: float
    start: float
    edge: float


@dataclasses.dataclass(frozen=True)
class Epilogue:
    """What results in f32 cost: the share of the traffic of writing them that is not hidden,
    and bytes per second of reading what is added to."""

    exposed: float
    accumulate_rate: float


class MatmulCosts:
    """`measured` has seconds of matmuls with 16-bit results."""

    def __init__(
        self,
        chip: Chip,
        laws: dict[int, Law],
        epilogue: Epilogue,
        measured: list[tuple[Matmul, float]],
    ):
        self.chip, self.laws, self.epilogue = chip, laws, epilogue
        self.measured = [
            (matmul, math.log(seconds / self.apply_law(matmul)))
            for matmul, seconds in measured
        ]

    @staticmethod
    @functools.cache
    def load(name: str) -> MatmulCosts:
        chip = Chip.load(name)
        kinds = {1: "fp8", 2: "bf16", 4: "f32"}
        laws = {width: Law(**chip.matmul[kind]) for width, kind in kinds.items()}
        measured = [
            (Matmul(row["m"], row["n"], row["k"], bytes=row["bytes"]), 1e-6 * row["us"])
            for row in chip.matmul["matmuls"]
        ]
        return MatmulCosts(chip, laws, Epilogue(**chip.matmul["epilogue"]), measured)

    def predict(self, matmul: Matmul) -> float:
        """Seconds."""
        plain = dataclasses.replace(matmul, out_bytes=2, accumulate=False)
        seconds = self.apply_law(plain) * math.exp(self.correct(plain))
        elements = matmul.m * matmul.n * matmul.batch
        wider = elements * (matmul.out_bytes - 2)
        seconds += self.epilogue.exposed * wider / self.chip.dram_rate
        if matmul.accumulate:
            read = elements * matmul.out_bytes
            seconds += read / self.epilogue.accumulate_rate
        return seconds

    def correct(self, matmul: Matmul) -> float:
        """The mean logarithm of measured over law; 0 far from all that was measured."""
        total, weights = 0.0, self.weigh(FAR)
        for other, ratio in self.measured:
            if other.bytes == matmul.bytes:
                weight = self.weigh(matmul.distance(other))
                total += weight * ratio
                weights += weight
        return total / weights

    @staticmethod
    def weigh(distance: float) -> float:
        return (distance + 0.05) ** -2.5

    def apply_law(self, matmul: Matmul) -> float:
        """The fastest of the tiles and splits that a library can choose from."""
        law, processors = self.laws[matmul.bytes], self.chip.multiprocessors
        best, elements = math.inf, matmul.m * matmul.n * matmul.batch
        for (height, width), parts in itertools.product(TILES, SPLITS):
            if parts > 1 and matmul.k < parts * LEAST_TERMS:
                continue
            tiles = math.ceil(matmul.m / height) * math.ceil(matmul.n / width)
            waves = math.ceil(tiles * matmul.batch * parts / processors)
            rate = law.rate / processors / (1 + law.edge * (1 / height + 1 / width))
            tile = 2 * height * width * matmul.k / parts / rate
            seconds = waves * (tile + law.wave)
            if parts > 1:
                moved = (4 * parts + 2) * elements
                seconds += SPLIT_START + moved / self.chip.dram_rate
            best = min(best, seconds)
        read = matmul.bytes * matmul.batch * matmul.k * (matmul.m + matmul.n)
        return law.start + max(best, (read + 2 * elements) / self.chip.dram_rate)


def list_measured(path: pathlib.Path) -> list[tuple[Matmul, float]]:
    """The matmuls of a file of rates. `tn` of bf16 is the gradient of a weight: its result
    has k rows, and m terms."""
    rates = json.loads(path.read_text())["rates"]
    found = []
    for row in rates["products"]:
        forward = Matmul(row["m"], row["n"], row["k"])
        gradient = Matmul(row["k"], row["n"], row["m"])
        found.append((forward, forward.flops / max(row["nn"], row["nt"]) / 1e12))
        found.append((gradient, gradient.flops / row["tn"] / 1e12))
    for row in rates["fp8_products"]:
        matmul = Matmul(row["m"], row["n"], row["k"], bytes=1)
        found.append((matmul, matmul.flops / row["tn"] / 1e12))
    return found
