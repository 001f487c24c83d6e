"""``TrainStep``: a compiled training step and its tensors, called with batches."""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from binade import _core
from binade.alarms import Alarm, Watch
from binade.batches import as_batches, fill
from binade.errors import AlarmError, UsageError
from binade.metrics import Metrics, read_statistic
from binade.options import Schedules
from binade.ports import Ports, Settings

_LOG = logging.getLogger("binade")


class TrainStep:
    """A compiled training step and the tensors that it reads and writes.

    Attributes:
      parameters: The trained parameters.
      buffers: Other tensors of the model, such as running statistics.
      states: Optimizer states, named ``<state>/<parameter>``.
      batch: The inputs of the model.
      outputs: The model's outputs, if compiled with ``keep_outputs``.
      gradients: The gradients, if compiled with ``keep_gradients``.
      settings: Hyper-parameters, which may be changed between steps; a schedule
        overwrites those that it controls before each call.
      alarms: The alarms that rules raised in all calls so far.
      statistics: The statistics of the last call that ``stats``, the policy and rules of
        alarms request, by ``kind/layer/statistic``; those with ``@every=N`` only in each
        N-th call.
    """

    def __init__(
        self,
        program: _core.Program,
        compiled: _core.Compiled | None = None,
        words: Sequence[str] = (),
        on_alarm: str = "",
        schedules: Schedules | None = None,
        seed: int = 0,
    ) -> None:
        self._compiled = compiled
        self._watch = Watch(program, words, on_alarm)
        self._seed = seed
        self._chosen = schedules or Schedules()
        self.statistics: dict[str, float | dict[int, int]] = {}
        self.alarms: list[Alarm] = []
        self._latest: Metrics | None = None  # Of the last call, also if it raised.
        self._kept: list[object] = []
        self._set_program(program)

    def _set_program(self, program: _core.Program) -> None:
        """Makes the step execute a program."""
        self._program = program
        chosen = self._chosen
        self._schedules = _core.choose_schedules(
            program, chosen.texts, chosen.warmup, chosen.steps
        )
        self._periods = program.periods()
        self.parameters = Ports(program, "parameter")
        self.buffers = Ports(program, "buffer")
        self.states = Ports(program, "state")
        self.batch = Ports(program, "batch")
        self.outputs = Ports(program, "output")
        self.gradients = Ports(program, "gradient")
        self.settings = Settings(program)

    def ports(self, role: str) -> Ports:
        """Returns the tensors of a role of docs/Runtime.md: ``metric``, ``rng``, ..."""
        return Ports(self._program, role)

    def keep(self, owner: object) -> None:
        """Keeps a reference to ``owner`` as long as the step exists."""
        self._kept.append(owner)

    @property
    def device(self) -> str:
        """``cpu``, or ``cuda:0 (NVIDIA H200)``."""
        return self._program.device()

    @property
    def calls(self) -> int:
        """The number of calls, including skipped steps. Schedules, ``@every`` and alarms
        use it as the step number. ``restore`` does not change it: set it to continue a
        run."""
        return self._watch.step

    @calls.setter
    def calls(self, count: int) -> None:
        if not isinstance(count, (int, np.integer)) or count < 0:
            raise UsageError(f"calls is a whole number from 0 on, got {count!r}")
        self._watch.step = int(count)

    @property
    def updates(self) -> int:
        """The number of updates that were applied; skipped steps do not count."""
        return int(self._program.scalar("step", "step") or 0)

    @updates.setter
    def updates(self, count: int) -> None:
        self.ports("step").set("step", np.int64(count))

    def run(self) -> None:
        """Executes the step on the data in its ports, without schedules and alarms.

        Raises:
          UsageError: If a step takes several batches: call the step with them.
        """
        if self._program.batches() > 1:
            raise UsageError(
                f"a step takes {self._program.batches()} batches, and run() has the one "
                "in the step's memory: call the step with a list of batches"
            )
        self._program.run()

    def __call__(
        self, batch: Mapping[str, object] | Sequence[Mapping[str, object]]
    ) -> Metrics:
        """Computes the gradients of a batch and updates the parameters.

        Args:
          batch: Values of the model's inputs by name, as any array that supports DLPack
            or numpy's protocol, with the shapes of ``batch``. A step compiled with
            ``accumulate=N`` takes a sequence of N such dictionaries.

        Raises:
          UsageError: If an input is missing or unknown, or has another type or shape.
          RejectedError: If an index or label is out of range.
          DeviceError: If a device failed.
          AlarmError: If a rule raised an alarm and the action is ``stop``. The update
            has been applied.
        """
        batches = as_batches(batch, self._count_batches(), self.batch)
        self._schedules.apply(self.calls)
        losses = []
        for one in batches[:-1]:
            fill(self.batch, one)
            losses.append(self._program.accumulate())
        fill(self.batch, batches[-1])
        scale = self._program.scalar("scaler", "scale")
        self._program.run()
        loss = self._average([*losses, self._metric("loss")])
        self._latest = Metrics(
            loss=loss,
            grad_norm=self._metric("grad_norm"),
            skipped=bool(self._program.scalar("metric", "found_inf")),
            scale=1.0 if scale is None else scale,
        )
        self._look(scale, loss)
        return self._latest

    def _count_batches(self) -> int:
        """Returns the number of batches that a call takes."""
        return self._program.batches()

    def _average(self, losses: Sequence[float]) -> float:
        """Returns the loss of the step from those of its batches."""
        return sum(losses) / len(losses)

    def train(
        self,
        batches: Iterable[Mapping[str, object] | Sequence[Mapping[str, object]]],
        *,
        progress: bool | None = None,
    ) -> list[Metrics]:
        """Runs one step per element of ``batches``; a progress bar shows the loss.

        Args:
          batches: The arguments of the steps, in order.
          progress: Whether to show the bar; by default if stderr is a terminal.

        Returns:
          The metrics of each step.

        Raises:
          The errors of a call. The updates of the steps before are kept.
        """
        hidden = None if progress is None else not progress
        seen = []
        with tqdm(batches, desc="training", unit=" steps", disable=hidden) as bar:
            for batch in bar:
                seen.append(self(batch))
                bar.set_postfix_str(f"loss {seen[-1].loss:.4g}", refresh=False)
                if not math.isfinite(seen[-1].loss):
                    _LOG.warning("step %d: the loss is %s", len(seen), seen[-1].loss)
                if seen[-1].skipped:
                    _LOG.info(
                        "step %d was skipped: a gradient is not finite", len(seen)
                    )
        return seen

    def evaluate(self, batch: Mapping[str, object]) -> float:
        """Returns the loss of a batch in evaluation mode: without dropout, with running
        statistics. Nothing is updated.

        Raises:
          UsageError: If the step has no loss, or the batch is wrong as for a call.
        """
        self._prepare_evaluation(batch)
        return self._program.evaluate()

    def evaluate_metrics(self, batch: Mapping[str, object]) -> dict[str, float]:
        """Returns the loss of a batch in evaluation mode as ``loss``, and the metrics that
        the option ``metric`` requested by name, such as ``accuracy``.

        Raises:
          UsageError: As for `evaluate`.
        """
        self._prepare_evaluation(batch)
        return self._program.evaluate_metrics()

    def _prepare_evaluation(self, batch: Mapping[str, object]) -> None:
        if not self._program.has_evaluation():
            raise UsageError("the step has no loss to evaluate")
        fill(self.batch, batch)

    def save(self, path: str | os.PathLike) -> None:
        """Writes parameters, buffers, states and counters to a safetensors file."""
        self._program.save(os.fspath(path))

    def restore(self, path: str | os.PathLike) -> list[str]:
        """Reads a file that ``save`` wrote, or a file with weights only, by name.

        Returns:
          Parameters and buffers that the file lacks; they keep their values.

        Raises:
          RejectedError: If type or shape of a tensor differ, or no name fits.
        """
        _, missing, _ = self._program.restore(os.fspath(path))
        return missing

    def write(self, path: str | os.PathLike) -> None:
        """Writes the compiled step with its initial weights as a bundle for ``load`` and
        ``binade-run``.

        Raises:
          UsageError: If it came from a bundle.
        """
        self._needs_compiler("write").write(os.fspath(path))

    def explain(self) -> dict[str, Any]:
        """Returns why each op, gradient, parameter and state has its format: the output
        of ``binade explain --format json``.

        Raises:
          UsageError: If the step came from a bundle.
        """
        return json.loads(self._needs_compiler("explain").explain())

    def plan(self) -> dict[str, Any]:
        """Returns memory, launches and library calls of the step: the output of ``binade
        inspect --json``."""
        return json.loads(self._program.plan())

    def _needs_compiler(self, what: str) -> _core.Compiled:
        if self._compiled is None:
            raise UsageError(f"cannot {what} a step that was loaded from a bundle")
        return self._compiled

    def _look(self, scale: float | None, loss: float) -> None:
        """Records the alarms and the statistics of the step that just finished."""
        try:
            self.alarms += self._watch.observe(scale, loss)
        except AlarmError as error:
            self.alarms += error.alarms
            raise
        finally:
            found = self.ports("statistic")
            self.statistics = {
                name: read_statistic(found[name])
                for name, every in self._periods.items()
                if self.calls % every == 0
            }

    def _metric(self, name: str) -> float:
        value = self._program.scalar("metric", name)
        return float("nan") if value is None else value

    def __repr__(self) -> str:
        count = sum(array.size for array in self.parameters.values())
        return f"TrainStep({count} parameters on {self.device})"
