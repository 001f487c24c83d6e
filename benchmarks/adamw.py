"""Times the AdamW update of GPT-2 124M against torch.optim.AdamW(fused=True)."""

from __future__ import annotations

import argparse
import pathlib
import tempfile

import numpy as np
import torch
from pairs import compare
from runtime import Program, compile_step
from updates import leave_out_statistics, shapes, write_module


def measure(arguments: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_module(folder / "whole.mlir", shapes())
        leave_out_statistics(folder / "whole.mlir", folder / "alone.mlir")
        program = Program(
            compile_step(
                folder / "whole.mlir", folder / "whole.bnd", "--from", "autodiff",
                "--optimizer", "adamw", "--lr", "1e-3", "--set", "weight_decay=0.01",
            )
        )  # fmt: skip
        update = Program(
            compile_step(
                folder / "alone.mlir", folder / "alone.bnd", "--from", "optimizer"
            )
        )
    generator = np.random.default_rng(0)
    parameters = []
    for name, shape in shapes().items():
        value = generator.standard_normal(shape, np.float32)
        gradient = 1e-3 * generator.standard_normal(shape, np.float32)
        for own in (program, update):
            own["parameter", name][...] = value
            own["batch", name][...] = gradient
        parameter = torch.nn.Parameter(torch.from_numpy(value))
        parameter.grad = torch.from_numpy(gradient)
        parameters.append(parameter)
    optimizer = torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.01, fused=True)

    def with_norm() -> None:
        torch.nn.utils.get_total_norm([p.grad for p in parameters])
        optimizer.step()

    # Every step of Binade's finds the norm, and whether it is finite, too.
    for ours, peer in (
        (("binade update", update.run), ("torch fused", optimizer.step)),
        (("binade norm and update", program.run), ("torch norm and fused", with_norm)),
    ):
        print(f"  {compare(ours, peer, arguments.pairs)}")
