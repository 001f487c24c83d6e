"""Times updates of GPT-2's tensors with quantized states against torchao and bitsandbytes."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import pathlib
import tempfile
import warnings

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
    "softsign8": [],
    "compact": [],
    "dyn8": [("bitsandbytes.optim", "AdamW8bit"), ("torchao.optim", "AdamW8bit")],
    "dyn4": [("torchao.optim", "AdamW4bit")],
}

# Weights of 24 bits with states of 8 bits, as in the policy bf16-compact.
COMPACT = """name: compact
narrow: f32
wide: f32
rules:
- { match: { op: optimizer_update }, parameter: bf16, master: split_8bit, state: softsign8 }
"""


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
    narrow, is_compact = states == "all bf16", states == "compact"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        narrow_gradients = dict.fromkeys(values, "bf16") if is_compact else None
        write_module(
            folder / "whole.mlir", shapes(), "bf16" if narrow else "f32",
            narrow_gradients=narrow_gradients,
        )  # fmt: skip
        leave_out_statistics(folder / "whole.mlir", folder / "alone.mlir")
        (folder / "compact.yaml").write_text(COMPACT)
        options = (
            ["--policy", str(folder / "compact.yaml")] if is_compact
            else ["--states", "bf16" if narrow else states]
        )  # fmt: skip
        program = Program(
            compile_step(
                folder / "alone.mlir",
                folder / "alone.bnd",
                "--from",
                "optimizer",
                *options,
            )
        )
    for name, (value, gradient) in values.items():
        for port, array in (("parameter", value), ("batch", gradient)):
            tensor = program[port, name]
            tensor[...] = array.astype(tensor.dtype)
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
