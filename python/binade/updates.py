"""MLIR modules of steps that only update parameters; the caller supplies the gradients."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence


@dataclasses.dataclass(frozen=True)
class GivenGradients:
    """The ports that supply the gradients: their role, and the prefix of their names."""

    role: str
    prefix: str


# The host supplies the gradients in each step.
GIVEN = GivenGradients("batch", "")
# Gradients are persistent buffers. The prefix distinguishes them from the parameters in a
# checkpoint.
KEPT = GivenGradients("buffer", "gradient/")


def write_update(
    tensors: Mapping[str, Sequence[int]],
    gradients: GivenGradients,
    element: str = "f32",
) -> str:
    """Returns a module as after phase ``autodiff``, whose gradients are inputs. Its loss is
    the batch's entry ``loss``, which has one element.

    Args:
      tensors: The parameters' shapes, by names of letters, digits, ``.`` and ``/``.
      gradients: The ports that supply the gradients.
      element: The element type of the parameters and their gradients.
    """
    types = {
        name: f"tensor<{''.join(f'{size}x' for size in shape)}{element}>"
        for name, shape in tensors.items()
    }
    arguments = [
        f"%p{i}: {kind} {port('parameter', name)}"
        for i, (name, kind) in enumerate(types.items())
    ]
    arguments += [
        f"%g{i}: {kind} {port(gradients.role, gradients.prefix + name)}"
        for i, (name, kind) in enumerate(types.items())
    ]
    arguments.append(f"%l: tensor<1xf32> {port('batch', 'loss')}")
    results = [f"tensor<f32> {port('metric', 'loss')}"]
    results += [f"{kind} {port('gradient', name)}" for name, kind in types.items()]
    values = ", ".join(["%loss", *(f"%g{i}" for i in range(len(types)))])
    kinds = ", ".join(["tensor<f32>", *types.values()])
    return (
        f"func.func @gradient({', '.join(arguments)}) -> ({', '.join(results)}) {{\n"
        "  %loss = binade.reshape %l : (tensor<1xf32>) -> tensor<f32>\n"
        f"  return {values} : {kinds}\n}}\n"
    )


def port(role: str, name: str) -> str:
    """Returns the attributes of an argument or result with this role and name."""
    return f'{{binade.role = #binade.role<{role}>, binade.name = "{name}"}}'
