"""Formats of what the processes of FSDP2 exchange: gradients."""

from __future__ import annotations

from collections.abc import Collection

import torch

from binade.errors import UsageError
from binade.torch.float8 import GROUP_FORMATS


def set_reduce_scatter_format(model: torch.nn.Module, format: str) -> None:
    """Lets FSDP2 reduce gradients in a format, with sums in f32 in the order of the ranks.

    Each process sends the others their parts of its gradients in this format (an
    all-to-all), and adds up in f32 what it receives. Given the same gradients, a sum has
    the same bits whatever the size of a message. The factors of FSDP2 apply: averages,
    ``set_gradient_divide_factor``, and the division before a reduction in f16. Gradients
    of the ``reduce_dtype`` of the ``MixedPrecisionPolicy`` are rounded to the format once.

    Args:
      model: The module to which ``fully_shard`` was applied, or whose submodules it was
        applied to.
      format: ``"f32"`` (exact), ``"bf16"`` or ``"f16"``; ``"e4m3"`` or ``"e5m2"`` with a
        scale for each 128 elements.

    Raises:
      UsageError: If the format is unknown, nothing is sharded, or the gradients of a module
        are not reduced by one reduce-scatter.

    Example:
      >>> fully_shard(model)
      >>> binade.torch.set_reduce_scatter_format(model, "e5m2")
    """
    from binade.torch.fsdp import isReplicated, list_modules
    from binade.torch.gradient_reduction import PLAIN_FORMATS, OrderedReduceScatter

    _check_format(format, [*PLAIN_FORMATS, *GROUP_FORMATS], "gradients are reduced")
    modules = list_modules(model)
    for name, module, groups in modules:
        title = f"module '{name}' ({type(module).__name__})"
        if len(groups) > 1:
            raise UsageError(
                f"{title} has {len(groups)} parameter groups, of different meshes, and "
                "FSDP2 takes one reduce-scatter for a module; apply fully_shard to the "
                "submodules of each mesh, and call this for those"
            )
        if any(map(isReplicated, groups)):
            raise UsageError(
                f"{title} is replicated, so that no reduce-scatter reduces its gradients; "
                "expected modules of fully_shard"
            )
    for _, module, groups in modules:
        if groups:
            module.set_custom_reduce_scatter(OrderedReduceScatter(format))


def _check_format(format: str, known: Collection[str], what: str) -> None:
    if format not in known:
        raise UsageError(f"{what} as {', '.join(known)}; got {format!r}")
