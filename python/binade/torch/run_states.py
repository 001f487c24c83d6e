"""Exchanges the state of a PyTorch loop with runs of ``binade train``."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Container
from typing import Any

import numpy as np
import torch

from binade import arrays, safetensors, trained
from binade.errors import RejectedError, UsageError
from binade.torch.loading import (
    COMMON,
    COMPANIONS,
    NORMS,
    check_form,
    name_state,
)
from binade.torch.optimizer import Optimizer
from binade.torch.shards import is_dtensor
from binade.torch.tensors import to_torch
from binade.torch.wrappers import make_cleaner, unwrap

_STATE = "state/"  # The prefix of names of states in a file.


def save_state(
    path: str | os.PathLike[str], module: torch.nn.Module, optimizer: Optimizer
) -> None:
    """Writes parameters, buffers and optimizer states to a safetensors file, from which
    ``binade train --init`` starts a run.

    The file has the names of the module, which a model exported from it has as well. All
    processes of a distributed run call this, and return when the first one has written
    the file. Norms of ``percentile_clipping`` are left out.

    Args:
      path: The file to write.
      module: The module, whose parameters may be DTensors.
      optimizer: An optimizer of parameters of the module. A run with the same rule and
        formats of states continues with its states.

    Raises:
      UsageError: If the optimizer has a parameter that the module lacks.
    """
    optimizer.refuse_averages("save_state")
    names = _name_parameters(module, optimizer)
    isFirst = (
        not torch.distributed.is_initialized() or torch.distributed.get_rank() == 0
    )
    tensors: dict[str, np.ndarray] = {}

    def add(name: str, value: torch.Tensor, isFlat: bool = False) -> None:
        whole = _gather(value)  # All processes take part.
        if isFirst:
            array = arrays.as_array(whole.detach().cpu().contiguous())
            tensors[name] = array.reshape(-1) if isFlat else array

    metadata = {"format": "binade-state", "format_version": "1"}
    if formats := _list_formats(optimizer, names):
        metadata["quantized_states"] = json.dumps(list(formats.values()))
    for name, value in _list_tensors(module).items():
        add(name, value)
    for parameter, name in names.items():
        for key, value in optimizer.state.get(parameter, {}).items():
            stored = _name(name, key)
            if key in COMMON:
                add(stored, value.view(torch.int64) if key == "rng" else value)
            elif key != NORMS:
                add(stored, value, isFlat="." in key)
            if key in COMPANIONS:
                metadata[f"master/{name}"] = (
                    f"{optimizer.get_master(parameter)} {stored}"
                )
    if isFirst:
        safetensors.save(path, tensors, metadata)
    if torch.distributed.is_initialized():
        torch.distributed.barrier()


def load_state(
    path: str | os.PathLike[str], module: torch.nn.Module, optimizer: Optimizer
) -> None:
    """Continues a run of ``binade train``: sets parameters, buffers and optimizer states.
    An error leaves all unchanged.

    Args:
      path: The directory of the run, or a safetensors file of its state, such as one of
        ``save_state``.
      module: The module from which the model of the run was exported. Parameters may be
        DTensors; then all processes call this.
      optimizer: An optimizer of the module with the rule and the formats of the run.

    Raises:
      RejectedError: If the file lacks tensors of the module or of the optimizer, or has
        them in other shapes, or states in other formats.
      UsageError: If the optimizer has a parameter that the module lacks, or states have
        another form than those of the optimizer.
    """
    optimizer.refuse_averages("load_state")
    path = os.fspath(path)
    if os.path.isdir(path):
        path = os.path.join(path, "final.safetensors")
    tensors = safetensors.load(path)
    values = trained.to_torch(trained.load_state(path, evaluates=False))
    names = _name_parameters(module, optimizer, tensors)
    _check_formats(path, _list_formats(optimizer, names))
    own = _list_tensors(module, values)
    for name, value in own.items():
        # Joined with its companion, a parameter of 16 bits may be rounded to another value.
        if name in tensors and (raw := to_torch(tensors[name])).dtype == value.dtype:
            values[name] = raw
    # Exported models lack counters, such as that of a batch norm.
    wrong = [
        f"lacks '{name}'"
        for name, value in own.items()
        if name not in values and value.is_floating_point()
    ]
    wrong += [
        f"'{name}' is {list(values[name].shape)}, in the module {list(value.shape)}"
        for name, value in own.items()
        if name in values and values[name].shape != value.shape
    ]
    copies = [(value, values[name]) for name, value in own.items() if name in values]
    for parameter, name in names.items():
        given = {}
        for key in optimizer.state.get(parameter, {}):
            stored = _name(name, key)
            if stored in tensors:
                given[key] = _read(tensors[stored], key)
            elif key != NORMS:
                wrong.append(f"lacks '{stored}'")
        if not wrong:
            check_form(name, optimizer.state[parameter], given)
        copies += [(optimizer.state[parameter][key], given[key]) for key in given]
    if wrong:
        raise RejectedError(f"{path}: {'; '.join(dict.fromkeys(wrong))}")
    for to, whole in copies:
        _copy(to, whole)


def _list_tensors(
    module: torch.nn.Module, known: Container[str] = ()
) -> dict[str, torch.Tensor]:
    """Returns parameters and persistent buffers by name. A shared one has the first of its
    names that is known, or else the first."""
    names: dict[torch.Tensor, str] = {}
    module = unwrap(module)
    clean = make_cleaner(module)
    for name, value in module.state_dict(keep_vars=True).items():
        name = clean(name)
        if not isinstance(value, torch.Tensor):
            continue
        if value not in names or (names[value] not in known and name in known):
            names[value] = name
    return {name: value for value, name in names.items()}


def _name_parameters(
    module: torch.nn.Module, optimizer: Optimizer, known: Container[str] = ()
) -> dict[torch.Tensor, str]:
    """Returns the names of the optimizer's parameters."""
    names = {value: name for name, value in _list_tensors(module, known).items()}
    given = [p for group in optimizer.param_groups for p in group["params"]]
    if any(parameter not in names for parameter in given):
        raise UsageError("the optimizer has a parameter that the module lacks")
    return {parameter: names[parameter] for parameter in given}


