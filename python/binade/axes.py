"""Symbolic dimensions: named batch axes that get their sizes when a graph is compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from binade.errors import RejectedError


def parse(text: str) -> tuple[str, list[str]]:
    """Parses ``tokens=batch,context``: an input and the names of its axes."""
    name, sign, names = text.partition("=")
    if not name or not sign:
        raise RejectedError(f"--dims expects INPUT=AXIS,AXIS, got '{text}'")
    return name, names.split(",")


def sizes(
    batch: Mapping[str, torch.Tensor], dims: Mapping[str, Sequence[str]]
) -> dict[str, int]:
    """Returns the size that each axis named in `dims` has in the batch.

    Raises:
      RejectedError: If `dims` does not fit the batch, or a size is below 2.
    """
    found: dict[str, int] = {}
    for name, names in dims.items():
        if name not in batch:
            raise RejectedError(
                f"dims name '{name}', which the batch lacks; it holds "
                + ", ".join(f"'{entry}'" for entry in batch)
            )
        shape = list(batch[name].shape)
        if len(names) != len(shape):
            raise RejectedError(
                f"dims of '{name}' name {len(names)} axes, its shape is {shape}: name one "
                f"per axis, an empty name for a fixed size, as in '{name}=batch"
                + "," * (len(shape) - 1)
                + "'"
            )
        for axis, size in zip(names, shape):
            if not axis:
                continue
            if not axis.isidentifier():
                raise RejectedError(f"'{axis}' cannot be the name of a dimension")
            if size < 2:
                raise RejectedError(
                    f"dimension '{axis}' of '{name}' has size {size}; give an example "
                    "batch with 2 or more, for PyTorch takes 0 and 1 as fixed"
                )
            if found.setdefault(axis, size) != size:
                raise RejectedError(
                    f"dimension '{axis}' is {found[axis]} and, in '{name}', {size}"
                )
    return found


def dynamic_shapes(
    batch: Mapping[str, torch.Tensor], dims: Mapping[str, Sequence[str]]
) -> tuple | None:
    """Returns the ``dynamic_shapes`` of torch.export for the arguments of ``Step.forward``."""
    if not dims:
        return None
    # PyTorch rejects a named Dim if a guard excludes a single size; DYNAMIC is accepted.
    dynamic = torch.export.Dim.DYNAMIC
    return (
        tuple(
            {i: dynamic for i, axis in enumerate(dims.get(name, ())) if axis}
            for name in batch
        ),
    )
