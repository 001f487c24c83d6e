"""One compiled training step, called from Python."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import pathlib
import time
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tqdm import tqdm

from binade import _core, arrays, policies, updates
from binade.alarms import Alarm, Watch, as_words, check_action
from binade.conversion import serialize_model
from binade.errors import AlarmError, UsageError, reading
from binade.options import as_mapping, as_texts, has_option, set_dims, set_option

_LOG = logging.getLogger("binade")
# Of the first count of a statistic ``exponents``.
_FIRST_EXPONENT = -127


@dataclass(frozen=True)
class Metrics:
    """What a step says of itself.

    Attributes:
      loss: Of the batch; the mean of all batches of the step. NaN where the graph
        has none.
      grad_norm: The global norm of the gradients, unscaled, before clipping; NaN
        where the step does not need it.
      skipped: Whether no parameter was updated, because a gradient was not finite.
      scale: The loss scale of the step; 1 where there is none.
    """

    loss: float
    grad_norm: float
    skipped: bool
    scale: float


class Ports(Mapping[str, np.ndarray]):
    """Tensors of a step of one role, by name.

    Each is an array over the step's own memory: writing to it changes the step, and
    the next step changes what it holds.
    """

    def __init__(self, program: _core.Program, role: str) -> None:
        self._program = program
        self._role = role
        self._kinds = {
            name: (dtype, shape)
            for port_role, name, dtype, shape in program.ports()
            if port_role == role
        }

    def __getitem__(self, name: str) -> np.ndarray:
        dtype, shape = self._kinds[name]
        memory = self._program.tensor(self._role, name)
        return arrays.from_bytes(memory, dtype, shape)

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)

    def set(self, name: str, values: object) -> None:
        """Writes all elements of a tensor: an array, or what speaks DLPack.

        Raises:
          UsageError: If there is no such tensor, or type or shape differ.
          RejectedError: If an index is out of range.
        """
        if name not in self._kinds:
            raise UsageError(
                f"there is no {self._role} '{name}'; there are {', '.join(self) or '-'}"
            )
        dtype, shape = self._kinds[name]
        place = f"{self._role} '{name}'"
        self._program.set(
            self._role, name, arrays.as_bytes(values, dtype, shape, place)
        )

    def __repr__(self) -> str:
        return f"Ports({self._role}: {', '.join(self)})"


class Settings(MutableMapping[str, float]):
    """The hyper-parameters of a step, by name; a group's end in ``@`` and its number."""

    def __init__(self, program: _core.Program) -> None:
        self._ports = Ports(program, "hyper")

    def __getitem__(self, name: str) -> float:
        return float(self._ports[name])

    def __setitem__(self, name: str, value: float) -> None:
        try:
            number = float(value)
        except (TypeError, ValueError) as error:
            raise UsageError(f"setting '{name}' is a number, got {value!r}") from error
        self._ports.set(name, np.float64(number))

    def __delitem__(self, name: str) -> None:
        raise UsageError("a step keeps all of its settings")

    def __iter__(self) -> Iterator[str]:
        return iter(self._ports)

    def __len__(self) -> int:
        return len(self._ports)

    def __repr__(self) -> str:
        return f"Settings({', '.join(f'{k}={v:g}' for k, v in self.items())})"


