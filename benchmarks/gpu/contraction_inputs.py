"""Draws the operands of attention, of heads and of FP8 matmuls."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
from contraction_modules import Contraction, Loss

TYPES = {
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
}
DRAWN = 1 << 20  # As many values are drawn; larger tensors repeat them.
# Standard deviations; of quantized operands one that uses the format's range.
DEVIATIONS = {"w": 0.02, "dy": 0.01}
QUANTIZED = 100.0


def draw(
    name: str, element: str, shape: tuple[int, ...], random: np.random.Generator
) -> np.ndarray:
    if name.endswith("_scale"):
        return np.array(1 / QUANTIZED, np.float32)
    deviation = QUANTIZED if element == "f8E4M3FN" else DEVIATIONS.get(name, 1.0)
    values = random.standard_normal(min(DRAWN, math.prod(shape)), np.float32)
    values *= deviation
    if name == "lse":  # About what scores of these queries and keys have.
        values = 0.1 * values + math.log(shape[-1])
    return np.resize(values.astype(TYPES[element]), shape)


def draw_inputs(
    case: Contraction, random: np.random.Generator
) -> dict[tuple[str, str], np.ndarray]:
    """Returns a value of each input, by its role and name."""
    drawn = {}
    for key, (element, shape) in case.list_inputs().items():
        if element == "i64":
            assert isinstance(case, Loss)
            drawn[key] = random.integers(0, case.vocabulary, shape)
        else:
            drawn[key] = draw(key[1], element, shape, random)
    return drawn
