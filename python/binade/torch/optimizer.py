"""PyTorch optimizers whose compiled kernel updates all parameters at once."""

from __future__ import annotations

import collections
import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from binade import _core
from binade.errors import RejectedError, UsageError
from binade.torch.agreement import Agreement
from binade.torch.aliases import Formats, translate
from binade.torch.clipping import PercentileClipping
from binade.torch.devices import Device, find_device
from binade.torch.gathering import Gathering
from binade.torch.graphs import register, step_in_graph
from binade.torch.groups import (
    GroupSettings,
    check_arguments,
    check_group,
    complete_group,
    list_compiled,
    name_settings,
)
from binade.torch.loading import (
    NORMS,
    States,
    check_form,
    check_formats,
    copy_all,
    copy_checked,
    count_updates,
    isOtherGrouping,
    isPart,
    list_own,
    name_formats,
    protect_from_casts,
)
from binade.torch.norms import NormClipping
from binade.torch.offload import HostCopies
from binade.torch.preparing import (
    check_options,
    check_type,
    list_state_formats,
    list_masters,
    list_percentiles,
    warn_of_lost_updates,
)
from binade.torch.running import StepRunner
from binade.torch.shards import (
    RowRange,
    find_rows,
    get_local,
    is_dtensor,
    is_split,
    to_dtensor,
    view_rows,
)
from binade.torch.update import QuantizedState, Scaling, Update


