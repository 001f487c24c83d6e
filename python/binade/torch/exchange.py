"""Formats of what the processes of FSDP2 exchange: weights and gradients."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import torch

from binade.errors import UsageError
from binade.torch.float8 import GROUP_FORMATS, TENSOR_FORMATS

if TYPE_CHECKING:
    from binade.torch.fsdp import ShardedParameter


def set_all_gather_format(
    model: torch.nn.Module,
    format: str = "e4m3-tensor",
    *,
    include: str | Sequence[str] | None = None,
    exclude: str | Sequence[str] = (),
) -> list[str]:
    """Lets FSDP2 gather weights as codes of 8 bits with one scale for each weight.

    Forward and backward pass compute with the dequantized weight, in the ``param_dtype`` of
    the ``MixedPrecisionPolicy``. Its gradient becomes that of the sharded parameter, which
    keeps its type and value: the optimizer and checkpoints do not change. A scale follows
    from the largest magnitude of the whole weight, so that results do not depend on the
    mesh; one all-reduce at the beginning of each forward pass computes all scales.

    Call it after ``fully_shard`` and before the first forward pass. A second call changes
    the format of the weights that it selects.

    Args:
      model: The module to which ``fully_shard`` was applied, or whose submodules it was
        applied to.
      format: ``"e4m3-tensor"``, ``"e4m3-power"``, whose scale is a power of two, or
        ``"e5m2-tensor"`` (``binade list formats``).
      include: Globs of names of parameters, such as ``"layers.*.weight"``; by default, the
        weights of all ``torch.nn.Linear``.
      exclude: Globs of names of parameters that are gathered as usual.

    Returns:
      The names of the weights that are gathered in this format.

    Raises:
      UsageError: If the format is unknown, nothing is sharded, a glob selects nothing, or
        FSDP2 cannot gather a selected parameter in this way.

    Example:
      >>> fully_shard(model)
      >>> binade.torch.set_all_gather_format(model, exclude="lm_head.*")
    """
    _check_format(format, TENSOR_FORMATS, "weights are gathered")
    from binade.torch.fsdp import list_modules, list_parameters
    from binade.torch.weight_gather import ForwardScales, WeightGather

    selected = _select(list(list_parameters(model)), _listed(include), _listed(exclude))
    for parameter in selected:
        _check_parameter(parameter)
    added = []
    for parameter in selected:
        gather = _find_gather(parameter)
        if isinstance(gather, WeightGather):
            gather.form = TENSOR_FORMATS[format]
        else:
            added.append(WeightGather(parameter, TENSOR_FORMATS[format]))
    if added:
        ForwardScales(added).register(module for _, module, _ in list_modules(model))
    return [parameter.name for parameter in selected]


def set_reduce_scatter_format(model: torch.nn.Module, format: str) -> None:
    """Lets FSDP2 reduce gradients in a format, with sums in f32 in the order of the ranks.

    Each process sends the others their parts of its gradients in this format (an
    all-to-all), and adds up in f32 what it receives. Given the same gradients, a sum has
    the same bits whatever the size of a message. The factors of FSDP2 apply: averages,
    ``set_gradient_divide_factor``, and the division before a reduction in f16. Gradients
    of the ``reduce_dtype`` of the ``MixedPrecisionPolicy`` are rounded to the format once, and
    the sum is rounded to the ``reduce_dtype`` at the end.

    Args:
      model: The module to which ``fully_shard`` was applied, or whose submodules it was
        applied to.
      format: ``"f32"`` (exact terms), ``"bf16"`` or ``"f16"``; ``"e4m3"`` or ``"e5m2"`` with a
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


def _listed(globs: str | Sequence[str] | None) -> list[str] | None:
    if globs is None:
        return None
    return [globs] if isinstance(globs, str) else list(globs)


def _check_format(format: str, known: Collection[str], what: str) -> None:
    if format not in known:
        raise UsageError(f"{what} as {', '.join(known)}; got {format!r}")


def _select(
    parameters: list[ShardedParameter],
    include: list[str] | None,
    exclude: list[str] | None,
) -> list[ShardedParameter]:
    """Returns the parameters that globs select.

    Raises:
      UsageError: If a glob selects nothing.
    """
    for glob in [*(include or []), *(exclude or [])]:
        if not any(fnmatch.fnmatchcase(one.name, glob) for one in parameters):
            raise UsageError(
                f"'{glob}' selects no parameter; names are such as "
                f"'{parameters[0].name}'"
            )

    def isSelected(one: ShardedParameter) -> bool:
        if any(fnmatch.fnmatchcase(one.name, glob) for glob in exclude or []):
            return False
        if include is not None:
            return any(fnmatch.fnmatchcase(one.name, glob) for glob in include)
        isLinear = isinstance(one.module, torch.nn.Linear)
        return isLinear and one.sharded.dim() == 2 and one.sharded.numel() > 0

    selected = [one for one in parameters if isSelected(one)]
    if not selected:
        raise UsageError(
            "no parameter is selected; expected a sharded torch.nn.Linear, or "
            "include='...' with globs of names"
        )
    return selected


def _check_parameter(one: ShardedParameter) -> None:
    """Checks that FSDP2 can gather a parameter by functions of its local tensor.

    Raises:
      UsageError: If it cannot.
    """
    from binade.torch.fsdp import isReplicated
    from binade.torch.weight_gather import WeightGather

    gather = _find_gather(one)
    problem = None
    if not one.sharded.is_floating_point() or one.sharded.numel() == 0:
        problem = (
            f"has the type {one.sharded.dtype} and the shape {list(one.sharded.shape)}; "
            "expected at least one element, of a float type"
        )
    elif gather is not None and not isinstance(gather, WeightGather):
        problem = "has another all-gather; expected an ordinary tensor"
    elif isReplicated(one.group):
        problem = (
            "is replicated, and never gathered; expected parameters of fully_shard"
        )
    elif one.wasGathered and gather is None:
        problem = "was gathered before; set the format before the first forward pass"
    elif one.isGatheredByFewer:
        problem = (
            "is gathered by fewer processes after the forward pass, which FSDP2 cannot "
            "combine with codes; expected reshard_after_forward=True or False"
        )
    elif one.isOffloaded:
        problem = "is offloaded to the CPU; expected no CPUOffloadPolicy"
    if problem:
        raise UsageError(f"parameter {one.name} {problem}")


def _find_gather(one: ShardedParameter) -> object | None:
    """Returns what has the functions of a local tensor, if it has any."""
    function = getattr(one.local, "fsdp_pre_all_gather", None)
    return getattr(function, "__self__", one.local) if function else None
