"""Times training steps in FP8 and NVFP4 against bf16-amp, for both char-GPT models."""

from __future__ import annotations

import argparse
import pathlib
import tempfile
from collections.abc import Callable

import numpy as np
from char_gpt import EXAMPLE, OPTIONS
from pairs import compare
from runtime import Program, compile_step

BASE = "bf16-amp"
# Steps that are timed as one: the effect of the probe's threads lasts a while.
MODELS = {"mini.onnx": 10, "char-gpt.onnx": 2}
POLICIES = ["fp8-current", "fp8-delayed", "fp8-block", "coat", "nvfp4"]


def load(model: pathlib.Path, policy: str, folder: str) -> Program:
    bundle = pathlib.Path(folder) / f"{model.stem}-{policy}.bnd"
    program = Program(compile_step(model, bundle, "--policy", policy, *OPTIONS))
    tokens = program["batch", "input_ids"]
    drawn = np.random.default_rng(0).integers(0, 94, (len(tokens), tokens.shape[1] + 1))
    tokens[...] = drawn[:, :-1]
    program["batch", "labels"][...] = drawn[:, 1:]
    return program


def repeat(program: Program, count: int) -> Callable[[], None]:
    def steps() -> None:
        for _ in range(count):
            program.run()

    return steps


def measure(arguments: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, count in MODELS.items():
            peer = load(EXAMPLE / name, BASE, folder)
            for policy in POLICIES:
                program = load(EXAMPLE / name, policy, folder)
                ratio = compare(
                    (policy, repeat(program, count)),
                    (BASE, repeat(peer, count)),
                    arguments.pairs,
                )
                print(f"  {name}, {count} steps: {ratio}", flush=True)
