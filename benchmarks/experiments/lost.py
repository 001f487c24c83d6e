"""Measures gradient elements of a run that underflow, compared with f32 on the same step.

An element is lost where it is 0 in the run's formats and not in f32. What keys of
attention have for biases is left out: its true gradient is 0.
"""

from __future__ import annotations

import json
import math
import pathlib
from collections.abc import Iterator

import numpy as np

import binade
from binade import safetensors
from binade.run import read_run

SHARES = (0.01, 0.1, 0.5)
# What a record holds. Logarithms are of magnitudes without loss scale, in f32: of the
# largest, and of what 1 % of a tensor's nonzero elements are below, of the lowest tensor.
RECORD = [
    "step", "skipped", "lost", *(f"flagged {share:g}" for share in SHARES), "worst",
    "log2 largest", "log2 lowest 1 %",
]  # fmt: skip


def select(name: str, gradient: np.ndarray) -> np.ndarray:
    if name.endswith("qkv.bias"):
        return np.delete(gradient, np.s_[gradient.size // 3 : gradient.size // 3 * 2])
    return gradient.ravel()


def count(wide: dict[str, np.ndarray], own: dict[str, np.ndarray]) -> dict[str, float]:
    """Returns shares of lost elements, of all and by tensor, and magnitudes."""
    lost, nonzero, largest, lowest, shares = 0, 0, 0.0, math.inf, []
    for name, values in wide.items():
        exact = np.abs(select(name, values).astype(np.float64))
        there = exact > 0
        gone = int((there & (select(name, own[name]) == 0)).sum())
        total = int(there.sum())
        shares.append(gone / max(total, 1))
        lost, nonzero = lost + gone, nonzero + total
        if total:
            largest = max(largest, exact.max())
            lowest = min(lowest, np.quantile(exact[there], 0.01))
    flagged = [sum(s >= share for s in shares) / len(shares) for share in SHARES]
    return dict(zip(RECORD[2:], [
        lost / max(nonzero, 1), *flagged, max(shares),
        math.log2(largest) if largest else -math.inf,
        math.log2(lowest) if lowest < math.inf else -math.inf,
    ]))  # fmt: skip


class Gradients:
    """Of a step, from the state of a checkpoint."""

    def __init__(self, model: pathlib.Path, policy: str) -> None:
        self.step = binade.compile(model, policy=policy, threads=1, keep_gradients=True)

    def compute(
        self, state: pathlib.Path, batch: dict[str, np.ndarray]
    ) -> tuple[dict[str, np.ndarray], float]:
        """The gradients, and the loss."""
        self.step.restore(state)
        loss = self.step(batch).loss
        return {name: g.copy() for name, g in self.step.gradients.items()}, loss


def measure(
    run: pathlib.Path,
    model: pathlib.Path,
    policy: str,
    batches: pathlib.Path,
    injected: dict[int, pathlib.Path],
) -> Iterator[list[float]]:
    """A record for each checkpoint of a run, of the step that followed it.

    Args:
      run: The run's directory.
      model: What it trained.
      policy: And how.
      batches: The file of its batches in their order.
      injected: The files of those that took others' places, by first step.
    """
    wide, own = Gradients(model, "fp32"), Gradients(model, policy)
    size = len(next(iter(wide.step.batch.values())))
    data = safetensors.load(batches)
    for first, path in injected.items():
        for name, values in safetensors.load(path).items():
            at = (first - 1) * size
            data[name][at : at + len(values)] = values
    steps = {step["step"]: step for step in read_run(run).steps}
    for folder in sorted((run / "checkpoints").iterdir()):
        step = json.loads((folder / "manifest.json").read_text())["step"] + 1
        if step not in steps:
            continue
        batch = {n: v[(step - 1) * size : step * size] for n, v in data.items()}
        exact, _ = wide.compute(folder / "state.safetensors", batch)
        found, loss = own.compute(folder / "state.safetensors", batch)
        was = steps[step]["loss"]
        if not (math.isnan(loss) and was is None) and loss != was:
            raise AssertionError(f"{run}: step {step} had a loss of {was}, now {loss}")
        record = count(exact, found)
        yield [step, int(steps[step]["skipped"]), *record.values()]