def _gather(value: Any) -> torch.Tensor:
    if not is_dtensor(value):
        return value
    if value.element_size() > 1:
        return value.full_tensor()
    # Gloo has no collectives for floats of 8 bits.
    return value.view(torch.uint8).full_tensor().view(value.dtype)


@torch.no_grad()
def _copy(own: Any, whole: torch.Tensor) -> None:
    """Copies the rows that this process has of a tensor."""
    whole = whole.view(own.shape)
    if is_dtensor(own):
        from torch.distributed.tensor import distribute_tensor

        # Each process has read the whole tensor.
        part = distribute_tensor(
            whole.to(own.device), own.device_mesh, own.placements, src_data_rank=None
        )
        own, whole = own.to_local(), part.to_local()
    own.copy_(whole)


def _list_formats(
    optimizer: Optimizer, names: dict[torch.Tensor, str]
) -> dict[str, dict[str, Any]]:
    """Returns what a file says about each quantized state, by the name of its codes."""
    found = {}
    for parameter, quantized in optimizer.list_quantized():
        parts = [_name(names[parameter], key) for key in quantized.parts]
        state = {"parts": parts, "shape": list(parameter.shape)}
        found[parts[0]] = {"format": quantized.format, "states": [state]}
    return found


def _check_formats(path: str, expected: dict[str, dict[str, Any]]) -> None:
    text = safetensors.read_header(path).metadata.get("quantized_states", "[]")
    given = {
        state["parts"][0]: entry["format"]
        for entry in json.loads(text)
        for state in entry["states"]
    }
    for codes in sorted(set(given) | set(expected)):
        own = expected[codes]["format"] if codes in expected else "f32"
        found = given.get(codes, "f32")
        if own != found:
            raise RejectedError(
                f"{path}: {codes} is {_shorten(found)}, and the optimizer has "
                f"{_shorten(own)}; choose the formats of the run, or convert its checkpoint"
            )


def _shorten(format: str) -> str:
    """Returns a format without the values of its code book."""
    return re.sub(r", \[[^]]*\]", "", format)


def _name(parameter: str, key: str) -> str:
    """Returns the name of a state in a file."""
    return key if key in COMMON else _STATE + name_state(key, parameter)


def _read(array: np.ndarray, key: str) -> torch.Tensor:
    if key == "rng":
        array = array.view(np.uint8)
    return to_torch(array).clone()
