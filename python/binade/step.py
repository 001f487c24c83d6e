"""The module that the export traces: a model and its loss, called with a batch."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence

import torch

from binade.errors import RejectedError
from binade.gradients import DetachingMode

# The prefix of the model's parameter names inside ``Step``.
MODEL_PREFIX = "model."


class Step(torch.nn.Module):
    """The model and its loss, called with the batch, as one module."""

    def __init__(
        self,
        model: torch.nn.Module,
        loss: Callable | None,
        names: Sequence[str],
        output_names: list[str],
    ) -> None:
        super().__init__()
        self.model = model
        self.loss = None if loss is None else _Loss(loss)
        self.names = list(names)
        self.output_names = output_names

    def forward(self, *values: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with DetachingMode():
            return self._compute(values)

    def _compute(self, values: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        batch = dict(zip(self.names, values))
        taken = _parameters(self.model.forward, batch, "the model's forward")
        wanted = []
        if self.loss is not None:
            wanted = _parameters(self.loss.function, batch, "the loss", first=1)
        unused = [name for name in batch if name not in (*taken, *wanted)]
        if unused:
            rest = (
                "; if the loss takes it, give the loss (--loss pkg.mod:fn)"
                if self.loss is None
                else ", and neither does the loss"
            )
            raise RejectedError(
                f"the batch has '{unused[0]}', which the model's forward() does not take"
                + rest
            )
        prediction = self.model(**{name: batch[name] for name in taken})
        if self.loss is None:
            loss, outputs = _own_loss(prediction)
        else:
            loss = self.loss(prediction, **{name: batch[name] for name in wanted})
            outputs = _named_outputs(prediction)
        if (
            not isinstance(loss, torch.Tensor)
            or loss.numel() != 1
            or (not loss.is_floating_point())
        ):
            what = (
                f"a tensor of shape {list(loss.shape)} and type {loss.dtype}"
                if isinstance(loss, torch.Tensor)
                else type(loss).__name__
            )
            raise RejectedError(
                f"the loss must be one floating-point number, got {what}; "
                + (
                    "let the model return it first, or give --loss"
                    if self.loss is None
                    else "reduce it, for example with .mean()"
                )
            )
        # In place, because tracing restores a module's attributes.
        self.output_names[:] = ["loss", *outputs]
        return (loss.reshape(()) if loss.dim() else loss, *outputs.values())


class _Loss(torch.nn.Module):
    """Wraps the loss function in a module, so that its nodes have a module name."""

    def __init__(self, function: Callable) -> None:
        super().__init__()
        self.function = function

    def forward(self, *arguments, **named):
        return self.function(*arguments, **named)


def _own_loss(result: object) -> tuple[object, dict[str, torch.Tensor]]:
    """Splits what a model with its own loss returns into loss and outputs."""
    if isinstance(result, Mapping):
        if result.get("loss") is None:
            raise RejectedError(
                "the model returned no 'loss', but "
                f"{', '.join(map(str, result))}; give --loss"
            )
        rest = {name: value for name, value in result.items() if name != "loss"}
        return result["loss"], _named_outputs(rest) if rest else {}
    if isinstance(result, (tuple, list)) and result:
        return result[0], _named_outputs(result[1:]) if len(result) > 1 else {}
    return result, {}


def _named_outputs(result: object) -> dict[str, torch.Tensor]:
    """Names a model's outputs: its own names, or prediction, prediction.1, ..."""
    if isinstance(result, Mapping):
        named = {str(name): value for name, value in result.items()}
    else:
        values = list(result) if isinstance(result, (tuple, list)) else [result]
        named = {
            f"prediction.{i}" if i else "prediction": value
            for i, value in enumerate(values)
        }
    return {
        name: value for name, value in named.items() if isinstance(value, torch.Tensor)
    }


def _parameters(
    function: Callable, batch: Mapping[str, object], what: str, *, first: int = 0
) -> list[str]:
    """Returns the entries of the batch that a function's signature names, from parameter
    number `first` on.

    Raises:
      RejectedError: If the batch lacks a parameter without a default.
    """
    # A module's __call__ accepts any arguments; its forward has the signature.
    called = function.forward if isinstance(function, torch.nn.Module) else function
    parameters = list(inspect.signature(called).parameters.values())[first:]
    for parameter in parameters:
        variadic = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if (
            not variadic
            and parameter.default is parameter.empty
            and parameter.name not in batch
        ):
            raise RejectedError(
                f"{what} takes '{parameter.name}', which the batch lacks; its entries "
                f"are {', '.join(batch)}"
            )
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return list(batch)
    return [parameter.name for parameter in parameters if parameter.name in batch]
