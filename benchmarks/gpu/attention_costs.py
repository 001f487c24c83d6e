"""Predicts the time of attention by cuDNN, with the deterministic gradients that Binade uses.

A score costs its exponential, and for each column of a head the operations of the matmuls;
a query costs its start and its result. With a causal mask, tiles of scores that it hides
completely are skipped. The constants of this law are fitted to the shapes that
results/rates has.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable

import numpy as np

TILE = 128  # Queries and keys of a tile of scores.


@dataclasses.dataclass(frozen=True)
class AttentionLaw:
    """Seconds of a score, of each of its columns, and of a query of a head."""

    score: float
    column: float
    query: float


@dataclasses.dataclass(frozen=True)
class Attention:
    """`heads` are those of all samples; `columns` of a query, a key or a value. With a causal mask
    there are as many queries as keys."""

    heads: int
    queries: int
    keys: int
    columns: int
    causal: bool = False
    gradients: bool = False

    @property
    def scores(self) -> float:
        """The scores in tiles that are not hidden."""
        tiles = math.ceil(self.queries / TILE)
        visible = (tiles + 1) / (2 * tiles) if self.causal else 1
        return visible * self.heads * self.queries * self.keys

    @property
    def terms(self) -> list[float]:
        """What the constants of the law are multiplied by."""
        return [self.scores, self.scores * self.columns, self.heads * self.queries]


def predict_attention(attention: Attention, law: AttentionLaw) -> float:
    return float(np.dot(attention.terms, dataclasses.astuple(law)))


def find_attention(record: dict) -> Attention:
    """The attention of a record of a plan."""
    return Attention(
        math.prod(record["batch"]), record["queries"], record["keys"],
        max(record["depth"], record["width"]), record.get("causal", False),
        "gradients" in record,
    )  # fmt: skip


def read_measured(text: str) -> list[tuple[Attention, float]]:
    """Measured shapes and seconds of a file of results/rates."""
    measured = []
    for row in json.loads(text)["rates"]["cudnn_attention"]:
        samples, heads, _, length, columns = row["shape"]
        times = [row["forward_ms"], row["deterministic"]["backward_ms"]]
        for gradients, ms in zip((False, True), times):
            shape = samples * heads, length, length, columns, row["causal"], gradients
            measured.append((Attention(*shape), ms / 1e3))
    return measured


def fit_law(measured: Iterable[tuple[Attention, float]]) -> AttentionLaw:
    """The constants with the least squared relative errors; all `measured` are forward, or all
    are gradients."""
    rows = np.array([[x / s for x in shape.terms] for shape, s in measured])
    found = np.linalg.lstsq(rows, np.ones(len(rows)), rcond=None)[0]
    return AttentionLaw(*map(float, found))
