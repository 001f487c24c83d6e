"""Wrappers of modules, and the names that they change."""

from __future__ import annotations

import collections
import sys
from collections.abc import Callable

import torch

# The module, the name and the attribute with the wrapped module of each class of wrappers.
# Classes are looked up in sys.modules, because their modules may not have been imported.
_WRAPPERS = (
    ("torch.nn.parallel.data_parallel", "DataParallel", "module"),
    ("torch.nn.parallel.distributed", "DistributedDataParallel", "module"),
    ("torch._dynamo.eval_frame", "OptimizedModule", "_orig_mod"),
    ("torch.distributed.algorithms._checkpoint.checkpoint_wrapper", "ActivationWrapper",
     "_checkpoint_wrapped_module"),
    ("torch.distributed.fsdp.fully_sharded_data_parallel", "FullyShardedDataParallel",
     "_fsdp_wrapped_module"),
)  # fmt: skip
# Attributes that no module of a user has. A wrapper may already have removed them from the
# names of a state_dict.
_RESERVED = {name for _, _, name in _WRAPPERS if name != "module"}


def get_wrapped(module: torch.nn.Module) -> torch.nn.Module | None:
    """Returns the module that a wrapper contains; None for other modules."""
    for place, name, attribute in _WRAPPERS:
        kind = getattr(sys.modules.get(place), name, None)
        if kind is not None and isinstance(module, kind):
            return getattr(module, attribute)
    return None


def unwrap(module: torch.nn.Module) -> torch.nn.Module:
    """Returns the module without wrappers around it."""
    while (wrapped := get_wrapped(module)) is not None:
        module = wrapped
    return module


def make_cleaner(module: torch.nn.Module) -> Callable[[str], str]:
    """Returns a function that removes what wrappers add to the names of parts, parameters
    and buffers of a module."""
    # The number of wrappers with the attribute `module`, by the name of what they wrap.
    parallel: collections.Counter[str] = collections.Counter()

    def clean(name: str) -> str:
        kept: list[str] = []
        left = parallel[""]
        for part in name.split("."):
            if part in _RESERVED:
                continue
            if part == "module" and left:
                left -= 1
                continue
            kept.append(part)
            left = parallel[".".join(kept)]
        return ".".join(kept)

    # Outer modules come before their parts.
    for name, part in module.named_modules(remove_duplicate=False):
        if get_wrapped(part) is not None and "module" in part._modules:
            parallel[clean(name)] += 1
    return clean
