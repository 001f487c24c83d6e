"""Steps that are nothing but an update: parameters, and gradients that are given."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence


@dataclasses.dataclass(frozen=True)
class GivenGradients:
    """Where gradients come from: ports of a role, named with a prefix."""

    role: str
    prefix: str


# From the host, in each step.
GIVEN = GivenGradients("batch", "")
# They stay; the prefix is there as a checkpoint has parameters and buffers.
KEPT = GivenGradients("buffer", "gradient/")


def write_update(
    tensors: Mapping[str, Sequence[int]],
    gradients: GivenGradients,
    element: str = "f32",
) -> str:
    """A module with gradients, as phase ``autodiff`` leaves it, whose gradients are
    inputs. Its loss is the batch's entry ``loss``, of one element.

    Args:
      tensors: The parameters' shapes, by names of letters, digits, ``.`` and ``/``.
      gradients: What they are to the step.
      element: Type of the parameters' elements, and their gradients'.
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
    """The attributes of an argument or result of that role and name."""
    return f'{{binade.role = #binade.role<{role}>, binade.name = "{name}"}}'
