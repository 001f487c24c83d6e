"""Statistics and early warning for ordinary PyTorch training loops (docs/Monitoring.md)."""

from __future__ import annotations

import os
from collections.abc import Sequence

import torch

from binade.torch.monitoring.loop import Monitor

__all__ = ["Monitor", "monitor"]


def monitor(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer | None = None,
    *,
    statistics: str | Sequence[str] = (),
    every: int = 1,
    alarms: str | Sequence[str] = (),
    on_alarm: str = "warn",
    out: str | os.PathLike | None = None,
    scaler: torch.amp.GradScaler | None = None,
    step: int = 0,
    threads: int = 1,
) -> Monitor:
    """Records statistics of the values of a training loop, and raises alarms.

    Statistics, alarms and files are those of ``binade train`` (docs/Monitoring.md). Layers
    are the names of parameters and the paths of modules. A step ends with
    ``optimizer.step()``; several calls of ``backward()`` before it belong to one step.
    Forward passes without gradients are ignored, and so are those with the model in
    evaluation mode, unless it was never in training mode before.

    Args:
      model: The model, on the CPU. Of a module that ``torch.compile`` compiles, values
        inside are not visible; its output, parameters and their gradients are.
      optimizer: The optimizer of the loop. Without one there are no states and no
        statistics of updates, and ``Monitor.step`` ends a step. In a loop with several,
        each has a monitor of its own.
      statistics: Requests, such as ``"gradient:norm,zeros"`` or
        ``"output/*attn*:underflow(f16)@every=100"``.
      every: The interval in steps of requests without ``@every``.
      alarms: Rules in addition to those that are on by default: ``"all"``, names of
        ``binade list alarms``, files of rules; or ``"off"``.
      on_alarm: ``"warn"``, or ``"stop"``: an alarm raises AlarmError after the step.
      out: The directory for ``metrics.jsonl``, ``stats.jsonl``, ``alarms.jsonl`` and the
        events of TensorBoard; None to write no files.
      scaler: The gradient scaler of the loop.
      step: The number of completed steps, to continue in a directory: what it has of later
        steps is removed.
      threads: The number of threads that compute statistics. More than one compete with
        PyTorch's for the cores; only large tensors on many cores gain from them. 0 means
        one per core.

    Raises:
      UsageError: If an argument is wrong, a request is about what a loop lacks, or a
        parameter that a request is about is not on the CPU or a DTensor.
      RejectedError: If a file of rules is invalid.
    """
    return Monitor(
        model, optimizer, statistics=statistics, every=every, alarms=alarms,
        on_alarm=on_alarm, out=out, scaler=scaler, step=step, threads=threads,
    )  # fmt: skip
