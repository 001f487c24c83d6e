"""``Monitor``: records the steps of a training loop, and evaluates alarm rules."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from binade import _core
from binade.alarms import Alarm, as_alarms, as_words, report
from binade.errors import UsageError
from binade.metrics import read_statistic
from binade.torch.monitoring.arguments import check_arguments, list_parameters
from binade.torch.monitoring.hooks import Hook, Hooks, is_transformed
from binade.torch.monitoring.losses import Losses
from binade.torch.monitoring.modules import ForwardPasses, ModuleHooks
from binade.torch.monitoring.optimizers import (
    OptimizerValues,
    is_bare,
    is_nested,
    list_groups,
)
from binade.torch.monitoring.programs import Programs, find_fault
from binade.torch.monitoring.requests import GRADIENTS, Requests, list_absent
from binade.torch.monitoring.scalers import ScalerHook, check_caller, is_scaling
from binade.torch.optimizer import Optimizer

# Kinds that are divided by the loss scale.
_UNSCALED = ("gradient", "output_gradient")


class Monitor:
    """Watches a training loop until it is closed; also a context manager.

    Attributes:
      alarms: All alarms so far.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer | None,
        *,
        statistics: str | Sequence[str],
        every: int,
        alarms: str | Sequence[str],
        on_alarm: str,
        out: str | os.PathLike | None,
        scaler: torch.amp.GradScaler | None,
        step: int,
        threads: int,
    ) -> None:
        """Use ``binade.torch.monitor``, which describes the arguments."""
        check_arguments(model, optimizer, every, on_alarm, step, threads)
        self._model = model
        self._optimizer = optimizer
        self._scaler = scaler if is_scaling(scaler) else None
        self.alarms: list[Alarm] = []
        rules = _core.choose_alarm_rules(as_words(alarms), on_alarm)
        self._action = rules.action
        absent = list_absent(optimizer, scaler, self._scaler is not None)
        self._requests = Requests(
            statistics, every, rules.requests, absent, self._scaler is not None
        )
        self._check_parameters()
        self._done = step
        self._losses = Losses()
        self._recorder = _core.open_recorder(os.fspath(out or ""), step, rules)
        self._programs = Programs(self._recorder, threads, self._requests.reject)
        self._values = OptimizerValues(optimizer, self._requests, self._programs)
        self._passes = ForwardPasses(model)
        self._modules = ModuleHooks(model, self._passes, self._requests, self._record)
        self._isOpen = True
        self._hooks, self._ofStep = Hooks(), Hooks()
        self._install()
        # Also when Python exits; hooks keep the monitor as long as the model exists.
        self._close = weakref.finalize(self, self._recorder.close)
        self._begin()

    def _check_parameters(self) -> None:
        """Rejects parameters of which statistics are requested that cannot be computed."""
        groups = list_groups(self._optimizer)
        for name, parameter in list_parameters(self._model):
            fault = find_fault(parameter, f"parameter '{name}'")
            if fault is None:
                continue
            kinds = [*GRADIENTS, "weight"]
            if is_bare(self._optimizer, groups, parameter):
                kinds.append("narrow_weight")
            for kind in kinds:
                if self._requests.covers(kind, name):
                    self._requests.reject(kind, name, None, fault)

    def _install(self) -> None:
        """Registers the hooks of all steps."""
        before, after = Hook(self._see_batch), Hook(self._see_output)
        self._hooks.add(self._model.register_forward_pre_hook(before))
        self._hooks.add(self._model.register_forward_hook(after))
        if self._optimizer is None:
            return
        before, after = Hook(self._see_update), Hook(self._finish_update)
        self._hooks.add(self._optimizer.register_step_pre_hook(before))
        self._hooks.add(self._optimizer.register_step_post_hook(after))
        if self._scaler is not None:
            self._hooks.add(
                ScalerHook(
                    self._scaler, self._optimizer, lambda: self._done, self._skip
                )
            )

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Removes all hooks, and completes the files. An incomplete step is discarded."""
        if not self._isOpen:
            return
        self._isOpen = False
        self._modules.disarm()
        self._ofStep.remove()
        self._hooks.remove()
        self._recorder.discard()
        self._close()

    @property
    def steps(self) -> int:
        """The number of complete steps, including skipped ones."""
        return self._done

    @property
    def statistics(self) -> dict[str, float | dict[int, int]]:
        """The statistics of the newest step that has any, by ``kind/layer/statistic``."""
        return {
            name: read_statistic(np.asarray(value))
            for name, value in self._recorder.statistics().items()
        }

    def loss(self, loss: torch.Tensor) -> torch.Tensor:
        """Records the loss of a batch, and returns it: ``watch.loss(loss).backward()``.

        A model that returns its loss, alone, first in a tuple or as ``loss``, needs no
        call. With several batches in a step, the loss in the metrics is the mean of theirs,
        and statistics of the kind ``loss`` are those of the last one.

        A loss is ignored where gradients are disabled. With the model in evaluation mode, a
        loss counts if it has a gradient.
        """
        if self._isOpen and self._is_trained_by(loss):
            self._record("loss", "loss", self._losses.give(loss))
        return loss

    def _is_trained_by(self, loss: object) -> bool:
        if not torch.is_grad_enabled() or is_transformed():
            return False
        hasGradient = isinstance(loss, torch.Tensor) and loss.requires_grad
        return hasGradient or self._passes.is_training()

    def step(self) -> None:
        """Ends a step of a loop without an optimizer.

        Raises:
          AlarmError: If a rule raised an alarm and ``on_alarm`` is ``stop``.
          UsageError: If there is an optimizer, whose ``step()`` ends steps.
        """
        if self._optimizer is not None:
            raise UsageError("optimizer.step() ends a step; expected no call of step()")
        if self._isOpen:
            self._record_before()
            self._end(isSkipped=False)

    # --- A step -----------------------------------------------------------------------

    def _begin(self) -> None:
        """Begins a step: registers hooks if statistics are due in it."""
        self._start = time.perf_counter()
        self._scale: torch.Tensor | None = None
        self._isBegun = self._hasBatch = False
        self._isDue = self._requests.begin(self._done + 1)
        self._ofStep.remove()
        self._modules.disarm()
        if self._isDue:
            self._modules.arm()
            self._find_parameters()

    def _find_parameters(self) -> None:
        """Finds the trained parameters, and registers hooks for their gradients."""
        self._ofStep.remove()
        self._parameters = dict(list_parameters(self._model))
        if self._requests.needs(GRADIENTS):
            for name, parameter in self._parameters.items():
                hook = Hook(lambda one, name=name: self._see_gradient(name, one))
                self._ofStep.add(parameter.register_post_accumulate_grad_hook(hook))

    def _record(self, kind: str, layer: str, value: torch.Tensor) -> None:
        """Records a value, if statistics of it are due."""
        if not self._isDue:
            return
        statistics = self._requests.find(kind, layer)
        if not statistics:
            return
        scale = self._find_scale() if kind in _UNSCALED else None
        self._programs.record(kind, layer, statistics, value, scale=scale)

    def _find_scale(self) -> torch.Tensor | None:
        """Returns the loss scale of this step. It may change between the end of a step and
        the next batch."""
        if self._scale is None and self._scaler is not None:
            scale = self._scaler.get_scale()
            self._scale = torch.tensor(scale, dtype=torch.float32, device="cpu")
        return self._scale

    def _see_batch(self, module: torch.nn.Module, arguments: Any) -> None:
        """Called before the forward pass of each batch."""
        if not self._isDue or self._hasBatch or not self._passes.is_training():
            return
        self._hasBatch = True
        # Since the last step others may be trained, or loaded as other tensors.
        self._find_parameters()
        if self._optimizer is None:
            self._record_before()

    def _see_output(self, module: torch.nn.Module, arguments: Any, output: Any) -> None:
        if self._passes.is_training():
            loss = self._losses.find(output)
            if loss is not None:
                self._record("loss", "loss", loss)

    def _see_gradient(self, name: str, parameter: torch.Tensor) -> None:
        if parameter.grad is not None:
            for kind in GRADIENTS:
                self._record(kind, name, parameter.grad)

    def _see_update(self, *arguments: Any) -> None:
        """Called before an update."""
        assert self._optimizer is not None
        if not is_nested(self._optimizer):
            check_caller(self._scaler)
            self._record_before_update()

    def _record_before_update(self) -> None:
        """Records the values before an update. They replace those before one that did not
        take place, because its closure raised an exception."""
        self._isBegun = False
        self._record_before()

    def _record_before(self) -> None:
        """Records, once, the values of this step before its update."""
        if not self._isDue or self._isBegun:
            return
        self._isBegun = True
        scale = self._find_scale()
        if scale is not None:
            self._record("scale", "scale", scale)
        self._values.record_before(self._parameters)

    def _finish_update(self, *arguments: Any) -> None:
        """Called after an update."""
        assert self._optimizer is not None
        if is_nested(self._optimizer):
            return
        # A gradient scaler leaves it to some optimizers to skip.
        isSkipped = bool(getattr(self._optimizer, "found_inf", None) or False)
        if isinstance(self._optimizer, Optimizer):
            isSkipped = isSkipped or self._optimizer.skipped
        self._end(isSkipped)

    def _skip(self) -> None:
        """Called if a gradient scaler has not called the optimizer."""
        self._record_before_update()
        self._end(isSkipped=True)

    def _end(self, isSkipped: bool) -> None:
        """Ends a step, and evaluates the rules."""
        self._done += 1
        loss = self._losses.end()
        try:
            if self._isDue:
                self._values.record_after(self._parameters, isSkipped)
                self._requests.end()
            scale = self._find_scale()
            found = self._recorder.finish(
                self._done, loss, self._find_norm(),
                scale.item() if scale is not None else None, self._find_rate(), isSkipped,
                (time.perf_counter() - self._start) * 1e3,
            )  # fmt: skip
        finally:
            # Also after an error, such as a full disk.
            self._values.forget()
            self._recorder.discard()
            self._begin()
        alarms = as_alarms(found)
        self.alarms += alarms
        report(alarms, self._action)

    def _find_norm(self) -> float | None:
        """Returns the norm of all gradients, if their norms are due."""
        if not self._isDue:
            return None
        norm, count = self._recorder.compute_norm("gradient")
        given = sum(
            one.grad is not None and one.numel() > 0
            for one in self._parameters.values()
        )
        return norm if count and count >= given else None

    def _find_rate(self) -> float | None:
        """Returns the learning rate of the first group."""
        groups = self._optimizer.param_groups if self._optimizer is not None else []
        return float(groups[0]["lr"]) if groups and "lr" in groups[0] else None
