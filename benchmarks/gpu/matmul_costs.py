"""Predicts the time of a matmul of cuBLASLt, as the compiler does (lib/Costs)."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import pathlib
import sys
from types import ModuleType

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "test/python"))

import bundles  # noqa: E402, F401  Makes the package importable.
from support.paths import BUILD  # noqa: E402


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


@functools.cache
def load_extension() -> ModuleType:
    """The built extension, from whichever folder the package was imported."""
    import binade

    binade.__path__.append(str(BUILD / "python/binade"))
    return importlib.import_module("binade._core")


@functools.cache
def predict_matmul(chip: str, matmul: Matmul) -> float:
    """Seconds on a chip such as sm_90."""
    return load_extension().predict_matmul(chip, *dataclasses.astuple(matmul))
