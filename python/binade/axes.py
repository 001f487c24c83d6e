"""Names of a batch's axes whose sizes are chosen when a graph is compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from binade.errors import RejectedError


def parse(text: str) -> tuple[str, list[str]]:
    """``tokens=batch,context``: an input and the names of its axes."""
    name, sign, names = text.partition("=")
    if not name or not sign:
        raise RejectedError(f"--dims expects INPUT=AXIS,AXIS, got '{text}'")
    return name, names.split(",")


def sizes(
    batch: Mapping[str, torch.Tensor], dims: Mapping[str, Sequence[str]]
) -> dict[str, int]:
    """The sizes in the batch of the axes that `dims` names."""
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
                f"dims of '{name}' name {len(names)} axes, its shape is {shape}"
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
    """The dynamic shapes that PyTorch gets for the arguments of ``Step.forward``."""
    if not dims:
        return None
    # Named ones would be refused for guards that hold of all sizes but one.
    dynamic = torch.export.Dim.DYNAMIC
    return (
        tuple(
            {i: dynamic for i, axis in enumerate(dims.get(name, ())) if axis}
            for name in batch
        ),
    )
