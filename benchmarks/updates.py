"""Training steps that only update GPT-2's tensors; the gradients are inputs."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

from runtime import BUILD

sys.path.insert(0, str(BUILD / "python"))

from binade.updates import GIVEN, KEPT, port, write_update  # noqa: E402, F401

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


def write_module(
    path: pathlib.Path, tensors: Shapes, element: str = "f32", role: str = "batch",
    narrow_gradients: dict[str, str] | None = None,
) -> None:  # fmt: skip
    """A gradient graph whose gradients are inputs: what is left is the update."""
    given = KEPT if role == "buffer" else GIVEN
    text = write_update(tensors, given, element, narrow_gradients=narrow_gradients)
    path.write_text(text)


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
