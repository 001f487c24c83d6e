"""Runs fp8.py's comparison once for char-GPT with 10.7 million parameters (takes hours)."""

from __future__ import annotations

import fp8
from training import ROOT, Runs


def run(runs: Runs, _seeds: int) -> None:
    model = ROOT / "examples/char-gpt/char-gpt.onnx"
    policies = [fp8.BASE, "fp8-current", "coat"]
    fp8.compare(runs, model, policies, 1e-3, 300, seeds=1, window=256)
