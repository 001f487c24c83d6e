"""Records how a PyTorch model initializes its parameters.

A model calls ``nn.init.normal_(weight, std=0.02)``, but the initialized parameter holds
only the drawn values. ``InitialRules`` intercepts the ATen ops while the model is
constructed and records, for every storage, the distribution of its last initialization.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from binade.errors import RejectedError

aten = torch.ops.aten


@dataclass(frozen=True)
class _Distribution:
    """Elements are ``shift + scale * u``, u constant 1, U[0, 1) or N(0, 1)."""

    kind: str
    shift: float
    scale: float

    def mapped(self, factor: float, offset: float) -> _Distribution:
        """Returns the distribution of ``offset + factor * x``."""
        return _Distribution(
            self.kind, offset + factor * self.shift, factor * self.scale
        )

    def rule(self) -> dict:
        """Returns the rule in the form of docs/Import.md."""
        if self.kind == "normal":
            mean = {"mean": self.shift} if self.shift else {}
            return {"rule": "normal", **mean, "std": abs(self.scale)}
        if self.kind == "uniform":
            ends = sorted((self.shift, self.shift + self.scale))
            return {"rule": "uniform", "low": ends[0], "high": ends[1]}
        value = self.shift + self.scale
        named = {0.0: "zeros", 1.0: "ones"}.get(value)
        return {"rule": named} if named else {"rule": "constant", "value": value}


def _constant(value: float) -> _Distribution:
    return _Distribution("constant", float(value), 0.0)


# The distribution of an op's result (in-place: of its first operand), as a function of
# the op's arguments after the tensor or size.
_SOURCES: dict[object, Callable[..., _Distribution]] = {
    aten.normal_.default: lambda mean=0.0, std=1.0: _Distribution("normal", mean, std),
    aten.uniform_.default: lambda low=0.0, high=1.0: _Distribution(
        "uniform", low, high - low
    ),
    aten.zero_.default: lambda: _constant(0),
    aten.fill_.Scalar: _constant,
    aten.zeros.default: lambda: _constant(0),
    aten.ones.default: lambda: _constant(1),
    aten.full.default: _constant,
    aten.zeros_like.default: lambda: _constant(0),
    aten.ones_like.default: lambda: _constant(1),
    aten.full_like.default: _constant,
    aten.randn.default: lambda: _Distribution("normal", 0.0, 1.0),
    aten.rand.default: lambda: _Distribution("uniform", 0.0, 1.0),
    aten.randn.generator: lambda: _Distribution("normal", 0.0, 1.0),
    aten.rand.generator: lambda: _Distribution("uniform", 0.0, 1.0),
    aten.randn_like.default: lambda: _Distribution("normal", 0.0, 1.0),
    aten.rand_like.default: lambda: _Distribution("uniform", 0.0, 1.0),
}
# Factor and offset that an op applies if its second operand is a number.
_MAPS: dict[object, Callable[[float], tuple[float, float]]] = {
    aten.mul.Tensor: lambda c: (c, 0.0),
    aten.mul_.Tensor: lambda c: (c, 0.0),
    aten.div.Tensor: lambda c: (1 / c, 0.0),
    aten.div_.Tensor: lambda c: (1 / c, 0.0),
    aten.add.Tensor: lambda c: (1.0, c),
    aten.add_.Tensor: lambda c: (1.0, c),
    aten.sub.Tensor: lambda c: (1.0, -c),
    aten.sub_.Tensor: lambda c: (1.0, -c),
}
_COPIES = {aten.clone.default: 0, aten._to_copy.default: 0, aten.copy_.default: 1}


class InitialRules(TorchDispatchMode):
    """Context manager: construct the model inside, then call ``rule`` for each tensor."""

    def __init__(self) -> None:
        super().__init__()
        # Storages are kept alive, so that no two of them have the same address.
        self._storages: dict[int, torch.UntypedStorage] = {}
        self._known: dict[int, _Distribution | str] = {}

    def rule(self, name: str, tensor: torch.Tensor) -> dict:
        """Returns the rule of one tensor of the model.

        Raises:
          RejectedError: If the elements are not draws of one distribution.
        """
        known = self._known.get(_address(tensor), "code that cannot be watched")
        if isinstance(known, _Distribution):
            return known.rule()
        values = tensor.detach().reshape(-1)
        if values.numel() and bool((values == values[0]).all()):
            return _constant(values[0].item()).rule()
        raise RejectedError(
            f"there is no rule for the initial value of '{name}', which was last "
            f"written by {known}; rules are normal, uniform and constant. Initialize "
            "it by one of those, or export with --init values"
        )

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        result = op(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor):
            address = _address(result)
            is_view = not op._schema.is_mutable and any(
                isinstance(argument, torch.Tensor) and _address(argument) == address
                for argument in args
            )
            if not is_view:
                self._known[address] = self._result(op, args, result)
                self._storages[address] = result.untyped_storage()
        return result

    def _result(self, op, args, result: torch.Tensor) -> _Distribution | str:
        """Returns the distribution of `result` after `op`, or the name of the op if the
        distribution is unknown."""
        if result.numel() * result.element_size() != result.untyped_storage().nbytes():
            return f"'{op}' in a part of it"
        if op in _SOURCES:
            return _SOURCES[op](*args[1:])
        operand = args[_COPIES.get(op, 0)] if args else None
        if isinstance(operand, torch.Tensor):
            before = self._known.get(_address(operand))
            if isinstance(before, _Distribution):
                if op in _COPIES:
                    return before
                if op in _MAPS and not isinstance(args[1], torch.Tensor):
                    return before.mapped(*_MAPS[op](float(args[1])))
        return f"'{op}'"


def _address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata
