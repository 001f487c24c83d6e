"""Predicts the time of attention by cuDNN, with the deterministic gradients that Binade uses.

Gradients are computed in parts if the plan reserves less workspace than all heads need. A score
costs its exponential, and for each column of a head the operations of the matmuls;
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
from matmul_costs import load_extension

TILE = 128  # Queries and keys of a tile of scores.


@dataclasses.dataclass(frozen=True)
class AttentionLaw:
    """Seconds of a score, of a score and a column of a head, of a query of a head, and of each
    part after the first."""

    score: float
    column: float
    query: float
    part: float = 0


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
    parts: int = 1

    @property
    def scores(self) -> float:
        """The scores in tiles that are not hidden."""
        tiles = math.ceil(self.queries / TILE)
        visible = (tiles + 1) / (2 * tiles) if self.causal else 1
        return visible * self.heads * self.queries * self.keys

    @property
    def terms(self) -> list[float]:
        """What the constants of the law are multiplied by."""
        return [self.scores, self.scores * self.columns, self.heads * self.queries,
                self.parts - 1]  # fmt: skip


def predict_attention(attention: Attention, law: AttentionLaw) -> float:
    return float(np.dot(attention.terms, dataclasses.astuple(law)))


def find_attention(record: dict, workspace: float = math.inf) -> Attention:
    """The attention of a record of a plan, in parts that need at most `workspace` bytes."""
    heads, lengths = math.prod(record["batch"]), (record["queries"], record["keys"])
    widths, gradients = (record["depth"], record["width"]), "gradients" in record
    parts = 1
    if gradients and workspace < math.inf:
        needed = load_extension().count_attention_workspace(
            heads, *lengths, *widths, record.get("grouped", False)
        )
        parts = math.ceil(needed / workspace)
        while heads % parts:  # Parts are equal.
            parts += 1
    return Attention(
        heads, *lengths, max(widths), record.get("causal", False), gradients, parts
    )


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
    are gradients, in one part."""
    rows = np.array([[x / s for x in shape.terms[:-1]] for shape, s in measured])
    found = np.linalg.lstsq(rows, np.ones(len(rows)), rcond=None)[0]
    return AttentionLaw(*map(float, found))
