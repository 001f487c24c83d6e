"""Binade for PyTorch: whole steps from modules, and optimizers for one's own loop."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from binade import train_step
from binade.errors import UsageError
from binade.export import export_onnx

__all__ = ["Optimizer", "StableEmbedding", "capture", "load_parameters"]


def capture(
    module: torch.nn.Module,
    loss: Callable[..., torch.Tensor] | None,
    batch: Mapping[str, torch.Tensor],
    **options: Any,
) -> train_step.TrainStep:
    """Exports a module and its loss, and compiles the training step.

    Args:
      module: In the mode to train it in; it keeps its parameters, which the step
        starts from (``load_parameters`` brings back what the step made of them).
      loss: Called with the module's output, then by name with the entries of the
        batch that it names; None where the module returns its loss.
      batch: Example inputs by name; the step takes batches of these shapes.
      options: As for ``binade.compile``: ``optimizer``, ``policy``, ``target``, ...

    Raises:
      RejectedError: If it cannot be exported or compiled.
    """
    folder = tempfile.TemporaryDirectory(prefix="binade-")
    path = os.path.join(folder.name, "model.onnx")
    export_onnx(module, batch, path, loss=loss)
    step = train_step.compile(path, **options)
    step.keep(folder)  # Whoever writes a bundle reads the weights from there.
    return step


def load_parameters(module: torch.nn.Module, step: train_step.TrainStep) -> None:
    """Sets a module's parameters and running statistics to those of a step.

    Raises:
      UsageError: If the module lacks one of them.
    """
    known = {
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module.named_buffers(remove_duplicate=False)),
    }
    with torch.no_grad():
        for name, array in (*step.parameters.items(), *step.buffers.items()):
            if name not in known:
                raise UsageError(f"the module has no '{name}'")
            known[name].copy_(_to_torch(array))


def _to_torch(array) -> torch.Tensor:
    """Shares the memory where PyTorch has the type."""
    return torch.from_numpy(array if array.dtype.kind in "iufb" else array.astype("f4"))


class StableEmbedding(torch.nn.Embedding):
    """An embedding with a layer norm behind it, and weights drawn by Xavier's rule.

    What ``binade train --stable-embedding`` makes of an embedding: 8-bit states of
    embeddings are stable with it (Dettmers et al., "8-bit Optimizers via Block-wise
    Quantization", section 2.3).
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.norm = torch.nn.LayerNorm(self.embedding_dim)

    def reset_parameters(self) -> None:
        torch.nn.init.xavier_uniform_(self.weight)
        self._fill_padding_idx_with_zero()

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        return self.norm(super().forward(indices))


class Optimizer(torch.optim.Optimizer):
    """A rule of ``binade list optimizers`` with states in any of its formats.

    One compiled kernel updates all parameters, which are f32 on the CPU. They become
    views of the optimizer's memory. A step with a gradient that is not finite updates
    nothing. Arguments of rules that PyTorch has, too, have its names and defaults.

    Args:
      params: Tensors or groups of them, as for every optimizer. A group may have its
        own values of the rule's settings.
      rule: For example ``"adamw"`` or ``"tiger"``.
      states: Formats: ``"dyn8"``, ``"e4m3"``, ...; f32 without.
      options: Of ``binade.compile``: ``clip``, ``policy``, ``threads``.
      lr: The step size; schedulers may change that of each group, and other settings.
      settings: Of the rule: ``weight_decay``, ``beta1``, ...
    """

    def __init__(
        self,
        params: Iterable[torch.Tensor] | Iterable[dict[str, Any]],
        rule: str = "adamw",
        lr: float = 1e-3,
        *,
        states: str | Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
        **settings: float,
    ) -> None:
        super().__init__(params, {"lr": lr, **settings})
        self._names = {
            parameter: f"{number}.{index}"
            for number, group in enumerate(self.param_groups)
            for index, parameter in enumerate(group["params"])
        }
        for parameter, name in self._names.items():
            if parameter.device.type != "cpu" or parameter.dtype != torch.float32:
                raise UsageError(
                    f"parameter {name} is {parameter.dtype} on {parameter.device}; "
                    "expected torch.float32 on the CPU"
                )
        self._step = train_step.compile_update(
            {name: tuple(parameter.shape) for parameter, name in self._names.items()},
            optimizer=rule,
            states=states,
            groups={
                f"{number}.*": {k: v for k, v in group.items() if k != "params"}
                for number, group in enumerate(self.param_groups)
            },
            **(options or {}),
        )
        self._settings = self._list_settings()
        for group, name, setting in self._settings:
            group[name] = self._step.settings[setting]
        # The step's own memory, which stays where it is.
        self._gradients = {
            parameter: _to_torch(self._step.buffers[f"gradient/{name}"])
            for parameter, name in self._names.items()
        }
        with torch.no_grad():
            for parameter, name in self._names.items():
                shared = _to_torch(self._step.parameters[name])
                shared.copy_(parameter)
                parameter.data = shared

    @torch.no_grad()
    def step(self, closure: Callable[[], torch.Tensor] | None = None):
        """Updates all parameters by their gradients.

        Raises:
          UsageError: If a parameter has no gradient: it would decay all the same.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for parameter, name in self._names.items():
            if parameter.grad is None:
                raise UsageError(
                    f"parameter {name} has no gradient; leave out what is not trained"
                )
            self._gradients[parameter].copy_(parameter.grad)
        for group, name, setting in self._settings:
            self._step.settings[setting] = group[name]
        self._step.run()
        return loss

    def _list_settings(self) -> list[tuple[dict[str, Any], str, str]]:
        """Group, key in it, and name in the step, of all settings."""
        found = []
        for setting in self._step.settings:
            name, _, number = setting.partition("@")
            # With one group, further numbers are those of a rule's other rule.
            index = int(number or 0) if len(self.param_groups) > 1 else 0
            if index >= len(self.param_groups):
                raise UsageError(
                    "the rule leaves some parameters to another; give it one group"
                )
            found.append((self.param_groups[index], name, setting))
        return found

    def state_dict(self) -> dict[str, Any]:
        """What ``load_state_dict`` takes: states as they are kept, and counters."""
        state = {name: array.copy() for name, array in self._step.states.items()}
        groups = [
            {key: value for key, value in group.items() if key != "params"}
            for group in self.param_groups
        ]
        return {"state": state, "updates": self._step.updates, "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restores what ``state_dict`` gave for the same parameters, rule and formats.

        Raises:
          UsageError: If they differ.
        """
        state = state_dict["state"]
        if list(state) != list(self._step.states):
            raise UsageError(
                "the states are those of another rule, or of other tensors"
            )
        for name, array in state.items():
            self._step.states.set(name, array)
        self._step.updates = state_dict["updates"]
        for group, values in zip(self.param_groups, state_dict["param_groups"]):
            group.update(values)
