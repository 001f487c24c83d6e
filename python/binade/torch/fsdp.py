"""What Binade reads of a module of FSDP2: its parameter groups and their parameters.

PyTorch has no public functions for it. No other module of Binade uses FSDP2's private names.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.distributed.fsdp import FSDPModule
from torch.distributed.fsdp._fully_shard._fsdp_api import ReduceScatter

from binade.errors import UsageError
from binade.torch.wrappers import make_cleaner

__all__ = [
    "ReduceScatter",
    "ShardedParameter",
    "isReplicated",
    "list_modules",
    "list_parameters",
]


@dataclasses.dataclass(frozen=True)
class ShardedParameter:
    """A parameter that FSDP2 shards.

    Attributes:
      name: Its name in the module that it was listed from.
      module: The module that has it.
      entry: FSDP2's object for it.
      group: FSDP2's group, whose parameters are gathered together.
    """

    name: str
    module: torch.nn.Module
    entry: Any
    group: Any

    @property
    def sharded(self) -> Any:
        """The parameter: a DTensor."""
        return self.entry.sharded_param

    @property
    def local(self) -> torch.Tensor:
        """The part of this process, on which FSDP2 looks for functions."""
        return self.entry.sharded_param._local_tensor

    @property
    def wasGathered(self) -> bool:
        """Whether FSDP2 has gathered it before, and keeps a tensor for it."""
        return hasattr(self.entry, "_unsharded_param")

    @property
    def isGatheredByFewer(self) -> bool:
        """Whether fewer processes gather it for the backward pass."""
        return self.group._use_post_forward_mesh

    @property
    def isOffloaded(self) -> bool:
        """Whether it is on the CPU, and gathered by other devices."""
        return self.entry.offload_to_cpu and self.group.device.type != "cpu"

    @property
    def groupModules(self) -> Any:
        """The modules whose parameters are gathered together with it."""
        return self.group.modules

    def padded_shape(self) -> torch.Size:
        """The shape of a part with padding, which is equal in all processes."""
        return self.entry.padded_sharded_param_size

    def prepare(self) -> None:
        """Tells FSDP2 that the local part has functions of its own."""
        self.entry._init_extensions()

    def call_after_reset(self, function: Callable[[], None]) -> None:
        """Calls a function whenever FSDP2 may have replaced the local part: by ``to``,
        ``to_empty`` and ``load_state_dict``, and before the first forward pass."""
        reset = self.entry.reset_sharded_param

        def reset_and_call() -> None:
            reset()
            function()

        self.entry.reset_sharded_param = reset_and_call


def _list_groups(module: FSDPModule) -> list[Any]:
    try:
        return list(module._get_fsdp_state()._fsdp_param_groups)
    except AttributeError as error:
        raise UsageError(
            f"FSDP2 of PyTorch {torch.__version__} has no list of parameter groups; "
            "expected that of PyTorch 2.13"
        ) from error


def isReplicated(group: Any) -> bool:
    """Whether each process has all of the parameters of a group (``replicate``)."""
    return group.mesh_info.shard_mesh_dim is None


def list_modules(model: torch.nn.Module) -> list[tuple[str, Any, list[Any]]]:
    """Returns the modules to which ``fully_shard`` was applied, with their names and
    parameter groups.

    Raises:
      UsageError: If there is none.
    """
    if not isinstance(model, torch.nn.Module):
        raise UsageError(
            f"expected a module, got {type(model).__name__}: pass the model that "
            "fully_shard was applied to"
        )
    clean = make_cleaner(model)
    found = [
        (clean(name), module, _list_groups(module))
        for name, module in model.named_modules()
        if isinstance(module, FSDPModule)
    ]
    if not any(groups for _, _, groups in found):
        raise UsageError(
            f"no parameter of {type(model).__name__} is sharded by FSDP2; call "
            "torch.distributed.fsdp.fully_shard first"
        )
    return found


def list_parameters(model: torch.nn.Module) -> Iterator[ShardedParameter]:
    """Yields the parameters that FSDP2 shards, in the order of ``named_parameters``.

    Raises:
      UsageError: If there is none.
    """
    places: dict[tuple[torch.nn.Module, str], tuple[Any, Any]] = {}
    for _, _, groups in list_modules(model):
        for group in groups:
            for entry in group.fsdp_params:
                info = entry._module_info
                places.setdefault((info.module, info.param_name), (entry, group))
    clean = make_cleaner(model)
    for prefix, module in model.named_modules():
        for name in module._parameters:
            if (module, name) in places:
                entry, group = places[module, name]
                full = f"{prefix}.{name}" if prefix else name
                yield ShardedParameter(clean(full), module, entry, group)
