"""Draws random inputs of steps by the types and bounds in a plan."""

from __future__ import annotations

import numpy as np


def draw_batch(plan: dict, random: np.random.Generator) -> dict[str, np.ndarray]:
    """Integers within their bounds, other numbers normal."""
    batch = {}
    for port in plan["ports"]:
        buffer = plan["buffers"][port["buffer"]]
        if port["role"] != "batch":
            continue
        if buffer["dtype"].startswith("I"):
            high = port["check"]["high"]
            batch[port["name"]] = random.integers(0, high, buffer["shape"])
        else:
            batch[port["name"]] = random.standard_normal(buffer["shape"], np.float32)
    return batch
