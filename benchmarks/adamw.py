"""The update of all tensors of GPT-2 124M against torch.optim.AdamW(fused=True)."""

from __future__ import annotations

import argparse
import pathlib
import re
import subprocess
import tempfile

import numpy as np
import torch
from pairs import compare
from runtime import BUILD, Program, compile_step


def shapes() -> dict[str, tuple[int, ...]]:
    """The 148 tensors of GPT-2 with 12 layers and width 768."""
    width, tensors = 768, {"wte": (50257, 768), "wpe": (1024, 768)}
    for layer in range(12):
        tensors |= {
            f"h.{layer}.{name}": shape
            for name, shape in {
                "ln_1.weight": (width,), "ln_1.bias": (width,),
                "attn.c_attn.weight": (width, 3 * width), "attn.c_attn.bias": (3 * width,),
                "attn.c_proj.weight": (width, width), "attn.c_proj.bias": (width,),
                "ln_2.weight": (width,), "ln_2.bias": (width,),
                "mlp.c_fc.weight": (width, 4 * width), "mlp.c_fc.bias": (4 * width,),
                "mlp.c_proj.weight": (4 * width, width), "mlp.c_proj.bias": (width,),
            }.items()
        }  # fmt: skip
    return tensors | {"ln_f.weight": (width,), "ln_f.bias": (width,)}


def write_module(path: pathlib.Path, element: str = "f32") -> None:
    """A gradient graph whose gradients are inputs: what is left is the update."""
    tensors = [
        (name, f"tensor<{'x'.join(map(str, shape))}x{element}>")
        for name, shape in shapes().items()
    ]

    def port(role: str, name: str) -> str:
        return f'{{binade.role = #binade.role<{role}>, binade.name = "{name}"}}'

    arguments = [
        f"%p{i}: {kind} {port('parameter', name)}"
        for i, (name, kind) in enumerate(tensors)
    ]
    arguments += [
        f"%g{i}: {kind} {port('batch', name)}" for i, (name, kind) in enumerate(tensors)
    ]
    arguments.append(f"%l: tensor<1xf32> {port('batch', 'loss')}")
    results = [f"tensor<f32> {port('metric', 'loss')}"]
    results += [f"{kind} {port('gradient', name)}" for name, kind in tensors]
    values = ", ".join(["%loss"] + [f"%g{i}" for i in range(len(tensors))])
    kinds = ", ".join(["tensor<f32>"] + [kind for _, kind in tensors])
    path.write_text(
        f"func.func @gradient({', '.join(arguments)}) -> ({', '.join(results)}) {{\n"
        "  %loss = binade.reshape %l : (tensor<1xf32>) -> tensor<f32>\n"
        f"  return {values} : {kinds}\n}}\n"
    )


def leave_out_statistics(module: pathlib.Path, alone: pathlib.Path) -> None:
    """The same step without norm and search for infinities, which come out constant."""
    step = subprocess.run(
        [
            BUILD / "bin" / "binade-opt", module,
            "--binade-optimizer-pipeline=optimizer=adamw settings=lr=1e-3,weight_decay=0.01",
        ],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    constants = (
        "%squares = binade.constant dense<1.0> : tensor<f64>\n"
        "%found_inf = binade.constant dense<false> : tensor<i1>"
    )
    step, found = re.subn("%squares, .*gradient_statistics.*", constants, step)
    assert found == 1
    alone.write_text(step)


def measure(arguments: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_module(folder / "whole.mlir")
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
