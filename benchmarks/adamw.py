"""The update of all tensors of GPT-2 124M against torch.optim.AdamW(fused=True)."""

from __future__ import annotations

import argparse
import pathlib
import tempfile

import numpy as np
import torch
from pairs import compare
from runtime import Program, compile_step


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


def write_module(path: pathlib.Path) -> None:
    """A gradient graph whose gradients are inputs: what is left is the update."""
    tensors = [
        (name, f"tensor<{'x'.join(map(str, shape))}xf32>")
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


def measure(arguments: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        module = pathlib.Path(folder) / "update.mlir"
        write_module(module)
        bundle = compile_step(
            module, module.with_suffix(".bnd"), "--from", "autodiff",
            "--optimizer", "adamw", "--lr", "1e-3", "--set", "weight_decay=0.01",
        )  # fmt: skip
        program = Program(bundle)
    generator = np.random.default_rng(0)
    parameters = []
    for name, shape in shapes().items():
        value = generator.standard_normal(shape, np.float32)
        gradient = 1e-3 * generator.standard_normal(shape, np.float32)
        program["parameter", name][...] = value
        program["batch", name][...] = gradient
        parameter = torch.nn.Parameter(torch.from_numpy(value))
        parameter.grad = torch.from_numpy(gradient)
        parameters.append(parameter)
    optimizer = torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.01, fused=True)

    def with_norm() -> None:
        torch.nn.utils.get_total_norm([p.grad for p in parameters])
        optimizer.step()

    # Every step of Binade's also finds the norm and whether it is finite.
    ours = ("binade norm and update", program.run)
    print(f"  {compare(ours, ('torch norm and fused', with_norm), arguments.pairs)}")
    print(f"  {compare(ours, ('torch fused', optimizer.step), arguments.pairs)}")