class TrainStep:
    """A compiled training step with its memory: parameters, states, batch.

    Attributes:
      parameters: What is trained.
      buffers: What else the model keeps, such as running statistics.
      states: Of the optimizer, named ``<state>/<parameter>``.
      batch: The inputs of the model.
      outputs: The model's outputs, where it was compiled to keep them.
      gradients: Where it was compiled to keep them.
      settings: Hyper-parameters, which may be changed between steps; those that have a
        schedule are set by it before each call.
      alarms: What rules of alarms found in the calls of the step so far.
      statistics: What ``stats``, the policy and rules of alarms asked for, by
        ``kind/layer/statistic``, of the last call; those that are due in it.
    """

    def __init__(
        self,
        program: _core.Program,
        compiled: _core.Compiled | None = None,
        words: Sequence[str] = (),
        on_alarm: str = "",
        schedules: Sequence[str] = (),
        steps: int = 0,
    ) -> None:
        self._program = program
        self._compiled = compiled
        self._watch = Watch(program, words, on_alarm)
        self._schedules = _core.choose_schedules(program, list(schedules), steps)
        self._periods = program.periods()
        self.statistics: dict[str, float | dict[int, int]] = {}
        self.alarms: list[Alarm] = []
        self._kept: list[object] = []
        self.parameters = Ports(program, "parameter")
        self.buffers = Ports(program, "buffer")
        self.states = Ports(program, "state")
        self.batch = Ports(program, "batch")
        self.outputs = Ports(program, "output")
        self.gradients = Ports(program, "gradient")
        self.settings = Settings(program)

    def ports(self, role: str) -> Ports:
        """Tensors of any role of docs/Runtime.md: ``metric``, ``rng``, ``step``, ..."""
        return Ports(self._program, role)

    def keep(self, owner: object) -> None:
        """Lets ``owner`` live as long as the step."""
        self._kept.append(owner)

    @property
    def device(self) -> str:
        """``cpu``, or ``cuda:0 (NVIDIA H200)``."""
        return self._program.device()

    @property
    def calls(self) -> int:
        """How many steps were made, skipped ones too. Schedules, ``@every`` and alarms
        count by it; ``restore`` leaves it, so set it where a run goes on."""
        return self._watch.step

    @calls.setter
    def calls(self, count: int) -> None:
        if not isinstance(count, (int, np.integer)) or count < 0:
            raise UsageError(f"calls is a whole number from 0 on, got {count!r}")
        self._watch.step = int(count)

    @property
    def updates(self) -> int:
        """How many updates were applied; skipped steps do not count."""
        return int(self._program.scalar("step", "step") or 0)

    @updates.setter
    def updates(self, count: int) -> None:
        self.ports("step").set("step", np.int64(count))

    def run(self) -> None:
        """Executes the step with what its ports hold; schedules and alarms take no
        notice.

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
        """Computes gradients of the batch and updates the parameters by them.

        Args:
          batch: Values of the model's inputs by name, as anything that speaks DLPack
            or numpy; for a step of several batches a sequence of as many.

        Raises:
          UsageError: If an input is missing or unknown, or has another type or shape.
          RejectedError: If an index or label is out of range.
          DeviceError: If a device failed.
          AlarmError: If there are alarms, and they stop training. The step is done.
        """
        batches = list(batch) if isinstance(batch, Sequence) else [batch]
        for one in batches:
            if not isinstance(one, Mapping):
                raise UsageError(
                    "a batch is a dictionary of arrays by the names of the model's "
                    f"inputs ({', '.join(self.batch)}), got {type(one).__name__}"
                )
        expected = self._program.batches()
        if len(batches) != expected:
            raise UsageError(
                f"a step takes {expected} batch{'es' if expected > 1 else ''}, "
                f"got {len(batches)}"
            )
        self._schedules.apply(self.calls)
        losses = []
        for one in batches[:-1]:
            self._fill(one)
            losses.append(self._program.accumulate())
        self._fill(batches[-1])
        scale = self._program.scalar("scaler", "scale")
        self._program.run()
        loss = sum((*losses, self._metric("loss"))) / len(batches)
        self._look(scale, loss)
        return Metrics(
            loss=loss,
            grad_norm=self._metric("grad_norm"),
            skipped=bool(self._program.scalar("metric", "found_inf")),
            scale=1.0 if scale is None else scale,
        )

    def train(
        self,
        batches: Iterable[Mapping[str, object] | Sequence[Mapping[str, object]]],
        *,
        progress: bool | None = None,
    ) -> list[Metrics]:
        """A step for each of ``batches``, with a bar that shows the loss.

        Args:
          batches: What a step takes, one after the other.
          progress: Whether there is a bar; without, where stderr is a terminal.

        Returns:
          What each step says of itself.

        Raises:
          As a step; what was trained before stays.
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
        """The loss of a batch as the model is evaluated: without dropout, with running
        statistics. Nothing is updated.

        Raises:
          UsageError: If the step has no loss, or as for a step.
        """
        if not self._program.has_evaluation():
            raise UsageError("the step has no loss to evaluate")
        self._fill(batch)
        return self._program.evaluate()

    def save(self, path: str | os.PathLike) -> None:
        """Writes parameters, buffers, states and counters to a safetensors file."""
        self._program.save(os.fspath(path))

    def restore(self, path: str | os.PathLike) -> list[str]:
        """Reads what ``save`` wrote, or weights alone, by name.

        Returns:
          Parameters and buffers that the file lacks; they keep their values.

        Raises:
          RejectedError: If type or shape of a tensor differ, or no name fits.
        """
        _, missing, _ = self._program.restore(os.fspath(path))
        return missing

    def write(self, path: str | os.PathLike) -> None:
        """Writes the compiled step with its initial weights as a bundle, which ``load``
        and ``binade-run`` take.

        Raises:
          UsageError: If it came from a bundle.
        """
        self._needs_compiler("write").write(os.fspath(path))

    def explain(self) -> dict[str, Any]:
        """Why each op, gradient, parameter and state has its format: what ``binade
        explain --format json`` prints.

        Raises:
          UsageError: If the step came from a bundle.
        """
        return json.loads(self._needs_compiler("explain").explain())

    def plan(self) -> dict[str, Any]:
        """Memory, launches and library calls of the step, as ``binade inspect --json``
        prints them."""
        return json.loads(self._program.plan())

    def _needs_compiler(self, what: str) -> _core.Compiled:
        if self._compiled is None:
            raise UsageError(f"cannot {what} a step that was loaded from a bundle")
        return self._compiled

    def _fill(self, batch: Mapping[str, object]) -> None:
        missing = [name for name in self.batch if name not in batch]
        if missing:
            raise UsageError(
                f"the batch lacks '{missing[0]}'; the model's inputs are "
                f"{', '.join(self.batch)}"
            )
        for name, values in batch.items():
            self.batch.set(name, values)

    def _look(self, scale: float | None, loss: float) -> None:
        """Takes in the alarms and the statistics of the step that is done."""
        try:
            self.alarms += self._watch.observe(scale, loss)
        except AlarmError as error:
            self.alarms += error.alarms
            raise
        finally:
            found = self.ports("statistic")
            self.statistics = {
                name: _read_statistic(found[name])
                for name, every in self._periods.items()
                if self.calls % every == 0
            }

    def _metric(self, name: str) -> float:
        value = self._program.scalar("metric", name)
        return float("nan") if value is None else value

    def __repr__(self) -> str:
        count = sum(array.size for array in self.parameters.values())
        return f"TrainStep({count} parameters on {self.device})"


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
    schedule: Mapping[str, str] | None = None,
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
      loss: What to append to the graph: ``"cross_entropy(logits, labels)"`` or
        ``"mse(y, target)"``. Without it the output ``loss`` is the loss.
      optimizer: A name of ``binade list optimizers``, or a ``.mlir`` file.
      policy: A name of ``binade list policies``, a ``.yaml`` file, or what such a
        file holds, as a dictionary.
      target: ``"cuda:sm_90"`` and the like; without it the CPU.
      settings: Hyper-parameters: ``{"lr": 3e-4, "weight_decay": 0.1}``.
      groups: Hyper-parameters of the parameters whose names match a glob.
      states: Formats of the optimizer's states, whatever the policy says:
        ``"dyn8"``, or ``["*.weight:e4m3"]``.
      dims: Values of symbolic dimensions.
      alarms: Rules that each call is held against beside those that go by metrics
        alone: ``"all"``, names of ``binade list alarms``, files of rules; or ``"off"``.
        Without it what the policy says. Alarms are logged, and in ``TrainStep.alarms``.
      on_alarm: ``"warn"``, or ``"stop"``: an alarm raises AlarmError after the step.
      stats: Statistics of the step's values, such as ``"gradient:norm,zeros@every=10"``
        (docs/Monitoring.md), which ``TrainStep.statistics`` has after each call.
      schedule: Expressions that set hyper-parameters before each call, such as
        ``{"lr": "base * cosine(step, steps)"}`` (docs/Training.md), or ``"@FILE"``.
      steps: How many calls there will be: ``steps`` of the expressions.
      device: Where it runs: ``"auto"``, ``"cpu"`` or ``"cuda:0"``.
      seed: Of weights that the model says how to draw, and of dropout.
      threads: Of the CPU; 0 for one per core.
      directory: Where a model that is no path has its external weights.
      options: As of ``binade compile``: ``clip``, ``accumulate``, ``budget``,
        ``freeze``, ``fold``, ``train``, ``ranges``, ``loss_output``, ``strict``,
        ``keep_gradients``, ``keep_outputs``, ``on_nonfinite``, ``stable_embedding``,
        ``accumulate_in_momentum``, ``allow_links``, ``fail_on_nonfinite``.

    Raises:
      UsageError: If an argument is wrong.
      RejectedError: If the model, or what is asked of it, cannot be compiled; the
        error has the compiler's diagnostic.
      DeviceError: If the device is not there.
    """
    file, path, is_in_memory = _read_model(model, directory)
    given = dict(options, optimizer=optimizer, target=target or "", loss=loss or "")
    given |= {"settings": settings, "groups": groups, "states": states}
    check_action(on_alarm)
    _check_seed(seed)
    given |= {"alarms": as_words(alarms), "on_alarm": on_alarm}
    given |= {"stats": as_texts(stats, "stats")}
    schedules = _read_schedules(schedule, steps)
    with _make_options(policy, threads, given) as (import_options, compile_options):
        set_dims(import_options, dims)
        begin = time.perf_counter()
        compiled = _core.compile_model(
            file, path, is_in_memory, import_options, compile_options
        )
        _LOG.info("%s: compiled in %.2f s", path, time.perf_counter() - begin)
    program = compiled.load(device, threads, seed, {})
    return TrainStep(program, compiled, schedules=schedules, steps=steps or 0)


# What a step that only updates has. It has no model, no batch and no loss.
_UPDATE_OPTIONS = ("clip", "groups", "on_nonfinite", "optimizer", "settings", "states")


def compile_update(
    tensors: Mapping[str, Sequence[int]],
    *,
    policy: str | os.PathLike | Mapping[str, Any] = "fp32",
    threads: int = 0,
    **options: Any,
) -> TrainStep:
    """Compiles a step that is nothing but an update of f32 parameters.

    Their gradients are its buffers ``gradient/NAME``; it has no batch to be given, and
    its parameters are 0 at first.

    Args:
      tensors: The parameters' shapes by name.
      policy: As for ``compile``.
      threads: As for ``compile``.
      options: As for ``compile``: ``optimizer``, ``settings``, ``groups``, ``states``,
        ``clip``, ``on_nonfinite``.

    Raises:
      UsageError: If an argument is wrong.
      RejectedError: If it cannot be compiled.
    """
    for name in options:
        if name not in _UPDATE_OPTIONS:
            raise UsageError(
                f"an update has no option '{name}'; it has policy, threads, "
                + ", ".join(_UPDATE_OPTIONS)
            )
    text = updates.write_update(tensors, updates.KEPT)
    with _make_options(policy, threads, options) as (_, compile_options):
        compiled = _core.compile_update(text, compile_options)
    step = TrainStep(compiled.load("cpu", threads, 0, {}), compiled)
    if step.ports("scaler") or "loss_scale" in step.ports("metric"):
        raise UsageError(
            "the policy scales the loss, and an update has none: its gradients would be "
            "divided by the scale; use a policy without 'loss_scale', and "
            "torch.amp.GradScaler around the optimizer"
        )
    return step


def load(
    path: str | os.PathLike,
    *,
    settings: Mapping[str, float] | None = None,
    alarms: str | Sequence[str] = (),
    on_alarm: str = "",
    schedule: Mapping[str, str] | None = None,
    steps: int | None = None,
    device: str = "auto",
    seed: int = 0,
    threads: int = 0,
    fail_on_nonfinite: bool = False,
) -> TrainStep:
    """Loads a bundle, which ``binade compile`` or ``TrainStep.write`` made.

    Args:
      path: The bundle.
      settings: Hyper-parameters instead of the bundle's.
      alarms: Of the bundle's alarms those that go by metrics alone, and these:
        ``"all"``, or names; or ``"off"``. Without it all that it was compiled with.
      on_alarm: As for ``compile``; without it what the bundle says.
      schedule: As for ``compile``.
      steps: As for ``compile``.
      device: Has to be what the bundle was compiled for.
      seed: As for ``compile``.
      threads: As for ``compile``.
      fail_on_nonfinite: Whether to refuse weights, of the bundle and of what
        ``restore`` reads, that hold a NaN or an infinity.
    """
    check_action(on_alarm)
    _check_seed(seed)
    schedules = _read_schedules(schedule, steps)
    program = _core.load_program(
        os.fspath(path),
        device,
        threads,
        seed,
        dict(settings or {}),
        fail_on_nonfinite,
    )
    return TrainStep(program, None, as_words(alarms), on_alarm, schedules, steps or 0)


def _read_model(
    model: object, directory: str | os.PathLike | None
) -> tuple[bytes, str, bool]:
    """A model's bytes, the path that it has or would have, and whether it has none."""
    if isinstance(model, (str, os.PathLike)):
        path = os.fspath(model)
        with reading(path):
            return pathlib.Path(path).read_bytes(), path, False
    place = os.path.join(os.fspath(directory or "."), "model.onnx")
    if isinstance(model, bytes):
        return model, place, True
    if hasattr(model, "SerializeToString"):
        return serialize_model(model), place, True
    raise UsageError(
        f"a model is a path, an onnx.ModelProto or its bytes, got {type(model).__name__}"
    )


