"""Saves compiled steps by torch.distributed.checkpoint (DCP)."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from pathlib import Path
from typing import Any

import torch

from binade.compiled_step import TrainStep
from binade.errors import RejectedError
from binade.torch.distributed.identity import STATE_ROLES
from binade.torch.distributed.state_shards import StateShards
from binade.torch.distributed.ranks import translate_collective_errors
from binade.torch.tensors import to_torch

# Prefixes of names by the roles of tensors, as in ``final.safetensors``.
_PREFIXES = {"state": "state/", "scaler": "scaler/"}
_FORMATS = "formats"  # Codes of one format are not codes of another, with equal types.
_CALLS = "calls"  # The number of calls, which schedules and the order of batches read.
_COMPLETE = ".metadata"  # DCP writes it after all other files.


def get_state(step: TrainStep) -> dict[str, torch.Tensor]:
    """Returns what training changes and this process has all of, under the names of
    ``final.safetensors``, as tensors over the memory of the step, the number of calls, and
    a hash of the formats of quantized states."""
    shards = _get_shards(step)
    sharded = () if shards is None else shards.shapes
    tensors = {
        _PREFIXES.get(role, "") + name: to_torch(array)
        for role in STATE_ROLES
        for name, array in step.ports(role).items()
        if role != "state" or name not in sharded
    }
    formats = json.dumps(step.plan().get("quantized_states"), sort_keys=True)
    digest = hashlib.sha256(formats.encode()).digest()
    tensors[_FORMATS] = torch.frombuffer(bytearray(digest), dtype=torch.uint8)
    return tensors | {_CALLS: torch.tensor(step.calls)}


def save_checkpoint(step: TrainStep, path: str | os.PathLike[str]) -> None:
    """Writes a checkpoint of PyTorch (DCP) with all that a step needs to continue.

    All ranks of a distributed step have to call this: each writes a part. The checkpoint
    can be loaded by any number of ranks, and by one process. It is complete when its file
    ``.metadata`` exists.

    Args:
      step: What ``distribute``, ``binade.compile`` or ``binade.load`` returned.
      path: The directory of the checkpoint.

    Raises:
      PeerError: If another process fails.
    """
    import torch.distributed.checkpoint as dcp  # Not in all builds of PyTorch, and slow.

    with translate_collective_errors("saving a checkpoint"), _quiet():
        state = get_state(step) | _copy_buffers(step) | _gather_states(step)
        dcp.save(state, checkpoint_id=os.fspath(path), **_choose_group(step))


def load_checkpoint(step: TrainStep, path: str | os.PathLike[str]) -> None:
    """Continues from a checkpoint that ``save_checkpoint`` wrote, with any number of ranks.

    All ranks of a distributed step have to call this.

    Args:
      step: A step of the same model, optimizer and formats.
      path: The directory of the checkpoint.

    Raises:
      RejectedError: If there is no complete checkpoint, or tensors differ from the step's.
      PeerError: If another process fails.
    """
    import torch.distributed.checkpoint as dcp

    folder = Path(path)
    if not isComplete(folder):
        raise RejectedError(f"{folder}: contains no complete checkpoint")
    _check_tensors(step, folder)
    own, shards = get_state(step), _get_shards(step)
    state = {name: tensor.clone() for name, tensor in own.items()}
    if shards is not None:
        for name in shards.list_owned():
            state[_PREFIXES["state"] + name] = shards.create_whole(name)
    with translate_collective_errors("loading a checkpoint"), _quiet():
        dcp.load(state, checkpoint_id=os.fspath(folder), **_choose_group(step))
    if not torch.equal(state[_FORMATS], own[_FORMATS]):
        raise RejectedError(f"{folder}: has quantized states of other formats")
    for name, tensor in own.items():
        tensor.copy_(state[name])
    if shards is not None:
        for name, owner in shards.owners.items():
            shards.scatter(name, state.get(_PREFIXES["state"] + name), owner)
    step.calls = int(state[_CALLS])


def _copy_buffers(step: TrainStep) -> dict[str, torch.Tensor]:
    """Returns copies of rank 0's running statistics, which differ among ranks; nothing for
    one process."""
    group = _choose_group(step).get("process_group")
    if group is None:
        return {}
    copies = {name: to_torch(array).clone() for name, array in step.buffers.items()}
    for copy in copies.values():
        data = copy.reshape(-1).view(torch.uint8)
        torch.distributed.broadcast(data, group=group, group_src=0)
    return copies


def _get_shards(step: TrainStep) -> StateShards | None:
    """Returns how the states are sharded; None if each rank has all."""
    return getattr(step, "_shards", None)


def _gather_states(step: TrainStep) -> dict[str, torch.Tensor]:
    """Returns the whole states that this rank writes, of those that are sharded."""
    shards = _get_shards(step)
    whole: dict[str, torch.Tensor] = {}
    if shards is None:
        return whole
    for name, owner in shards.owners.items():
        found = shards.gather(name, owner)
        if found is not None:
            whole[_PREFIXES["state"] + name] = found
    return whole


def isComplete(path: Path) -> bool:
    """Whether a directory has a checkpoint that was written to the end."""
    return (path / _COMPLETE).exists()


def _choose_group(step: TrainStep) -> dict[str, Any]:
    """Returns the arguments of DCP that say which processes take part."""
    ranks = getattr(step, "_ranks", None)
    if ranks is None or ranks.control is None:
        return {"no_dist": True}
    return {"process_group": ranks.control}


def _check_tensors(step: TrainStep, folder: Path) -> None:
    import torch.distributed.checkpoint as dcp

    known = dcp.FileSystemReader(folder).read_metadata().state_dict_metadata
    wanted = get_state(step)
    if shards := _get_shards(step):
        for name in shards.shapes:
            whole = shards.get_own(name).new_empty(shards.shapes[name], device="meta")
            wanted[_PREFIXES["state"] + name] = whole
    wrong = []
    for name, tensor in wanted.items():
        found = known.get(name)
        if found is None:
            wrong.append(f"lacks '{name}'")
        elif not isinstance(found, dcp.metadata.TensorStorageMetadata):
            wrong.append(f"'{name}' is an object")
        elif (found.size, found.properties.dtype) != (tensor.shape, tensor.dtype):
            wrong.append(
                f"'{name}' is {found.properties.dtype} {list(found.size)}, in the step "
                f"{tensor.dtype} {list(tensor.shape)}"
            )
    if wrong:
        raise RejectedError(
            f"{folder}: {wrong[0]}"
            + (f", and {len(wrong) - 1} more" if len(wrong) > 1 else "")
            + "; expected a checkpoint of the same model, optimizer and formats of states"
        )


def _quiet() -> warnings.catch_warnings:
    """Returns a context without the warnings of DCP about a single process."""
    return warnings.catch_warnings(action="ignore", category=UserWarning)
