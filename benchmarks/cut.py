"""Compares a policy that chooses bf16 ops by costs measured here with presets (char-gpt)."""

from __future__ import annotations

import argparse
import pathlib
import subprocess
import tempfile

from char_gpt import EXAMPLE, OPTIONS, load_batch
from pairs import compare
from runtime import BUILD, Program, compile_step

PRESETS = ["fp32", "bf16-amp", "fp16-amp", "bf16"]
POLICY = """\
name: cut
narrow: bf16
wide: f32
cut: { costs: here.yaml }
"""
# It may also quantize operands, as the preset does.
QUANTIZING = """\
name: cut-fp8
extends: fp8-current
cut: { costs: here.yaml }
"""


def write_policy(folder: pathlib.Path) -> pathlib.Path:
    """A policy that may choose bf16, and the costs of this machine."""
    command = [BUILD / "bin" / "binade", "costs", "--measure"]
    costs = folder / "here.yaml"
    subprocess.run([*command, "-o", costs], check=True)
    print("  " + costs.read_text().replace("\n", "\n  ").rstrip())
    quantizing = folder / "cut-fp8.yaml"
    quantizing.write_text(QUANTIZING)
    policy = folder / "cut.yaml"
    policy.write_text(POLICY)
    return policy


def load(folder: pathlib.Path, policy: str | pathlib.Path) -> Program:
    bundle = folder / f"{pathlib.Path(policy).stem}.bnd"
    model = EXAMPLE / "char-gpt.onnx"
    program = Program(compile_step(model, bundle, "--policy", str(policy), *OPTIONS))
    for name, array in load_batch().items():
        program["batch", name][...] = array
    return program


def measure(arguments: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        cut = load(folder, write_policy(folder))
        for preset in PRESETS:
            program = load(folder, preset)
            ratio = compare(("cut", cut.run), (preset, program.run), arguments.pairs)
            print(f"  {ratio}", flush=True)
        cut = load(folder, folder / "cut-fp8.yaml")
        for preset in ["bf16-amp", "fp8-current"]:
            program = load(folder, preset)
            ratio = compare(
                ("cut of fp8-current", cut.run), (preset, program.run), arguments.pairs
            )
            print(f"  {ratio}", flush=True)