class Optimizer(torch.optim.Optimizer):
    """An optimizer of ``binade list optimizers`` with states in any of its formats.

    One compiled kernel updates all parameters in place. They are in f32, bf16 or f16, and
    may have different types. The update is computed in f32; ``master`` says what preserves
    updates that are too small for a parameter of 16 bits. A step with a gradient that is
    not finite updates nothing (``skipped``). As in PyTorch, a parameter without a gradient
    keeps its value and its states; all parameters share one count of updates.

    Parameters are on the CPU or on one CUDA device. There the kernels run on PyTorch's
    current stream, and the host does not wait for them. A step can be captured in a
    ``torch.cuda.CUDAGraph`` after one that was not. Replays use the settings of the
    capture; if the learning rate is a tensor on the device, the value that it has then.
    Capture again after ``load_state_dict``, ``add_param_group``, the first step of a
    gradient scaler, or a change of types or trained parameters: these make new states.
    ``torch.compile`` treats a step as one operator.

    The tensors in ``state`` are those of the kernel: write to them with ``copy_``, do not
    replace them. A parameter may be written to between steps, except by ``.data``: a
    master weight follows, and a remainder or compensation becomes 0 (not in a step that
    ``torch.compile`` has compiled).

    ``torch.amp.GradScaler`` leaves it to the step to divide by the scale and to skip, as
    it does with PyTorch's fused optimizers.

    ``state_dict`` has PyTorch's form. With states in f32 it is compatible with that of
    PyTorch's own optimizer of the rule: each loads the state of the other.

    Args:
      params: Tensors or groups of them, as for every optimizer. A group may have its
        own values of the rule's settings.
      rule: The update rule, for example ``"adamw"`` or ``"tiger"``.
      lr: The learning rate, a number or a scalar tensor; by default the rule's.
        Schedulers may change it and other settings in each group.
      states: Formats of the optimizer states: ``"dyn8"``, ``"e4m3"``, ...; by default
        f32, also for parameters of 16 bits. A group may have its own.
      master: For parameters of 16 bits: ``"none"`` rounds each update, as PyTorch does,
        and so does the default, with a warning; ``"f32"`` keeps a master weight,
        ``"split_round"``, ``"split_trunc"``, ``"kahan"`` and ``"residual"`` what
        rounding loses, ``"split_8bit"`` most of it in 8 bits, and ``"stochastic"`` rounds
        up or down at random (docs/Precision.md). A group may have its own.
      offload: Keeps the states in the memory of the host, and updates on the CPU:
        parameters and gradients of a CUDA device are copied, the gradients during the
        backward pass.
      options: Options of ``binade.compile``; only ``clip``, ``on_nonfinite``, ``policy``
        (for the formats of states and updates), ``threads`` and, for CUDA devices,
        ``save_kernels``.
      settings: Hyper-parameters by the rule's names or PyTorch's: ``weight_decay``,
        ``betas``, ...; and arguments of bitsandbytes and torchao, such as
        ``optim_bits=8`` (docs/Migration.md).

    Raises:
      UsageError: If a parameter has another type or is on another device than the first
        one, none is trained, or there is no such option.
      RejectedError: If the rule lacks a setting, or a format is unknown.
    """

    # Of torch.amp.GradScaler: the step divides by the scale, and skips.
    _step_supports_amp_scaling = True

    def __init__(
        self,
        params: Iterable[torch.Tensor] | Iterable[dict[str, Any]],
        rule: str = "adamw",
        lr: float | None = None,
        *,
        states: str | Sequence[str] = (),
        master: str | None = None,
        offload: bool = False,
        options: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        check_options(options)
        self._offloads = bool(offload)
        self._gathering: Gathering | None = None
        self._hooks: list[Any] = []
        # What graphs contain.
        self._captured: list[StepRunner] = []
        self._isIdle = True
        self._names: dict[torch.Tensor, str] = {}
        self._rows: dict[torch.Tensor, RowRange | None] = {}
        # Parameters whose quantized states are not grouped by rows.
        self._flat: set[torch.Tensor] = set()
        self._known: set[str] | None = None
        self._warns = True
        # Whether a gradient scaler looks for gradients that are not finite.
        self._isScaled = False
        self._choices = {"optimizer": rule, **(options or {})}
        self._number = register(self)
        settings, self._formats = translate(settings, Formats(states, master))
        if lr is None:
            # A rule without a rate is refused where it is compiled.
            lr = _core.optimizer_defaults(rule).get("lr", 0.0)
        super().__init__(params, {"lr": lr, **check_arguments(settings)})
        for group in self.param_groups:
            check_group(group)
        self._compile()
        # Schedulers find out by the defaults whether there is momentum.
        complete_group(self.defaults, self._list_defaults())

    @property
    def skipped(self) -> bool:
        """Whether the last step updated nothing because a gradient was not finite. Waits
        for the step on a CUDA device."""
        return not self._isIdle and self._update.skipped

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        """Updates the parameters that have gradients.

        Raises:
          UsageError: If a gradient is sparse.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        parameters = self._parameters()
        gradients = [parameter.grad for parameter in parameters]
        if torch.compiler.is_compiling():
            step_in_graph(self._number, parameters, gradients)
        else:
            self.apply(parameters, gradients)
        return loss

    def apply(
        self, values: Sequence[torch.Tensor], gradients: Sequence[torch.Tensor | None]
    ) -> None:
        """Updates ``values``, which are the parameters of all groups in order or have
        their values, with their gradients."""
        parameters = self._parameters()
        given = {p: g for p, g in zip(parameters, gradients) if g is not None}
        isChanged = any(_get_form(p) != form for p, form in self._forms.items())
        isChanged |= self._compiled != [list_compiled(g) for g in self.param_groups]
        if (getattr(self, "found_inf", None) is not None) != self._isScaled:
            self._isScaled, isChanged = not self._isScaled, True
        isChanged |= any(parameter not in self._names for parameter in given)
        given_scaling = self._get_scaling()
        agreed = self._runner.agree(given, given_scaling, isChanged)
        if isChanged:
            self._recompile(given)
        scaling = self._runner.complete(agreed, given, given_scaling)
        self._isIdle = scaling is None
        if scaling is None:
            return
        self._note_capture()
        self._settings.write()
        self._runner.run(dict(zip(parameters, values)), agreed.local, given, scaling)

    def forget_versions(self) -> None:
        """Lets the next step not notice whether parameters were written to."""
        self._runner.forget_versions()

    def _note_capture(self) -> None:
        """A replayed graph writes the settings that it was captured with. It uses the
        memory of this update, which must not be freed."""
        runner = self._runner
        if runner.device.isCapturing() and runner not in self._captured:
            self._captured.append(runner)
        if self._captured:
            self._settings.forget()

    def _get_scaling(self) -> Scaling:
        """Returns what torch.amp.GradScaler sets before it calls ``step``. The scale is 1 if
        it has divided the gradients itself."""
        none = self._noScaling
        return Scaling(
            _as_f32(getattr(self, "grad_scale", None), none.scale),
            _as_f32(getattr(self, "found_inf", None), none.found_inf),
        )

    @property
    def _is_sharded(self) -> bool:
        return any(rows is not None for rows in self._rows.values())

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds parameters with their own settings, and recompiles the kernel. An error
        leaves the optimizer unchanged."""
        if not self._names:  # Called by the constructor of the base class.
            return super().add_param_group(param_group)
        with self._all_or_nothing():
            super().add_param_group(param_group)
            check_group(self.param_groups[-1])
            self._recompile()

    def state_dict(self) -> dict[str, Any]:
        """Returns the state in PyTorch's form. Optimizer states are views, not copies,
        except ``step``."""
        found = super().state_dict()
        # PyTorch's optimizers increment `step` in place, as a float per parameter.
        found["state"] = {
            index: {**states, "step": states["step"].float()}
            for index, states in found["state"].items()
            if states
        }
        return found

    def list_quantized(self) -> list[tuple[torch.Tensor, QuantizedState]]:
        """Returns the quantized states, each with its parameter."""
        known = self._update.list_quantized()
        if self._gathering:
            known |= self._gathering.quantized
        return [
            (parameter, state)
            for parameter, name in self._names.items()
            for state in known.get(name, ())
        ]

    def get_master(self, parameter: torch.Tensor) -> str:
        """Returns what preserves small updates of a parameter."""
        return self._masters[self._names[parameter]]

    def refuse_averages(self, method: str) -> None:
        """Raises a ``UsageError`` if parameters have values for evaluation only."""

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores a ``state_dict`` of the same parameters, rule and formats, or one of
        PyTorch's optimizer of that rule. An error leaves the optimizer unchanged.

        Raises:
          UsageError: If states differ, or a setting is one that no rule has.
          RejectedError: If the rule does not allow a setting's value.
          ValueError: If groups differ.
        """
        self.refuse_averages("load_state_dict")
        with self._all_or_nothing():
            self._load(state_dict)

    @contextlib.contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Restores the optimizer if the body of the context fails."""
        attributes, states = dict(vars(self)), dict(self.state)
        groups = [dict(group) for group in self.param_groups]
        try:
            yield
        except BaseException:
            vars(self).update(attributes)
            self.state.clear()
            self.state.update(states)
            del self.param_groups[len(groups) :]
            # In place, because schedulers and settings refer to the group dictionaries.
            for group, before in zip(self.param_groups, groups):
                group.clear()
                group.update(before)
            raise

    def _load(self, state_dict: dict[str, Any]) -> None:
        before = self.state, self.param_groups
        # PyTorch converts states to the types of their parameters, except within other
        # objects.
        wrapping = self.register_load_state_dict_pre_hook(protect_from_casts)
        try:
            super().load_state_dict(state_dict)
        finally:
            wrapping.remove()
        loaded = {p: states.value for p, states in self.state.items()}
        loaded = {p: states for p, states in loaded.items() if list_own(states)}
        groups = self.param_groups
        self.state, self.param_groups = before
        count = count_updates(loaded)
        known = {p: states for p, states in loaded.items() if p in self._names}
        flat = {p for p, states in known.items() if self._is_flat(p, states)}
        for parameter, states in known.items():
            if (parameter in flat) == (parameter in self._flat):
                check_form(self._names[parameter], self.state[parameter], states)
        for own, group in zip(self.param_groups, groups):
            check_formats(own, group)
            group = check_arguments(group)
            own.update({k: v for k, v in group.items() if k != "params"})
        self._flat = flat
        self._compile(loaded)
        flat = {p for p, states in loaded.items() if self._is_flat(p, states)}
        if flat != self._flat:  # Of parameters that had no states.
            self._flat = flat
            self._compile(loaded)
        for parameter, states in loaded.items():
            check_form(self._names[parameter], self.state[parameter], states)
        for parameter, states in loaded.items():
            copy_checked(self.state[parameter], states)
        # PyTorch's SGD has no count; only whether there was an update matters then.
        self._update.count = int(bool(loaded)) if count is None else count

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {
            "_choices": self._choices,
            "_formats": self._formats,
            "_flat": self._flat,
            "_offloads": self._offloads,
            "_known": self._known,
            "_warns": False,
        }

    @torch.no_grad()
    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "_choices" not in state:
            return  # Called by load_state_dict of the base class.
        # A pickle of version 0.1.0 lacks the following ones.
        self._flat = state.get("_flat", set())
        self._offloads = state.get("_offloads", False)
        self._hooks, self._captured, self._isIdle = [], [], True
        self._warns = self._isScaled = False
        if "_formats" not in state:
            self._choices = dict(self._choices)
            formats = self._choices.pop("states", ())
            self._formats = Formats(formats, None)
        self._names = {}
        self._number = register(self)
        kept = {p: states for p, states in self.state.items() if states}
        # A shallow copy shares neither states nor groups with the original.
        self.state = collections.defaultdict(dict)
        self.param_groups = [dict(group) for group in self.param_groups]
        self._compile(kept)
        copy_all(kept, self.state)

    def _parameters(self) -> list[torch.Tensor]:
        return [p for group in self.param_groups for p in group["params"]]

    @torch.no_grad()
    def _recompile(self, also: Iterable[torch.Tensor] = ()) -> None:
        """Compiles the step with additional parameters, and keeps the states."""
        kept = dict(self.state)
        with self._all_or_nothing():
            self._compile(also)
            copy_all(kept, self.state)

    def _compile(self, also: Iterable[torch.Tensor] = ()) -> None:
        """Compiles the step for parameters that require gradients, those it had, and
        `also`. States get their initial values."""
        wanted = {*self._names, *also}
        self._numbers = {
            parameter: f"{number}.{index}"
            for number, group in enumerate(self.param_groups)
            for index, parameter in enumerate(group["params"])
        }
        names = {
            parameter: name
            for parameter, name in self._numbers.items()
            if parameter.requires_grad or parameter in wanted
        }
        for parameter, name in names.items():
            check_type(name, parameter)
        if not names:
            raise UsageError("none of the parameters requires a gradient")
        device = find_device((name, parameter) for parameter, name in names.items())
        self._noScaling = Scaling.none(device.place)
        self._rows = {p: find_rows(name, p) for p, name in names.items()}
        agreement = (
            Agreement((name, p) for p, name in self._numbers.items() if is_dtensor(p))
            if any(is_split(p) for p in self._numbers)
            else None
        )
        choices = dict(self._choices)
        limit = choices.pop("clip", None) or 0.0
        isGiven = self._is_sharded or self._isScaled or limit > 0
        if isGiven and choices.get("on_nonfinite", "skip") == "skip":
            # A scaler, all processes together, or their norm decide before the kernel runs.
            choices["on_nonfinite"] = "continue"
        groups = {
            f"{number}.*": group
            for number, group in enumerate(self.param_groups)
            if any(parameter in names for parameter in group["params"])
        }
        masters = self._list_masters(names)
        known = self._known
        if known is not None:
            # Of a rule for vectors, such as Muon's AdamW, the step checks values.
            known = known & set(_core.optimizer_defaults(choices["optimizer"]))
        own = {name: get_local(p, self._rows[p]) for p, name in names.items()}
        host = HostCopies(own) if self._offloads else None
        if host:
            own, device = host.parameters, Device(torch.device("cpu"))
        norm = None
        if limit:
            shards = {
                name: (p, rows)
                for p, name in names.items()
                if (rows := self._rows[p]) is not None
            }
            threads = choices.get("threads", 0)
            norm = NormClipping(limit, own, shards, device, threads)
        percentiles, clipped = self._make_percentiles(names, device.place)
        factors = dict.fromkeys(names.values(), norm.factor) if norm else {}
        if percentiles:
            columns = percentiles.factors[:, 0]
            factors |= {names[p]: factor for p, factor in zip(clipped, columns)}
        make = functools.partial(
            Update,
            device=device,
            masters=masters,
            factors=factors,
            states=list_state_formats(self._formats, groups, names),
            groups={
                glob: name_settings(group, known) | GroupSettings.mark(number)
                for number, (glob, group) in enumerate(groups.items())
            },
            **choices,
        )
        attributes = {name: self._make_attributes(p) for p, name in names.items()}
        self._gathering = None
        try:
            self._update = make(parameters=own, attributes=attributes)
        except RejectedError as error:
            if host or "the update rule needs the whole" not in str(error):
                raise
            self._make_gathering(make, own, attributes, names)
        self._names, self._masters = names, masters
        self._compiled = [list_compiled(group) for group in self.param_groups]
        self._runner = StepRunner(
            self._numbers, names, self._rows, device, self._update, agreement,
            self._choices.get("on_nonfinite", "skip") == "skip", self._gathering, host,
            norm, percentiles, clipped,
        )  # fmt: skip
        self._link_host(host)
        self._forms = {parameter: _get_form(parameter) for parameter in names}
        self._settings = GroupSettings(self._update.settings, list(groups.values()))
        self._known = self._settings.known()
        defaults = self._list_defaults()
        for group in self.param_groups:  # Also those of which nothing is trained.
            complete_group(group, defaults)
        self._link_states()
        self._name_formats()

    def _name_formats(self) -> None:
        """Notes the formats of states in the groups, for checkpoints."""
        formats: dict[torch.Tensor, list[str]] = {}
        for parameter, state in self.list_quantized():
            formats.setdefault(parameter, []).append(state.format)
        for group in self.param_groups:
            own = [one for p in group["params"] for one in formats.get(p, [])]
            group.pop("state_formats", None)
            if own:
                group["state_formats"] = name_formats(own)

    def _make_gathering(
        self,
        make: Callable[..., Update],
        own: dict[str, torch.Tensor],
        attributes: dict[str, str],
        names: Mapping[torch.Tensor, str],
    ) -> None:
        """Compiles the update of the whole parameters that this process owns."""
        rows = {names[p]: rows for p, rows in self._rows.items() if rows is not None}
        sharded = {names[p]: p for p, rows in self._rows.items() if rows is not None}
        gathering = Gathering(sharded, rows)
        gathering.read_parameters(own)
        for name, range in rows.items():
            attributes[name] = (
                "binade.row_groups"
                if gathering.isOwned(name)
                else f"binade.shard = array<i64: 0, {range.whole}>"
            )
        used = {**own, **gathering.parameters}
        self._update = make(parameters=used, attributes=attributes)
        gathering.link(self._update.states, self._update.list_quantized())
        self._gathering = gathering

    def _link_host(self, host: HostCopies | None) -> None:
        """Lets the backward pass copy gradients to the host."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        if host is None:
            return
        if self._update.row_sums or (self._runner.norm and self._is_sharded):
            raise UsageError(
                "offload=True, and the rule or 'clip' needs sums over all rows of sharded "
                "parameters; leave offload out"
            )
        for parameter, name in self._names.items():
            if parameter.requires_grad and parameter.is_leaf:
                copy = functools.partial(_start_copy, host, name, self._rows[parameter])
                self._hooks.append(parameter.register_post_accumulate_grad_hook(copy))

    def _list_defaults(self) -> dict[str, float]:
        """Returns the rule's settings except the rate, with their defaults."""
        rule = self._choices["optimizer"]
        known = self._known or set()
        defaults = _core.optimizer_defaults(rule)
        return {k: v for k, v in defaults.items() if k != "lr" and k in known}

    def _make_attributes(self, parameter: torch.Tensor) -> str:
        """Returns the attributes by which states of shards are those of the whole."""
        rows = self._rows[parameter]
        if rows is not None:
            first = min(rows.first, rows.whole - 1)  # Of the row of an empty shard.
            return f"binade.shard = array<i64: {first}, {rows.whole}>"
        return "" if parameter in self._flat else "binade.row_groups"

    def _make_percentiles(
        self, names: Mapping[torch.Tensor, str], place: torch.device
    ) -> tuple[PercentileClipping | None, list[torch.Tensor]]:
        """Returns what clips gradients by a percentile of their norms, and their
        parameters."""
        percentiles = list_percentiles(self.param_groups, names)
        if not percentiles:
            return None, []
        return PercentileClipping([*percentiles.values()], place), [*percentiles]

    def _list_masters(self, names: Mapping[torch.Tensor, str]) -> dict[str, str]:
        """Returns what preserves small updates of each parameter, and warns once if nothing
        does."""
        masters, lossy = list_masters(self._formats, self.param_groups, names)
        if lossy and self._warns:
            self._warns = False
            warn_of_lost_updates(lossy)
        return masters

    def _link_states(self) -> None:
        """Fills ``state`` with the tensors of the update."""
        common = dict(self._update.common)
        if "rng" in common:
            # As bytes, as checkpoints of earlier versions have it.
            common["rng"] = common["rng"].view(torch.uint8)
        for parameter, name in self._names.items():
            states = {
                key: self._link_state(parameter, name, key, state)
                for key, state in self._runner.get_states(name).items()
            }
            self.state[parameter] = common | states
        runner = self._runner
        if runner.percentiles:
            for parameter, norms in zip(runner.clipped, runner.percentiles.norms):
                self.state[parameter][NORMS] = norms

    def _link_state(
        self, parameter: torch.Tensor, name: str, key: str, state: torch.Tensor
    ) -> torch.Tensor:
        rows = self._rows[parameter]
        if self._gathering and name in self._gathering.states:
            if not self._gathering.isSplit(name, key):
                return state
        elif isPart(key, state):
            state = view_rows(state, parameter, rows)
        return to_dtensor(state, parameter, rows)

    def _is_flat(self, parameter: torch.Tensor, states: States) -> bool:
        """Whether the states have groups that do not lie within rows, as earlier versions
        wrote them: then there are fewer scales."""
        isOther = isOtherGrouping(self.state[parameter], states)
        return self._rows[parameter] is None and isOther != (parameter in self._flat)


def _as_f32(value: Any, default: torch.Tensor) -> torch.Tensor:
    """Returns a number as an f32 scalar on the device of `default`, which replaces None."""
    if value is None:
        return default
    if is_dtensor(value):
        value = value.full_tensor()
    # A gradient scaler passes the number 0 if there are no gradients.
    return torch.as_tensor(value).to(default.device, torch.float32).reshape(())


def _start_copy(
    host: HostCopies, name: str, rows: RowRange | None, parameter: torch.Tensor
) -> None:
    """A hook that autograd calls when a gradient is complete."""
    gradient = parameter.grad
    if gradient is not None and gradient.layout == torch.strided:
        host.start(name, get_local(gradient, rows), gradient)


def _get_form(parameter: torch.Tensor) -> tuple[Any, ...]:
    """Returns what the kernel is compiled for."""
    return parameter.dtype, parameter.shape, parameter.device
