"""Rates of a GPU, from chips/*.yaml and the compiler's files, lib/Costs/Chips/*.yaml."""

from __future__ import annotations

import dataclasses
import functools
import pathlib

import yaml
from attention_costs import Attention, AttentionLaw

FITTED = (
    "dram_rate", "dependency", "overlap", "turnaround", "exponent", "matrix_rate",
)  # fmt: skip
FOLDER = pathlib.Path(__file__).resolve().parent
COMPILERS = FOLDER.parents[1] / "lib/Costs/Chips"


@dataclasses.dataclass(frozen=True)
class Chip:
    """The rates of `chip`, such as sm_90; the files say what each is, in which unit."""

    chip: str
    name: str
    multiprocessors: int
    clock: float
    registers: int
    threads: int
    blocks: int
    shared_bytes: int
    l1_bytes: float
    l2_bytes: float
    l2_rate: float
    dram_latency: float
    l2_latency: float
    instructions: float
    alu: float
    special: float
    start: float
    block_start: float
    dram_rate: float
    dependency: float
    overlap: float
    turnaround: float
    exponent: float
    matrix_rate: float
    # Laws of cuDNN's attention and its gradients; None if it was not measured.
    attention: AttentionLaw | None = None
    attention_grad: AttentionLaw | None = None

    def law_of(self, attention: Attention) -> AttentionLaw | None:
        """Returns the law of cuDNN's attention, or of its gradients."""
        return self.attention_grad if attention.gradients else self.attention

    @staticmethod
    @functools.cache
    def load(chip: str) -> Chip:
        rates = yaml.safe_load((COMPILERS / f"{chip}.yaml").read_text())
        shared = {name: rates[name] for name in ("name", "multiprocessors", "start")}
        shared["dram_rate"] = rates["memory"]
        kernels = yaml.safe_load((FOLDER / f"chips/{chip}.yaml").read_text())
        if "attention" in kernels:
            kernels["attention"] = AttentionLaw(**kernels["attention"])
        if law := rates.get("attention_gradients"):
            names = [field.name for field in dataclasses.fields(AttentionLaw)]
            kernels["attention_grad"] = AttentionLaw(*(law[name] for name in names))
        return Chip(chip, **shared, **kernels)
