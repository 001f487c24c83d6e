"""``train``: a run of several processes, with checkpoints, files and restarts."""

from __future__ import annotations

import logging
import math
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from binade import _core
from binade.errors import AlarmError, PeerError, UsageError
from binade.metrics import Metrics
from binade.torch.distributed.checkpoints import (
    isComplete,
    load_checkpoint,
    save_checkpoint,
)
from binade.torch.distributed.run_file import describe_run, write_run_file
from binade.torch.distributed.step import DistributedStep
from binade.torch.distributed.stopping import SignalWatch

_LOG = logging.getLogger("binade")
CHECKPOINTS = "checkpoints"  # The folder in the directory of a run.
_LINES = ("metrics.jsonl", "stats.jsonl", "alarms.jsonl")
_NAME = re.compile(r"step-(\d{6,})")


def train(
    step: DistributedStep,
    batches: Callable[[int], Mapping[str, object]],
    directory: str | Path,
    *,
    steps: int,
    save_every: int = 0,
    keep: int = 2,
    grace: float = 25.0,
) -> list[Metrics]:
    """Trains up to a number of steps, and continues what is in the directory.

    All ranks call this. If the directory has checkpoints, the run continues from the newest
    complete one, so that the same command starts a run and restarts it after a failure,
    with any number of ranks. Rank 0 writes ``run.json``, ``metrics.jsonl``,
    ``stats.jsonl``, ``alarms.jsonl`` and the events of TensorBoard, as ``binade train``
    does, and ``final.safetensors`` at the end.

    After SIGTERM or SIGINT to a rank, all ranks finish the step, save a checkpoint, and raise
    ``SystemExit`` with exit code 143 or 130.

    Args:
      step: The step.
      batches: Returns a batch of the run by its number (``DistributedStep.take``).
      directory: The directory of the run; that of a file system that all ranks share.
      steps: The number of steps at the end.
      save_every: After how many steps a checkpoint is written; 0 for only one at the end.
      keep: How many checkpoints are kept.
      grace: After how many seconds a signal ends the process, finished or not.

    Returns:
      The metrics of the steps of this call.

    Raises:
      PeerError: If another process fails.
      AlarmError: If a rule raised an alarm and the action is ``stop``, on all ranks and
        after a checkpoint.
      RejectedError: If the directory has a run of another computation.
      BinadeError: If another run uses the directory (exit code 8).
    """
    if steps < 1 or save_every < 0 or keep < 1:
        raise UsageError(
            f"train: steps={steps}, save_every={save_every}, keep={keep}: expected at "
            "least 1, 0 and 1"
        )
    run = None
    with SignalWatch(grace) as watch:
        try:
            run = _Run(step, Path(directory), keep)
            run.open(batches, steps)
            return run.train(batches, steps, save_every, watch)
        except PeerError:
            if watch.received:  # The others got the signal, too.
                raise SystemExit(128 + watch.received) from None
            raise
        finally:
            if run is not None:
                run.close()


