"""Checks before the first step that all ranks execute the same computation."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from binade.compiled_step import TrainStep
from binade.errors import UsageError
from binade.ports import Ports
from binade.version import __version__

# The roles of tensors that training changes.
STATE_ROLES = ("parameter", "buffer", "state", "scaler", "rng", "step")
_SHORT = 12  # Digits of a hash in messages.


def describe_rank(step: TrainStep, about: Mapping[str, object]) -> dict[str, str]:
    """Returns what has to be equal on all ranks, the causes of differences first.

    Args:
      step: The step of this rank.
      about: Further properties.
    """
    program = step._program
    text = program.plan()
    plan = json.loads(text)
    found: dict[str, object] = {
        "version of Binade": __version__,
        "version of PyTorch": torch.__version__,
        "seed": step._seed,
        "model": plan["model"],
        "policy": f"{plan['policy'].get('name')} {_shorten(plan['policy'].get('hash'))}",
        "number of micro-batches": program.batches(),
    }
    found |= about
    inputs = {name: step.batch[name] for name in step.batch}
    for name, array in inputs.items():
        found[f"shape of input '{name}'"] = f"{array.dtype} {list(array.shape)}"
    for name, value in step.settings.items():
        found[f"setting {name}"] = repr(value)
    chosen = step._chosen
    found["schedules"] = ", ".join(chosen.texts) or "none"
    found["warmup"] = chosen.warmup
    found["steps of schedules"] = chosen.steps
    found["number of threads"] = plan.get("threads")
    found["computation"] = _shorten(plan["computation"])
    found["plan"] = _shorten(hashlib.sha256(text.encode()).hexdigest())
    found["parameters and states"] = _shorten(hash_state(step))
    found["number of calls"] = step.calls
    return {name: str(value) for name, value in found.items()}


def hash_state(step: TrainStep) -> str:
    """Returns the SHA-256 of everything that training changes."""
    whole = hashlib.sha256()
    for role in STATE_ROLES:
        ports: Ports = step.ports(role)
        for name in ports:
            whole.update(f"{role} {name}\n".encode())
            whole.update(step._program.tensor(role, name).data)
    return whole.hexdigest()


def _shorten(digest: Any) -> str:
    return str(digest or "")[:_SHORT]


def check_equal(every: Sequence[Mapping[str, str]]) -> None:
    """Checks that ``describe_rank`` returned the same on every rank.

    Args:
      every: What it returned, in the order of ranks.

    Raises:
      UsageError: If a rank differs from rank 0; the error has the first property that
        differs, with both values, and lists the others.
    """
    first = every[0]
    for rank, other in enumerate(every[1:], 1):
        names = [
            name
            for name in dict.fromkeys((*first, *other))
            if first.get(name) != other.get(name)
        ]
        if not names:
            continue
        # A different model has other inputs, settings and hashes, too.
        name, *rest = names
        text = (
            f"rank {rank} differs from rank 0: the {name} is {other.get(name, 'none')} on "
            f"rank {rank}, and {first.get(name, 'none')} on rank 0"
        )
        if rest:
            text += f" (also different: {', '.join(rest)})"
        raise UsageError(
            f"{text}; start all ranks with the same model, policy, settings, seed and "
            "version"
        )
