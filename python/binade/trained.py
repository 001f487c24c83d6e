"""Loads the trained weights of a run into the PyTorch module that was exported for it.

    binade.trained.load(module, "run")

The names in ``final.safetensors`` are those of the module. If all parameters are f32,
PyTorch's own ``load_state_dict`` accepts them as well.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from binade import safetensors
from binade.errors import RejectedError

if TYPE_CHECKING:
    import torch

_MASTER = "master/"
_OFFSET = "state/evaluation_offset/"
# An error lists at most this number of tensors.
MOST_NAMED = 4
# PyTorch's TorchScript exporter names tensors "onnx::GRU_380" if it computed them.
REMEDY = (
    "the exporter computed tensors with '::' from parameters of the module: export it with "
    "dynamo=True and optimize=False, or with do_constant_folding=False; 'binade export' "
    "writes this run as ONNX"
)


def load_state(
    path: str | os.PathLike[str], *, best: bool = False, evaluates: bool = True
) -> dict[str, np.ndarray]:
    """Reads parameters and buffers of a run, of a checkpoint's ``state.safetensors``, or of
    any safetensors file.

    A 16-bit parameter with a companion (master weight, remainder or compensation) is
    returned as the f32 value that both represent.

    Args:
      path: The directory of a run (its ``final.safetensors``) or a safetensors file.
      best: Whether to read the run's ``best.safetensors`` instead, the state with the
        lowest ``eval_loss``.
      evaluates: Whether to return the weights for evaluation where the optimizer trained
        others, such as those of schedule-free AdamW.

    Raises:
      RejectedError: If the run has kept no best state.
    """
    path = os.fspath(path)
    if best or os.path.isdir(path):
        run = path
        path = os.path.join(run, "best.safetensors" if best else "final.safetensors")
        if best and not os.path.exists(path):
            raise RejectedError(
                f"{run}: has no best.safetensors, which 'binade train' writes with "
                "--keep-best or --patience"
            )
    metadata = safetensors.read_header(path).metadata
    tensors = safetensors.load(path)
    state = {
        name: value
        for name, value in tensors.items()
        if not name.startswith(("state/", "scaler/")) and name not in ("step", "rng")
    }
    for key, kept in metadata.items():
        name = key.removeprefix(_MASTER)
        if key != name and name in state:
            master, low = kept.split(" ", 1)
            state[name] = _join(state[name], master, tensors[low])
    for name in state if evaluates else ():
        if (offset := tensors.get(_OFFSET + name)) is not None:
            state[name] = state[name].astype(np.float32) + offset.astype(np.float32)
    return state


def _join(parameter: np.ndarray, master: str, low: np.ndarray) -> np.ndarray:
    """Returns the f32 value of a parameter and its companion `low`: a master weight,
    remainder or compensation."""
    if master == "f32":
        return low
    if master == "kahan":
        return parameter.astype(np.float32) - low.astype(np.float32)
    if master == "residual":
        return parameter.astype(np.float32) + low.astype(np.float32)
    if master == "split_8bit":
        return _add_error(parameter.astype(np.float32), low)
    upper = parameter.view(np.uint16).astype(np.uint32)
    if master == "split_round":
        upper = upper - (low < 0)
    word = upper << 16 | low.view(np.uint16)
    return word.astype(np.uint32).view(np.float32)


def _add_error(rounded: np.ndarray, code: np.ndarray) -> np.ndarray:
    """Returns bf16 values plus their rounding errors, whose codes are multiples of 1/127
    of half the distance between bf16 values."""
    # frexp returns fractions in [0.5, 1).
    exponent = np.maximum(np.frexp(rounded)[1] - 1, -126)
    exponent = np.where(rounded == 0, -126, exponent)
    with np.errstate(invalid="ignore"):
        error = np.ldexp(code.astype(np.float64) / 127, exponent - 8)
        total = (rounded.astype(np.float64) + error).astype(np.float32)
    return np.where(np.isfinite(rounded), total, rounded)


def load(
    module: torch.nn.Module,
    path: str | os.PathLike[str],
    *,
    strict: bool = True,
    best: bool = False,
) -> None:
    """Sets a module's parameters and running statistics from `load_state`.

    Args:
      module: A module with every tensor of the state, in its shape.
      path: The directory of a run, or a safetensors file.
      strict: Whether the state must have every trained parameter of the module, or one
        that it is tied to. Otherwise the others keep their values, as those on which the
        loss does not depend, which exporters leave out.
      best: Whether to load the run's ``best.safetensors``, as in `load_state`.

    Raises:
      RejectedError: If they do not fit; the message lists what does not.
    """
    import torch

    state = load_state(path, best=best)
    known = {
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module.named_buffers(remove_duplicate=False)),
    }
    given = {id(known[name]) for name in state if name in known}
    unknown = [name for name in state if name not in known]
    missing: list[str] = []
    wrong = []
    for name, tensor in known.items():
        if strict and tensor.requires_grad and id(tensor) not in given:
            missing.append(name)
        elif name in state and state[name].shape != tuple(tensor.shape):
            wrong.append(
                f"'{name}' is {list(state[name].shape)}, "
                f"in the module {list(tensor.shape)}"
            )
    if missing:
        wrong.insert(
            0, f"the state lacks {_list(missing)} (strict=False keeps their values)"
        )
    if unknown:
        wrong.insert(0, f"the module has no {_list(unknown)}")
    if any("::" in name for name in unknown):
        wrong.append(REMEDY)
    if wrong:
        raise RejectedError(f"{os.fspath(path)}: " + "; ".join(wrong))
    with torch.no_grad():
        for name, value in state.items():
            known[name].copy_(_tensor(value))


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(f"'{name}'" for name in names[:MOST_NAMED])
    more = len(names) - MOST_NAMED
    return f"{shown} and {more} more" if more > 0 else shown


def _tensor(value: np.ndarray) -> torch.Tensor:
    import torch

    if value.dtype.kind not in "iufb":  # PyTorch rejects numpy arrays of bf16.
        value = value.astype(np.float32)
    return torch.from_numpy(value)


def to_torch(state: Mapping[str, np.ndarray]) -> dict[str, torch.Tensor]:
    """Converts the result of `load_state` for ``module.load_state_dict``."""
    return {name: _tensor(value) for name, value in state.items()}