class _Run:
    """A run in its directory."""

    def __init__(self, step: DistributedStep, directory: Path, keep: int) -> None:
        self._step, self._directory, self._keep = step, directory, keep
        self._ranks = step._ranks
        self._recorder: Any = None  # Of rank 0.
        found = self._ranks.call_on_rank_zero(self._find)
        if found is not None:
            load_checkpoint(step, found)
        self._saved = step.calls if found is not None else -1

    def open(self, batches: Callable[[int], Any], steps: int) -> None:
        """Opens the files of the run, on rank 0."""
        self._ranks.call_on_rank_zero(lambda: self._open(batches, steps))
        if self._saved >= 0 and self._ranks.is_rank_zero:
            _LOG.info("%s: resumed after step %d", self._directory, self._saved)

    def train(
        self,
        batches: Callable[[int], Mapping[str, object]],
        steps: int,
        save_every: int,
        watch: SignalWatch,
    ) -> list[Metrics]:
        step = self._step
        seen: list[Metrics] = []
        while step.calls < steps:
            step._request = watch.received
            begin = time.perf_counter()
            alarm = None
            try:
                step(step.take(batches))
            except AlarmError as error:  # On all ranks.
                alarm = error
            assert step._latest is not None
            seen.append(step._latest)
            self._record(seen[-1], 1e3 * (time.perf_counter() - begin))
            isDue = save_every > 0 and step.calls % save_every == 0
            if isDue or alarm or step._agreed:
                self._save()
            if alarm:
                raise alarm
            if step._agreed:
                self._finish()
                raise SystemExit(128 + step._agreed)
        self._finish()
        return seen

    def close(self) -> None:
        """Completes the files."""
        if self._recorder is not None:
            self._recorder.close()

    def _find(self) -> Path | None:
        """Removes what an interrupted save left, and returns the newest checkpoint."""
        folder = self._directory / CHECKPOINTS
        for rest in folder.glob("*.tmp"):
            shutil.rmtree(rest)
        known = list_checkpoints(self._directory)
        return known[max(known)] if known else None

    def _open(self, batches: Callable[[int], Any], steps: int) -> None:
        """Opens the files of the run, of which the lines after the checkpoint are removed."""
        folder = self._directory
        about = describe_run(folder, self._step, batches, steps)
        wasStarted = len(about["invocations"]) > 1
        if self._saved < 0 and wasStarted:  # Ended before its first checkpoint.
            for name in _LINES:
                (folder / name).unlink(missing_ok=True)
        self._recorder = _core.open_recorder(
            str(folder), self._step.calls, self._step._watch.settings
        )
        write_run_file(folder, about)
        (folder / CHECKPOINTS).mkdir(exist_ok=True)

    def _record(self, metrics: Metrics, milliseconds: float) -> None:
        if self._recorder is None:
            return
        values: dict[tuple[str, str], dict[str, object]] = {}
        found = self._step.ports("statistic")
        for name in self._step.statistics:
            kind, _, rest = name.partition("/")
            layer, _, statistic = rest.rpartition("/")
            value = np.asarray(found[name])
            values.setdefault((kind, layer), {})[statistic] = (
                float(value) if value.ndim == 0 else value.tolist()
            )
        for (kind, layer), own in values.items():
            self._recorder.record(kind, layer, own)
        self._recorder.finish(
            step=self._step.calls,
            loss=metrics.loss,
            grad_norm=None if math.isnan(metrics.grad_norm) else metrics.grad_norm,
            loss_scale=metrics.scale if self._step.ports("scaler") else None,
            lr=self._step.settings.get("lr"),
            skipped=metrics.skipped,
            milliseconds=milliseconds,
        )

    def _save(self) -> None:
        """Writes a checkpoint under a temporary name, and renames it when it is complete."""
        step = self._step
        if step.calls == self._saved:
            return
        final = self._directory / CHECKPOINTS / f"step-{step.calls:06d}"
        temporary = final.with_suffix(".tmp")
        save_checkpoint(step, temporary)
        self._ranks.call_on_rank_zero(lambda: self._publish(temporary, final))
        self._saved = step.calls

    def _publish(self, temporary: Path, final: Path) -> None:
        if final.exists():  # Of a run with other files, or damaged.
            shutil.rmtree(final)
        temporary.rename(final)
        folder = os.open(final.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
        known = list_checkpoints(self._directory)
        for number in sorted(known)[: -self._keep]:
            shutil.rmtree(known[number])

    def _finish(self) -> None:
        self._save()
        self._step.save(self._directory / "final.safetensors")


def list_checkpoints(directory: str | os.PathLike[str]) -> dict[int, Path]:
    """Returns the complete checkpoints of a run by step."""
    found = {}
    for path in (Path(directory) / CHECKPOINTS).glob("step-*"):
        if (name := _NAME.fullmatch(path.name)) and isComplete(path):
            found[int(name[1])] = path
    return found
