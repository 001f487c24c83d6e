"""Checks the arguments of ``monitor``."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from binade.errors import UsageError
from binade.torch.wrappers import make_cleaner


def list_parameters(model: torch.nn.Module) -> Iterator[tuple[str, torch.nn.Parameter]]:
    """Yields the parameters that are trained, with their names without wrappers."""
    clean = make_cleaner(model)
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            yield clean(name), parameter


def check_arguments(
    model: object, optimizer: object, every: object, on_alarm: object, step: object,
    threads: object,
) -> None:  # fmt: skip
    """Checks the arguments of ``monitor`` that need no compiler.

    Raises:
      UsageError: If one is wrong.
    """
    if not isinstance(model, torch.nn.Module):
        raise UsageError(f"the model is a torch.nn.Module, got {type(model).__name__}")
    parallel = (torch.nn.parallel.DistributedDataParallel, torch.nn.DataParallel)
    if isinstance(model, parallel):
        raise UsageError(
            f"the model is wrapped by {type(model).__name__}; monitor model.module: the "
            "values are those of this process, gradients before they are averaged over "
            "processes. Use another directory 'out' in each process"
        )
    for name, parameter in model.named_parameters():
        if torch.nn.parameter.is_lazy(parameter):
            raise UsageError(
                f"parameter '{name}' has no shape before the first forward pass of a lazy "
                "module; call the model once with a batch before `monitor`"
            )
    if optimizer is not None:
        _check_optimizer(model, optimizer)
    if on_alarm not in ("warn", "stop"):
        raise UsageError(f"on_alarm: expected 'warn' or 'stop', got {on_alarm!r}")
    _check_count("every", every, 1)
    _check_count("step", step, 0)
    _check_count("threads", threads, 0)


def _check_optimizer(model: torch.nn.Module, optimizer: object) -> None:
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise UsageError(
            f"the optimizer is a torch.optim.Optimizer, got {type(optimizer).__name__}; "
            "pass the one that a wrapper contains"
        )
    updated = {one for group in optimizer.param_groups for one in group["params"]}
    if not any(parameter in updated for _, parameter in list_parameters(model)):
        raise UsageError("the optimizer updates none of the model's parameters")


def _check_count(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise UsageError(f"{name} is a whole number from {least} on, got {value!r}")
