"""MLIR modules of steps that only update parameters; the caller supplies the gradients."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence


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
# The prefix of the names of factors of gradients.
FACTOR = "factor/"


def write_update(
    tensors: Mapping[str, Sequence[int]],
    gradients: GivenGradients,
    element: str = "f32",
    *,
    narrow_gradients: Mapping[str, str] | None = None,
    scalers: Sequence[str] = (),
    attributes: Mapping[str, str] | None = None,
    factors: Collection[str] = (),
) -> str:
    """Returns a module as after phase ``autodiff``, whose gradients are inputs. Its loss is
    the batch's entry ``loss``, which has one element.

    Args:
      tensors: The parameters' shapes, by names of letters, digits, ``.`` and ``/``.
      gradients: The ports that supply the gradients.
      element: The element type of the parameters and their gradients.
      narrow_gradients: The element types of gradients that have another one, by name; the
        update casts them to ``element``.
      scalers: Names of inputs of role ``scaler``, which are f32 scalars: ``scale``, by
        which the gradients are divided, and ``found_inf``, which is not 0 if the step has
        to be skipped.
      attributes: More attributes of parameters, by name, as in the IR.
      factors: Names of parameters whose gradients are multiplied by a buffer, the f32
        scalar ``factor/NAME``.
    """
    narrow, more = narrow_gradients or {}, attributes or {}
    arguments = [
        f"%p{i}: {_type(shape, element)} "
        f'{port("parameter", name, more.get(name, ""))} loc("{name}")'
        for i, (name, shape) in enumerate(tensors.items())
    ]
    arguments += [
        f"%g{i}: {_type(shape, narrow.get(name, element))} "
        f"{port(gradients.role, gradients.prefix + name)}"
        for i, (name, shape) in enumerate(tensors.items())
    ]
    arguments += [
        f"%f{i}: tensor<f32> {port('buffer', FACTOR + name)}"
        for i, name in enumerate(tensors)
        if name in factors
    ]
    arguments += [f"%{name}: tensor<f32> {port('scaler', name)}" for name in scalers]
    arguments.append(f"%l: tensor<1xf32> {port('batch', 'loss')}")
    body = ["%loss = binade.reshape %l : (tensor<1xf32>) -> tensor<f32>"]
    values, kinds = ["%loss"], ["tensor<f32>"]
    results = [f"tensor<f32> {port('metric', 'loss')}"]
    for i, (name, shape) in enumerate(tensors.items()):
        kind = _type(shape, element)
        value = f"%g{i}"
        if name in narrow:
            body.append(
                f"%c{i} = binade.cast {value} : ({_type(shape, narrow[name])}) -> {kind}"
            )
            value = f"%c{i}"
        if name in factors:
            body += [
                f"%b{i} = binade.broadcast %f{i} {{axes = array<i64>}} : "
                f"(tensor<f32>) -> {kind}",
                f"%s{i} = binade.mul {value}, %b{i} : ({kind}, {kind}) -> {kind}",
            ]
            value = f"%s{i}"
        values.append(value)
        kinds.append(kind)
        results.append(f"{kind} {port('gradient', name)}")
    body.append(f"return {', '.join(values)} : {', '.join(kinds)}")
    lines = "".join(f"  {line}\n" for line in body)
    return (
        f"func.func @gradient({', '.join(arguments)}) -> ({', '.join(results)}) {{\n"
        f"{lines}}}\n"
    )


def _type(shape: Sequence[int], element: str) -> str:
    return f"tensor<{''.join(f'{size}x' for size in shape)}{element}>"


def port(role: str, name: str, more: str = "") -> str:
    """Returns the attributes of an argument or result with this role and name, and
    ``more`` attributes, separated by commas."""
    more = f", {more}" if more else ""
    return f'{{binade.role = #binade.role<{role}>, binade.name = "{name}"{more}}}'
