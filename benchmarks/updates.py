"""Training steps of nothing but an update: GPT-2's tensors, with gradients given."""

from __future__ import annotations

import pathlib
import re
import subprocess

from runtime import BUILD

Shapes = dict[str, tuple[int, ...]]


def shapes(layers: int = 12, width: int = 768, vocabulary: int = 50257) -> Shapes:
    """The tensors of GPT-2: 148 of them, 124 million parameters, unless told."""
    tensors = {"wte": (vocabulary, width), "wpe": (1024, width)}
    for layer in range(layers):
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


def port(role: str, name: str) -> str:
    return f'{{binade.role = #binade.role<{role}>, binade.name = "{name}"}}'


def write_module(
    path: pathlib.Path, tensors: Shapes, element: str = "f32", role: str = "batch"
) -> None:
    """A gradient graph whose gradients are inputs: what is left is the update.

    As a `batch` they come from the host in each step; as a `buffer` they stay, as
    `gradient/NAME`, since both would be saved under the parameter's name.
    """
    prefix = "gradient/" if role == "buffer" else ""
    kinds = [
        (name, f"tensor<{'x'.join(map(str, shape))}x{element}>")
        for name, shape in tensors.items()
    ]
    arguments = [
        f"%p{i}: {kind} {port('parameter', name)}"
        for i, (name, kind) in enumerate(kinds)
    ]
    arguments += [
        f"%g{i}: {kind} {port(role, prefix + name)}"
        for i, (name, kind) in enumerate(kinds)
    ]
    arguments.append(f"%l: tensor<1xf32> {port('batch', 'loss')}")
    results = [f"tensor<f32> {port('metric', 'loss')}"]
    results += [f"{kind} {port('gradient', name)}" for name, kind in kinds]
    values = ", ".join(["%loss"] + [f"%g{i}" for i in range(len(kinds))])
    types = ", ".join(["tensor<f32>"] + [kind for _, kind in kinds])
    path.write_text(
        f"func.func @gradient({', '.join(arguments)}) -> ({', '.join(results)}) {{\n"
        "  %loss = binade.reshape %l : (tensor<1xf32>) -> tensor<f32>\n"
        f"  return {values} : {types}\n}}\n"
    )


def leave_out_statistics(module: pathlib.Path, alone: pathlib.Path) -> None:
    """The step by AdamW without norm and search for infinities, which come out constant."""
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
