"""Compiles training steps from models, and loads them from bundles."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from binade import _core
from binade.alarms import as_words, check_action
from binade.compiled_step import TrainStep
from binade.metrics import Metrics
from binade.models import read_model
from binade.options import as_schedules, as_texts, check_seed, make_options, set_dims

__all__ = ["Metrics", "TrainStep", "compile", "load"]

_LOG = logging.getLogger("binade")


def compile(  # noqa: A001 (what it does)
    model: str | os.PathLike | bytes | Any,
    *,
    loss: str | None = None,
    optimizer: str = "adamw",
    policy: str | os.PathLike | Mapping[str, Any] = "fp32",
    target: str | None = None,
    settings: Mapping[str, float | str] | None = None,
    groups: Mapping[str, Mapping[str, float]] | None = None,
    states: str | Sequence[str] = (),
    dims: Mapping[str, int] | None = None,
    alarms: str | Sequence[str] = (),
    on_alarm: str = "",
    stats: str | Sequence[str] = (),
    schedule: str | Mapping[str, str] | None = None,
    warmup: int | str = 0,
    steps: int | None = None,
    device: str = "auto",
    seed: int = 0,
    threads: int = 0,
    directory: str | os.PathLike | None = None,
    **options: Any,
) -> TrainStep:
    """Compiles one training step: forward, backward, loss scaling and update.

    Args:
      model: A path to an ONNX file, or an ``onnx.ModelProto``, or its bytes.
      loss: The loss to append to the graph: ``"cross_entropy(logits, labels)"`` or
        ``"mse(y, target)"``. By default the output ``loss`` is the loss.
      optimizer: A name of ``binade list optimizers``, or a ``.mlir`` file.
      policy: A name of ``binade list policies``, a ``.yaml`` file, or the contents of
        such a file as a dictionary.
      target: The target, such as ``"cuda:sm_90"``; by default the CPU.
      settings: Hyper-parameters: ``{"lr": 3e-4, "weight_decay": 0.1}``.
      groups: Hyper-parameters of the parameters whose names match a glob.
      states: Formats of the optimizer's states, which override the policy:
        ``"dyn8"``, or ``["*.weight:e4m3"]``.
      dims: Values of symbolic dimensions.
      alarms: Rules that are evaluated after each call, in addition to those on metrics
        alone: ``"all"``, names of ``binade list alarms``, files of rules; or ``"off"``.
        By default the policy's. Alarms are logged and added to ``TrainStep.alarms``.
      on_alarm: ``"warn"``, or ``"stop"``: an alarm raises AlarmError after the step.
      stats: Statistics of the step's values, such as ``"gradient:norm,zeros@every=10"``
        (docs/Monitoring.md); after each call they are in ``TrainStep.statistics``.
      schedule: The schedule of the learning rate: a name of ``binade list schedules`` with
        parameters, such as ``"cosine:min_lr=1e-5"``. Or schedules of hyper-parameters,
        each a name or an expression that is evaluated before each call, such as
        ``{"lr": "base * cosine(step, steps)"}`` (docs/Training.md), or ``"@FILE"``.
      warmup: The number of calls over which the learning rate rises linearly from 0, or a
        percentage of `steps` such as ``"5%"``.
      steps: The total number of calls, on which most schedules depend.
      device: The device to run on: ``"auto"``, ``"cpu"`` or ``"cuda:0"``.
      seed: The seed of dropout, and of weights for which the model has rules.
      threads: The number of CPU threads; 0 for one per core.
      directory: The directory of the external weights of a model that is not a path.
      options: Options of ``binade compile``: ``clip``, ``decay``, ``accumulate``,
        ``activation_memory``, ``recompute_matmuls``, ``freeze``, ``fold``, ``train``, ``ranges``,
        ``loss_output``, ``strict``, ``save_kernels``,
        ``keep_gradients``, ``keep_outputs``, ``on_nonfinite``, ``stable_embedding``,
        ``accumulate_in_momentum``, ``release_gradients``, ``allow_links``,
        ``fail_on_nonfinite``, ``exchange`` for the processes of a group, and ``metric`` for `TrainStep.evaluate_metrics`.

    Raises:
      UsageError: If an argument is wrong.
      RejectedError: If the model cannot be compiled with these options; the error has
        the compiler's diagnostic.
      DeviceError: If the device does not exist.
    """
    file, path, is_in_memory = read_model(model, directory)
    given = dict(options, optimizer=optimizer, target=target or "", loss=loss or "")
    given |= {"settings": settings, "groups": groups, "states": states}
    check_action(on_alarm)
    check_seed(seed)
    given |= {"alarms": as_words(alarms), "on_alarm": on_alarm}
    given |= {"stats": as_texts(stats, "stats")}
    schedules = as_schedules(schedule, warmup, steps)
    with make_options(policy, threads, given) as (import_options, compile_options):
        set_dims(import_options, dims)
        begin = time.perf_counter()
        compiled = _core.compile_model(
            file, path, is_in_memory, import_options, compile_options
        )
        _LOG.info("%s: compiled in %.2f s", path, time.perf_counter() - begin)
    program = compiled.load(device, threads, seed, {})
    return TrainStep(program, compiled, schedules=schedules, seed=seed)


def load(
    path: str | os.PathLike,
    *,
    settings: Mapping[str, float] | None = None,
    alarms: str | Sequence[str] = (),
    on_alarm: str = "",
    schedule: str | Mapping[str, str] | None = None,
    warmup: int | str = 0,
    steps: int | None = None,
    device: str = "auto",
    seed: int = 0,
    threads: int = 0,
    fail_on_nonfinite: bool = False,
) -> TrainStep:
    """Loads a bundle that ``binade compile`` or ``TrainStep.write`` wrote.

    Args:
      path: The bundle.
      settings: Hyper-parameters instead of the bundle's.
      alarms: Selects from the bundle's alarm rules: those on metrics alone, and these:
        ``"all"``, or names; or ``"off"``. By default all rules of the bundle.
      on_alarm: As for ``compile``; by default the bundle's.
      schedule: As for ``compile``.
      warmup: As for ``compile``.
      steps: As for ``compile``.
      device: As for ``compile``; the bundle must be compiled for it.
      seed: As for ``compile``.
      threads: As for ``compile``.
      fail_on_nonfinite: Whether to refuse weights, of the bundle and of what
        ``restore`` reads, that hold a NaN or an infinity.
    """
    check_action(on_alarm)
    check_seed(seed)
    schedules = as_schedules(schedule, warmup, steps)
    program = _core.load_program(
        os.fspath(path),
        device,
        threads,
        seed,
        dict(settings or {}),
        fail_on_nonfinite,
    )
    return TrainStep(program, None, as_words(alarms), on_alarm, schedules, seed)
