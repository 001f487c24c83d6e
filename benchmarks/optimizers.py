"""`binade.torch.AdamW` in a PyTorch loop against `torch.optim.AdamW`, and what one call of
a compiled step costs in addition to the step."""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from pairs import compare
from runtime import ROOT
from updates import shapes

import binade
import binade.torch

FORMATS = ("f32", "e4m3", "dyn8")


def make_parameters() -> list[torch.nn.Parameter]:
    """GPT-2's with half its layers, width and vocabulary: 32 million."""
    torch.manual_seed(0)
    parameters = []
    for shape in shapes(6, 512, 25216).values():
        parameters.append(torch.nn.Parameter(torch.randn(shape)))
        parameters[-1].grad = 1e-3 * torch.randn(shape)
    return parameters


def count_bytes(optimizer: torch.optim.Optimizer) -> int:
    return sum(
        tensor.nbytes
        for states in optimizer.state.values()
        for name, tensor in states.items()
        if name != "step"
    )


def measure(arguments: argparse.Namespace) -> None:
    peers = {}
    for form in ("fused", "foreach"):
        peers[form] = torch.optim.AdamW(make_parameters(), lr=1e-3, **{form: True})
    for states in FORMATS:
        format_ = () if states == "f32" else states
        ours = binade.torch.AdamW(make_parameters(), lr=1e-3, states=format_)
        ours.step()
        for form, peer in peers.items():
            result = compare(
                (f"binade.torch.AdamW {states}", ours.step),
                (f"torch.optim.AdamW {form}", peer.step),
                arguments.pairs,
            )
            print(f"  {result}")
        ratio = count_bytes(ours) / count_bytes(peers["fused"])
        print(f"  states {count_bytes(ours) / 2**20:.1f} MiB, {ratio:.3f} of f32's")
        del ours
    measure_call()


def measure_call() -> None:
    """A step of microseconds: what is more in `step(batch)` than in the runtime."""
    step = binade.compile(
        ROOT / "examples/mlp/mlp.onnx",
        loss="cross_entropy(prediction, labels)",
        threads=1,
    )
    batch = {name: np.zeros_like(array) for name, array in step.batch.items()}
    times = []
    for body in (lambda: step(batch), step.run):
        runs = []
        for _ in range(9):
            begin = time.perf_counter()
            for _ in range(1000):
                body()
            runs.append((time.perf_counter() - begin) * 1e3)
        times.append(min(runs))
    print(f"  step(batch) {times[0]:.1f} us, of which the runtime {times[1]:.1f} us")
