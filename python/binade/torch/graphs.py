"""The update of an optimizer as an operator of PyTorch, which ``torch.compile`` and graphs
contain as a whole."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from binade.torch.optimizer import Optimizer

_numbers = itertools.count()
_optimizers: weakref.WeakValueDictionary[int, Optimizer] = weakref.WeakValueDictionary()


def register(optimizer: Optimizer) -> int:
    """Returns the number by which ``step_in_graph`` finds an optimizer."""
    number = next(_numbers)
    _optimizers[number] = optimizer
    return number


def _step(
    number: int,
    parameters: Sequence[torch.Tensor],
    gradients: Sequence[torch.Tensor | None],
) -> None:
    optimizer = _optimizers[number]
    with torch.no_grad():
        optimizer.apply(parameters, gradients)
    optimizer.forget_versions()  # The graph may copy the results to the parameters.


# The annotations above are texts, of which PyTorch cannot infer the schema.
_library = torch.library.Library("binade", "FRAGMENT")
# Graphs that are replayed would leave out what the host does in a step, such as reading
# learning rates.
_library.define(
    "step(SymInt number, Tensor(a!)[] parameters, Tensor?[] gradients) -> ()",
    tags=(torch.Tag.cudagraph_unsafe,),
)
_library.impl("step", _step, "CompositeExplicitAutograd")
_library._register_fake("step", lambda number, parameters, gradients: None)


def step_in_graph(
    number: int,
    parameters: Sequence[torch.Tensor],
    gradients: Sequence[torch.Tensor | None],
) -> None:
    """Adds a step of an optimizer to the graph that is being compiled.

    Args:
      number: What ``register`` returned.
      parameters: All parameters, in the order of their groups, which are written to.
      gradients: Their gradients.
    """
    torch.ops.binade.step(number, parameters, gradients)