@contextlib.contextmanager
def _make_options(
    policy: str | os.PathLike | Mapping[str, Any],
    threads: int,
    given: Mapping[str, Any],
) -> Iterator[tuple[_core.ImportOptions, _core.CompileOptions]]:
    """Options of the compiler from those of Python; valid while the context is open."""
    choices = dict(given, threads=threads)
    choices["settings"] = _assignments(choices.get("settings"))
    choices["groups"] = [
        f"{glob}:{';'.join(_assignments(values))}"
        for glob, values in (choices.get("groups") or {}).items()
    ]
    choices["states"] = as_texts(choices.get("states") or [], "states")
    with policies.as_file(policy) as choices["policy"]:
        options = (_core.ImportOptions(), _core.CompileOptions())
        for name, value in choices.items():
            owner = next((one for one in options if has_option(one, name)), None)
            if owner is None:
                raise UsageError(f"there is no option '{name}'")
            set_option(owner, name, value)
        yield options


def _assignments(values: Mapping[str, float | str] | None) -> list[str]:
    if not isinstance(values or {}, Mapping):
        raise UsageError(
            f"hyper-parameters are a dictionary, such as {{'lr': 3e-4}}, got {values!r}"
        )
    return [f"{name}={value}" for name, value in (values or {}).items()]


def _read_schedules(schedule: object, steps: object) -> list[str]:
    """What ``--schedule`` takes, of a dictionary."""
    texts = as_mapping(
        schedule,
        "a schedule is a dictionary of expressions, such as "
        "{'lr': 'base * warmup(step, 100)'}",
    )
    if steps is not None and (
        isinstance(steps, bool) or not isinstance(steps, (int, np.integer)) or steps < 1
    ):
        raise UsageError(f"steps is a whole number from 1 on, got {steps!r}")
    return [f"{name}={text}" for name, text in texts.items()]


def _read_statistic(found: np.ndarray) -> float | dict[int, int]:
    """A number, or counts by exponent as ``stats.jsonl`` has them."""
    if found.dtype != np.int64:
        return float(found.reshape(()))
    return {
        bin + _FIRST_EXPONENT: int(count) for bin, count in enumerate(found) if count
    }


def _check_seed(seed: object) -> None:
    if not isinstance(seed, (int, np.integer)) or not 0 <= seed < 1 << 64:
        raise UsageError(f"a seed is a whole number from 0 to 2^64 - 1, got {seed!r}")
