"""Checks batches and copies them to the inputs of a compiled step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from binade.errors import UsageError
from binade.ports import Ports


def as_batches(
    batch: Mapping[str, object] | Sequence[Mapping[str, object]],
    count: int,
    inputs: Iterable[str],
) -> list[Mapping[str, object]]:
    """Returns the ``count`` batches of a step from one batch or a sequence of batches.

    Raises:
      UsageError: If a batch is not a dictionary, or their number is wrong.
    """
    batches = list(batch) if isinstance(batch, Sequence) else [batch]
    for one in batches:
        if not isinstance(one, Mapping):
            raise UsageError(
                "a batch is a dictionary of arrays by the names of the model's "
                f"inputs ({', '.join(inputs)}), got {type(one).__name__}"
            )
    if len(batches) != count:
        raise UsageError(
            f"a step takes {count} batch{'es' if count > 1 else ''}, got {len(batches)}"
        )
    return batches


def fill(inputs: Ports, batch: Mapping[str, object]) -> None:
    """Writes the values of a batch to the inputs of the model.

    Raises:
      UsageError: If an input is missing or unknown, or has another type or shape.
      RejectedError: If an index is out of range.
    """
    missing = [name for name in inputs if name not in batch]
    if missing:
        raise UsageError(
            f"the batch lacks '{missing[0]}'; the model's inputs are "
            f"{', '.join(inputs)}"
        )
    for name, values in batch.items():
        inputs.set(name, values)
