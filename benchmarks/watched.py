"""Measures the cost of computing statistics in each step, on one thread."""

from __future__ import annotations

import argparse
import pathlib
import tempfile
import time

import numpy as np
from pairs import compare
from runtime import ROOT, Program, compile_step

MODELS = ("mini", "char-gpt")
NUMBERS = (
    "norm,min,max,absmax,absmean,mean,std,zeros,nonfinite,underflow,overflow,saturated"
)
REQUESTS = {
    "*:zeros": ["*:zeros"],
    "*:absmax,zeros,saturated": ["*:absmax,zeros,saturated"],
    "*:exponents": ["*:exponents"],
    "all": [f"*:{NUMBERS},exponents,sqnr", "weight:lost,update_ratio"],
}


def load(model: str, requests: list[str], folder: pathlib.Path) -> Program:
    options = ["--policy", "bf16-amp", "--lr", "1e-3"]
    for request in requests:
        options += ["--stats", request]
    path = ROOT / "examples" / "char-gpt" / f"{model}.onnx"
    program = Program(compile_step(path, folder / "step.bnd", *options), threads=1)
    tokens = program["parameter", "token.weight"].shape[0]
    random = np.random.default_rng(0)
    for name in ("input_ids", "labels"):
        batch = program["batch", name]
        batch[...] = random.integers(0, tokens, batch.shape)
    return program


def measure(arguments: argparse.Namespace) -> None:
    """Processor time: other processes take the rest."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for model in MODELS:
            for request, texts in REQUESTS.items():
                without = load(model, [], folder)
                watched = load(model, texts, folder)
                result = compare(
                    (request, watched.run), (model, without.run), arguments.pairs,
                    clock=time.process_time,
                )  # fmt: skip
                print(f"  {result}", flush=True)
                if without["metric", "loss"] != watched["metric", "loss"]:
                    raise RuntimeError(f"{model}: {request} changes the loss")
