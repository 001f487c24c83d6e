"""Times updates of GPT-2's tensors with quantized states against torchao and bitsandbytes."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import pathlib
import tempfile
import warnings

import ml_dtypes
import numpy as np
import torch
from pairs import compare
from runtime import Program, compile_step
from updates import leave_out_statistics, shapes, write_module

# Format, and who has it: module, class.
PEERS = {
    "f32": [("torch.optim", "AdamW")],
    "bf16": [],
    "all bf16": [("torch.optim", "AdamW")],
    "e4m3": [("torchao.optim", "AdamWFp8")],
    "e4m3x": [],
    "dyn8": [("bitsandbytes.optim", "AdamW8bit"), ("torchao.optim", "AdamW8bit")],
    "dyn4": [("torchao.optim", "AdamW4bit")],
}


def find_class(module: str, name: str) -> type | None:
    """None where it is not installed; what its import prints is discarded."""
    try:
        with contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return getattr(importlib.import_module(module), name)
    except ImportError:
        return None


def build(states: str, values: dict[str, tuple[np.ndarray, np.ndarray]]) -> Program:
    """The update alone, with its parameters and gradients."""
    narrow = states == "all bf16"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_module(folder / "whole.mlir", shapes(), "bf16" if narrow else "f32")
        leave_out_statistics(folder / "whole.mlir", folder / "alone.mlir")
        program = Program(
            compile_step(
                folder / "alone.mlir", folder / "alone.bnd", "--from", "optimizer",
                "--states", "bf16" if narrow else states,
            )
        )  # fmt: skip
    dtype = ml_dtypes.bfloat16 if narrow else np.float32
    for name, (value, gradient) in values.items():
        program["parameter", name][...] = value.astype(dtype)
        program["batch", name][...] = gradient.astype(dtype)
    return program


def measure(arguments: argparse.Namespace) -> None:
    generator = np.random.default_rng(0)
    values = {
        name: (generator.standard_normal(shape, np.float32),
               1e-3 * generator.standard_normal(shape, np.float32))
        for name, shape in shapes().items()
    }  # fmt: skip
    wide = build("f32", values)
    for states, peers in PEERS.items():
        own = wide if states == "f32" else build(states, values)
        if own is not wide:
            ours, theirs = (f"binade {states}", own.run), ("binade f32", wide.run)
            print(f"  {compare(ours, theirs, arguments.pairs)}", flush=True)
        for module, name in peers:
            optimizer = find_class(module, name)
            if optimizer is None:
                print(f"  {module} is not installed: utils/setup.sh --with peers")
                continue
            parameters = []
            for value, gradient in values.values():
                dtype = torch.bfloat16 if states == "all bf16" else torch.float32
                parameter = torch.nn.Parameter(torch.from_numpy(value.copy()).to(dtype))
                parameter.grad = torch.from_numpy(gradient).to(dtype)
                parameters.append(parameter)
            more = {"fused": True} if module == "torch.optim" else {}
            peer = optimizer(parameters, lr=1e-3, weight_decay=0.01, **more)
            sides = (f"binade {states}", own.run), (f"{module} {name}", peer.step)
            print(f"  {compare(*sides, arguments.pairs)}", flush=True)
