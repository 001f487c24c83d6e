"""Runs the steps of a compiled update: agrees with other processes, clips, and updates."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from binade.errors import UsageError
from binade.torch.agreement import COMPILATION, Agreement, plan
from binade.torch.clipping import PercentileClipping
from binade.torch.devices import Device
from binade.torch.gathering import Gathering
from binade.torch.loading import COMPANIONS, States
from binade.torch.norms import NormClipping
from binade.torch.offload import HostCopies
from binade.torch.shards import (
    RowRange,
    gather_rows,
    get_local,
    get_local_gradient,
    is_dtensor,
    sum_squares,
)
from binade.torch.update import Scaling, Update

Gradients = Mapping[torch.Tensor, torch.Tensor]


@dataclasses.dataclass
class Agreed:
    """What processes have agreed on before a step.

    Attributes:
      local: The gradients of this process's rows.
      planned: Parameters whose gradients all processes redistribute, or that are updated
        for the first time.
      isGiven: Whether a process has a gradient, as an f32 scalar.
      found: Whether a gradient is not finite, as an f32 scalar.
    """

    local: dict[torch.Tensor, torch.Tensor]
    planned: dict[Any, int] = dataclasses.field(default_factory=dict)
    isGiven: torch.Tensor | None = None
    found: torch.Tensor | None = None


@dataclasses.dataclass(eq=False)
class StepRunner:
    """A compiled update of parameters, and what happens around it in each step.

    Attributes:
      numbers: The names of all parameters: group and index in it, such as ``0.1``.
      names: The names of the parameters that are updated.
      rows: The rows that this process has of these.
      device: Where the update runs.
      update: The compiled program.
      agreement: With other processes; None if no parameter is sharded.
      skips: Whether a gradient that is not finite skips the step.
      gathering: Of parameters that their owners update.
      host: Copies on the host, where the update runs.
      norm: Clips by the norm of all gradients.
      percentiles: Clips each gradient by the norms of earlier ones.
      clipped: The parameters of ``percentiles``.
      versions: Of each parameter after the last step; empty before the first.
      written: The versions of master weights, remainders and compensations, by name.
    """

    numbers: Mapping[torch.Tensor, str]
    names: Mapping[torch.Tensor, str]
    rows: Mapping[torch.Tensor, RowRange | None]
    device: Device
    update: Update
    agreement: Agreement | None
    skips: bool
    gathering: Gathering | None
    host: HostCopies | None
    norm: NormClipping | None
    percentiles: PercentileClipping | None
    clipped: Sequence[torch.Tensor]
    versions: dict[torch.Tensor, int] = dataclasses.field(default_factory=dict)
    written: dict[str, int] = dataclasses.field(default_factory=dict)

    def agree(self, given: Gradients, scaling: Scaling, isChanged: bool) -> Agreed:
        """Exchanges what processes have to know before they compile or redistribute.

        Args:
          given: The gradients of parameters.
          scaling: What a gradient scaler passes.
          isChanged: Whether the update has to be compiled again.
        """
        plans = {
            p: plan(p, gradient, begins=p not in self.names)
            for p, gradient in given.items()
            if self.agreement and is_dtensor(p)
        }
        planned = {p: code for p, code in plans.items() if code}
        local = {
            p: self._get_local_gradient(p, gradient)
            for p, gradient in given.items()
            if p not in planned
        }
        if not self.agreement:
            return Agreed(local)
        waits = self.gathering is not None
        isGiven, found = self.agreement.exchange(
            [
                (p, local.get(p))
                for p in self.numbers
                if p in self.names or (p in local and not is_dtensor(p))
            ],
            scaling.scale,
            isGiven=bool(given),
            plans={self.numbers[p]: code for p, code in planned.items()}
            | {COMPILATION: int(isChanged and waits)},
            waits=isChanged or waits,
            hasLimit=self.norm is None,
        )
        return Agreed(local, planned, isGiven, found)

    def complete(
        self, agreed: Agreed, given: Gradients, scaling: Scaling
    ) -> Scaling | None:
        """Redistributes gradients, and returns the scaling of the step, which all processes
        skip if one has to; None if no process has a gradient.

        Args:
          agreed: What ``agree`` returned; gradients are added. The update may have been
            compiled again since.
          given: The gradients of parameters.
          scaling: What a gradient scaler passes.
        """
        for parameter in agreed.planned:
            agreed.local[parameter] = self._get_local_gradient(
                parameter, given[parameter]
            )
        if self.agreement is None or agreed.isGiven is None or agreed.found is None:
            return scaling if agreed.local else None
        found = agreed.found
        if agreed.planned:
            among = {p.device_mesh for p in agreed.planned}
            own: list[Any] = [p for p in self.names if is_dtensor(p)]
            _, more = self.agreement.exchange(
                [(p, agreed.local.get(p)) for p in own if p.device_mesh in among],
                scaling.scale,
                isGiven=True,
                hasLimit=self.norm is None,
                among=among,
            )
            found = torch.maximum(found, more)
        # A CUDA device decides itself, so that the host does not wait for it.
        if not agreed.isGiven.is_cuda and not agreed.isGiven:
            return None
        found_inf = torch.maximum(scaling.found_inf, 1 - agreed.isGiven)
        if self.skips:
            found_inf = torch.maximum(found_inf, found)
        return Scaling(scaling.scale, found_inf)

    def run(
        self,
        values: Mapping[torch.Tensor, torch.Tensor],
        local: Gradients,
        sources: Gradients,
        scaling: Scaling,
    ) -> None:
        """Updates parameters.

        Args:
          values: The parameters, or what has their values, by parameter.
          local: The gradients of this process's rows.
          sources: The gradients that they are from.
          scaling: What ``complete`` returned.
        """
        self._follow_writes()
        if self.percentiles:
            pairs = [(parameter, local.get(parameter)) for parameter in self.clipped]
            squares = sum_squares(pairs) / scaling.scale.double().square()
            count = self.update.common["step"]
            skips = scaling.found_inf.to(count.device)
            self.percentiles.update(squares.float().to(count.device), count, skips)
        own = {
            name: get_local(values[p], self.rows[p]) for p, name in self.names.items()
        }
        named = {self.names[p]: gradient for p, gradient in local.items()}
        if self.host:
            given = {self.names[p]: gradient for p, gradient in sources.items()}
            self._update_on_host(own, named, given, scaling)
        else:
            self._update(own, named, scaling)
        torch.autograd.graph.increment_version(list(local))
        self.note_versions()

    def get_states(self, name: str) -> States:
        """Returns the states of the rows that this process has of a parameter."""
        gathered = self.gathering.states if self.gathering else {}
        return gathered[name] if name in gathered else self.update.states[name]

    def _get_local_gradient(
        self, parameter: torch.Tensor, gradient: torch.Tensor
    ) -> torch.Tensor:
        """Returns the gradient of this process's rows."""
        if gradient.layout != torch.strided:
            raise UsageError(
                f"the gradient of parameter {self.numbers[parameter]} is sparse; "
                "expected a dense one"
            )
        return get_local_gradient(gradient, parameter, self.rows.get(parameter))

    def _update(self, own: States, gradients: States, scaling: Scaling) -> None:
        if self.norm:
            scaling = self._clip_norm(self.norm, gradients, scaling)
        if self.gathering:
            whole = self.gathering.gather(own, gradients)
            plain = {
                name: gradient
                for name, gradient in gradients.items()
                if name not in self.gathering.parameters
            }
            used = {**own, **self.gathering.parameters}
            self.update.run(used, {**plain, **whole}, scaling)
            self.gathering.scatter(own)
            return
        if self.update.row_sums:
            self.update.sum_rows(own, gradients, scaling)
            self._add_row_sums()
        self.update.run(own, gradients, scaling)

    def _clip_norm(
        self, norm: NormClipping, gradients: States, scaling: Scaling
    ) -> Scaling:
        """Computes the factor by which all gradients are multiplied. Returns the scaling
        with which a step with an infinite norm is skipped."""
        factors: dict[str, torch.Tensor] = {}
        if self.percentiles:
            own = self.percentiles.factors[:, 0].to(self.device.place)
            factors = {self.names[p]: one for p, one in zip(self.clipped, own)}
        found = norm.update(gradients, factors, scaling.scale)
        if self.percentiles:
            own = self.percentiles.factors
            own[:, 0] *= norm.factor.to(own.device)
        if not self.skips:
            return scaling
        return Scaling(scaling.scale, torch.maximum(scaling.found_inf, found))

    def _update_on_host(
        self, own: States, gradients: States, sources: States, scaling: Scaling
    ) -> None:
        """Copies gradients to the host, updates there, and copies the parameters back."""
        assert self.host
        copies = self.host.read_gradients(gradients, sources)
        written = {
            name: own[name]
            for p, name in self.names.items()
            if self.versions.get(p) != p._version
        }
        self.host.read_parameters(written)
        scaling = Scaling(scaling.scale.cpu(), scaling.found_inf.cpu())
        self._update(self.host.parameters, copies, scaling)
        self.host.write_parameters({name: own[name] for name in gradients})

    def _add_row_sums(self) -> None:
        """Completes the sums of rows by those of the other processes."""
        sums = []
        for parameter, name in self.names.items():
            for one in self.update.row_sums.get(name, {}).values():
                rows = self.rows[parameter]
                assert rows and one.own is not None and one.whole is not None
                sums.append((parameter, rows, one.own, one.whole))
        gather_rows(sums)

    def _follow_writes(self) -> None:
        """Adapts what preserves lost updates to parameters that were written to since the
        last step, as ``Module.load_state_dict`` does. A master weight becomes the parameter
        where they differ. A remainder or compensation becomes 0, unless it was written to,
        too: it belongs to what the parameter was."""
        for parameter, name in self.names.items():
            version = self.versions.get(parameter)
            if version == parameter._version:
                continue
            states = self.get_states(name)
            for key in COMPANIONS:
                state = states.get(key)
                if state is None:
                    continue
                if key == "master":
                    own = get_local(parameter.detach(), self.rows[parameter])
                    own = own.to(state.device)
                    isOther = state.to(own.dtype) != own
                    state.copy_(torch.where(isOther, own.to(state.dtype), state))
                elif version is not None and state._version == self.written.get(name):
                    state.zero_()

    def note_versions(self) -> None:
        """Notes the versions of parameters and of what preserves lost updates, which change
        when they are written to."""
        self.versions = {p: p._version for p in self.names}
        self.written = {
            name: state._version
            for name in self.names.values()
            for key, state in self.get_states(name).items()
            if key in COMPANIONS
        }

    def forget_versions(self) -> None:
        """Lets the next step not notice whether parameters were written to."""
        self.versions, self.written = {}, {}
