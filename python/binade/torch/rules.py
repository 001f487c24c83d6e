"""Optimizers by name, with the arguments and defaults of PyTorch's where it has them.

Each takes what ``Optimizer`` takes but for the rule. docs/Optimizers.md says what they
compute.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import torch

from binade.torch.optimizer import Optimizer


class _Rule(Optimizer):
    """An optimizer whose class says the rule."""

    rule: ClassVar[str]

    def __init__(
        self,
        params: Iterable[torch.Tensor] | Iterable[dict[str, Any]],
        lr: float | None = None,
        *,
        states: str | Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        rule = self.choose_rule(settings)
        super().__init__(params, rule, lr, states=states, options=options, **settings)

    def choose_rule(self, settings: dict[str, Any]) -> str:
        """The rule for these settings; takes those out that choose it."""
        return self.rule


class AdamW(_Rule):
    """Adam with decoupled weight decay; ``amsgrad=True`` keeps the largest squares."""

    rule = "adamw"

    def choose_rule(self, settings: dict[str, Any]) -> str:
        return "adamw_amsgrad" if settings.pop("amsgrad", False) else self.rule


class Adam(_Rule):
    """Adam; decay is part of the gradient."""

    rule = "adam"


class SGD(_Rule):
    """Gradient descent, with momentum, dampening, decay, and Nesterov's form."""

    rule = "sgd"


class Adagrad(_Rule):
    """Adagrad, whose squares are summed."""

    rule = "adagrad"


class RMSprop(_Rule):
    """RMSprop; ``centered=True`` divides by the variance, and may have momentum."""

    rule = "rmsprop"

    def choose_rule(self, settings: dict[str, Any]) -> str:
        if not settings.pop("centered", False):
            return self.rule
        settings.setdefault("momentum", 0.0)
        return "rmsprop_centered"


class Adafactor(_Rule):
    """Adafactor: means of squares over rows and columns."""

    rule = "adafactor"


class Muon(_Rule):
    """Muon for matrices, AdamW for all else."""

    rule = "muon"


class AdEMAMix(_Rule):
    """Adam with a second, slower mean."""

    rule = "ademamix"


class LAMB(_Rule):
    """Adam's step, as long as a part of the parameter."""

    rule = "lamb"


class LARS(_Rule):
    """Momentum of steps as long as a part of the parameter."""

    rule = "lars"


class Lion(_Rule):
    """The sign of a mean of gradients."""

    rule = "lion"


class Signum(_Rule):
    """The sign of momentum."""

    rule = "signum"


class Tiger(_Rule):
    """The sign of momentum, as long as the parameter is large."""

    rule = "tiger"


class TigerSGD(_Rule):
    """Tiger between the sign and the mean (``gamma``)."""

    rule = "tiger_sgd"
