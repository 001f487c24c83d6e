"""Exchanges the state of a PyTorch loop with runs of ``binade train``."""

from __future__ import annotations

import json
import os
import re
from typing import Any

import numpy as np
import torch

from binade import arrays, safetensors, trained
from binade.errors import RejectedError
from binade.torch.loading import check_form
from binade.torch.optimizer import Optimizer
from binade.torch.shards import is_dtensor
from binade.torch.tensors import to_torch

# ``state/exp_avg/NAME``, or a part of its format, such as ``state/exp_avg/NAME.scale``.
_STATE = "state/"
_PART = re.compile(r"(?P<state>\w+)(?P<part>(\.\w+)?)")
_COMMON = ("step", "rng")
# States that preserve what the rounding of a parameter loses.
_COMPANIONS = ("master", "remainder", "compensation")


def _options() -> Any:
    from torch.distributed.checkpoint.state_dict import StateDictOptions

    return StateDictOptions(full_state_dict=True, cpu_offload=True)


def save_state(
    path: str | os.PathLike[str], module: torch.nn.Module, optimizer: Optimizer
) -> None:
    """Writes parameters, buffers and optimizer states to a safetensors file, from which
    ``binade train --init`` starts a run.

    The file has the names of the module, which a model exported from it has as well. All
    processes of a distributed run call this; the first one writes. Gloo cannot gather
    states in floats of 8 bits (``e4m3``).

    Args:
      path: The file to write.
      module: The module, whose parameters may be DTensors.
      optimizer: Its optimizer. A run with the same rule and formats of states continues
        with its states.
    """
    from torch.distributed.checkpoint.state_dict import get_state_dict

    values: Any
    states: Any
    values, states = get_state_dict(module, optimizer, options=_options())
    if torch.distributed.is_initialized() and torch.distributed.get_rank() != 0:
        return
    tensors = {name: _to_numpy(value) for name, value in values.items()}
    parameters: dict[str, torch.Tensor] = dict(module.named_parameters())
    metadata = {"format": "binade-state", "format_version": "1"}
    if formats := _list_formats(module, optimizer):
        metadata["quantized_states"] = json.dumps(list(formats.values()))
    for name, own in states["state"].items():
        for key, value in own.items():
            if key == "step":
                tensors[key] = np.array(int(value), np.int64)
            elif key == "rng":
                tensors[key] = _to_numpy(value).view(np.int64)
            elif found := _PART.fullmatch(key):
                stored = _name(name, key)
                array = _to_numpy(value)
                tensors[stored] = array.reshape(-1) if found["part"] else array
                if found["state"] in _COMPANIONS:
                    master = optimizer.get_master(parameters[name])
                    metadata[f"master/{name}"] = f"{master} {stored}"
    safetensors.save(path, tensors, metadata)


def load_state(
    path: str | os.PathLike[str], module: torch.nn.Module, optimizer: Optimizer
) -> None:
    """Continues a run of ``binade train``: sets parameters, buffers and optimizer states.

    Args:
      path: The directory of the run, or a safetensors file of its state, such as one of
        ``save_state``.
      module: The module from which the model of the run was exported. Parameters may be
        DTensors; then all processes call this.
      optimizer: An optimizer of the module with the rule and the formats of the run.

    Raises:
      RejectedError: If the file lacks tensors of the module or of the optimizer, or has
        states in other formats.
      UsageError: If states have another form than those of the optimizer.
    """
    path = os.fspath(path)
    if os.path.isdir(path):
        path = os.path.join(path, "final.safetensors")
    tensors = safetensors.load(path)
    values = trained.to_torch(trained.load_state(path))
    _check_formats(path, module, optimizer)
    lacking = [name for name, _ in module.named_parameters() if name not in values]
    states: dict[str, dict[str, torch.Tensor]] = {}
    for name, parameter in module.named_parameters():
        for key in optimizer.state.get(parameter, {}):
            stored = _name(name, key)
            if stored in tensors:
                states.setdefault(name, {})[key] = _read(tensors[stored], key)
            else:
                lacking.append(stored)
    if lacking:
        raise RejectedError(f"{path}: lacks {', '.join(sorted(set(lacking)))}")
    parameters = dict(module.named_parameters())
    for name, given in states.items():
        check_form(name, optimizer.state[parameters[name]], given)
    for name, own in module.state_dict().items():
        if name in values:
            _copy(own, values[name])
    for name, given in states.items():
        for key, value in given.items():
            _copy(optimizer.state[parameters[name]][key], value)


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
    module: torch.nn.Module, optimizer: Optimizer
) -> dict[str, dict[str, Any]]:
    """Returns what a file says about each quantized state, by the name of its codes."""
    names: dict[torch.Tensor, str] = {
        parameter: name for name, parameter in module.named_parameters()
    }
    found = {}
    for parameter, format, keys in optimizer.list_formats():
        parts = [_name(names[parameter], key) for key in keys]
        state = {"parts": parts, "shape": list(parameter.shape)}
        found[parts[0]] = {"format": format, "states": [state]}
    return found


def _check_formats(path: str, module: torch.nn.Module, optimizer: Optimizer) -> None:
    text = safetensors.read_header(path).metadata.get("quantized_states", "[]")
    given = {
        state["parts"][0]: entry["format"]
        for entry in json.loads(text)
        for state in entry["states"]
    }
    expected = _list_formats(module, optimizer)
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
    if key in _COMMON:
        return key
    found = _PART.fullmatch(key)
    assert found, key
    return f"{_STATE}{found['state']}/{parameter}{found['part']}"


def _read(array: np.ndarray, key: str) -> torch.Tensor:
    if key == "rng":
        array = array.view(np.uint8)
    return to_torch(array).clone()


def _to_numpy(value: torch.Tensor) -> np.ndarray:
    return arrays.as_array(value.detach().cpu().contiguous())
