"""One optimizer class per update rule, with PyTorch's argument names.

Each takes the arguments of ``Optimizer`` except ``rule``. docs/Optimizers.md says what
they compute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import torch

from binade.errors import UsageError
from binade.torch.optimizer import Optimizer


class _Rule(Optimizer):
    """The base class of optimizers whose class determines the rule."""

    rule: ClassVar[str]

    def __init__(
        self,
        params: Iterable[torch.Tensor] | Iterable[dict[str, Any]],
        lr: float | None = None,
        *,
        states: str | Sequence[str] = (),
        master: str | None = None,
        offload: bool = False,
        options: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        rule = self.choose_rule(settings)
        super().__init__(
            params, rule, lr, states=states, master=master, offload=offload,
            options=options, **settings,
        )  # fmt: skip

    def choose_rule(self, settings: dict[str, Any]) -> str:
        """Returns the rule for these settings, and removes the settings that select it."""
        return self.rule


class AdamW(_Rule):
    """Adam with decoupled weight decay; ``amsgrad=True`` uses the maximum of the second
    moments. Without it, the operations are those of PyTorch's fused kernel for the CPU."""

    rule = "adamw_fused"

    def choose_rule(self, settings: dict[str, Any]) -> str:
        return "adamw_amsgrad" if settings.pop("amsgrad", False) else self.rule


class Adam(_Rule):
    """Adam with L2 regularization: weight decay is added to the gradient; with
    ``decoupled_weight_decay=True`` as AdamW."""

    rule = "adam"

    def choose_rule(self, settings: dict[str, Any]) -> str:
        if settings.pop("amsgrad", False):
            raise UsageError("'amsgrad' is False only: AdamW has it")
        isDecoupled = settings.pop("decoupled_weight_decay", False)
        return AdamW.rule if isDecoupled else self.rule


class SGD(_Rule):
    """SGD with momentum, dampening, weight decay and Nesterov momentum."""

    rule = "sgd"


class Adagrad(_Rule):
    """Adagrad: divides by the root of the sum of squared gradients."""

    rule = "adagrad"


class RMSprop(_Rule):
    """RMSprop; ``centered=True`` divides by the variance, and may have momentum."""

    rule = "rmsprop"

    def choose_rule(self, settings: dict[str, Any]) -> str:
        if not settings.pop("centered", False):
            if settings.pop("momentum", 0):
                raise UsageError("'momentum' needs centered=True")
            return self.rule
        settings.setdefault("momentum", 0.0)
        return "rmsprop_centered"


class Adafactor(_Rule):
    """Adafactor: second moments factored into row and column means."""

    rule = "adafactor"


class Muon(_Rule):
    """Muon for matrices, AdamW for all else."""

    rule = "muon"


class AdamMini(_Rule):
    """Adam-mini: AdamW with one second moment per row, or with ``heads=N`` in the group of
    queries and keys one per head."""

    rule = "adam_mini"


class ScheduleFreeAdamW(_Rule):
    """Schedule-free AdamW. Parameters have the values at which gradients are computed;
    between ``eval`` and ``train`` they have their averages, for evaluation and export."""

    rule = "schedule_free_adamw"
    # The parameters' values before `eval`, for `train`.
    _trained: dict[torch.Tensor, torch.Tensor] | None = None

    @torch.no_grad()
    def eval(self) -> None:
        """Sets the parameters to their averages."""
        if self._trained is not None:
            return
        self._trained = {}
        for parameter, states in self.state.items():
            if (offset := states.get("evaluation_offset")) is not None:
                self._trained[parameter] = parameter.detach().clone()
                wide = states.get("master", parameter)
                parameter.copy_(wide.float() + offset.float())

    @torch.no_grad()
    def train(self) -> None:
        """Sets the parameters to the values that they had before ``eval``."""
        for parameter, value in (self._trained or {}).items():
            parameter.copy_(value)
        if self._trained:
            # Otherwise the next step would drop what rounding has lost before.
            self.forget_versions()
        self._trained = None

    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        """Updates the parameters that have gradients.

        Raises:
          UsageError: If the parameters have their averages.
        """
        self.refuse_averages("step")
        return super().step(closure)

    def state_dict(self) -> dict[str, Any]:
        """Returns the state in PyTorch's form.

        Raises:
          UsageError: If the parameters have their averages, which a checkpoint of the run
            must not have.
        """
        self.refuse_averages("state_dict")
        return super().state_dict()

    def refuse_averages(self, method: str) -> None:
        if self._trained is not None:
            raise UsageError(f"{method}() after eval(): call train() first")


class AdEMAMix(_Rule):
    """AdEMAMix: Adam with a second, slower average of gradients."""

    rule = "ademamix"


class LAMB(_Rule):
    """LAMB: Adam's update, scaled by the norm of the parameter (trust ratio)."""

    rule = "lamb"


class LARS(_Rule):
    """LARS: SGD with momentum, scaled by the norm of the parameter (trust ratio)."""

    rule = "lars"


class Lion(_Rule):
    """Lion: the sign of an interpolation of momentum and gradient."""

    rule = "lion"


class Signum(_Rule):
    """Signum: the sign of the momentum."""

    rule = "signum"


class Tiger(_Rule):
    """Tiger: the sign of the momentum, scaled by the size of the parameter."""

    rule = "tiger"


class TigerSGD(_Rule):
    """Tiger with an update between the sign of the momentum and the momentum (``gamma``)."""

    rule = "tiger_sgd"
