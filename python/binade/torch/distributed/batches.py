"""Divides the data of a run among ranks: by the number of a batch in the whole run."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np

from binade import _core
from binade.compiled_step import TrainStep
from binade.errors import UsageError

_ORDERS = ("shuffle", "sequential")
_MOST_HASHED = 1 << 30  # Bytes of a file; about a second.
_MANY = 1000  # Batches that are passed over one by one, instead of a new shuffle.


class Batches:
    """The batches of a data file, in the order of ``binade train``.

    Batch ``number``, from 0, is the same on all ranks, so that ranks that compute different
    numbers have different batches. It depends on the file, the size of a batch, and the
    seed. In an epoch no sample is repeated; samples that do not fill a batch are left out.

    Example:
      >>> batches = binade.torch.Batches(step, "train.safetensors", seed=0)
      >>> metrics = step(step.take(batches))
    """

    def __init__(
        self,
        step: TrainStep,
        path: str | os.PathLike[str],
        *,
        window: str = "",
        stride: int = 0,
        order: str = "shuffle",
        seed: int = 0,
    ) -> None:
        """Opens a data file for the inputs of a step, and checks it.

        Args:
          step: The step. Reading a batch writes it to the step's inputs.
          path: A data file, as ``--data`` of ``binade train`` takes it.
          window: As ``--window`` of ``binade train``, for streams of tokens:
            ``"input_ids=tokens[0:128],labels=tokens[1:129]"``.
          stride: As ``--stride`` of ``binade train``.
          order: ``"shuffle"`` or ``"sequential"``.
          seed: The seed of the order in which samples are drawn.

        Raises:
          UsageError: If an argument is wrong.
          RejectedError: If the file does not fit the inputs of the step.
        """
        if order not in _ORDERS:
            raise UsageError(f"order is 'shuffle' or 'sequential', got {order!r}")
        self._inputs = step.batch
        self._data = _core.open_data(step._program, os.fspath(path), window, stride)
        self._path = os.fspath(path)
        self._kind = (order == "shuffle", self.samples, self._data.batch(), seed)
        self._next = 0
        self._start(0)

    @property
    def samples(self) -> int:
        """The number of samples."""
        return self._data.samples()

    @property
    def batch(self) -> int:
        """The number of samples of a batch."""
        return self._data.batch()

    @property
    def order(self) -> str:
        """``"shuffle"`` or ``"sequential"``."""
        return "shuffle" if self._kind[0] else "sequential"

    def describe_file(self) -> dict[str, object]:
        """Returns path, bytes and SHA-256 of the data file. Other ranks wait meanwhile, so a
        directory, or a file over 1 GiB, has an empty hash."""
        path = Path(self._path)
        files = (
            [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]
        )
        size = sum(one.stat().st_size for one in files)
        digest = ""
        if path.is_file() and size <= _MOST_HASHED:
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        return {"path": self._path, "bytes": size, "sha256": digest}

    def __len__(self) -> int:
        """The number of batches of an epoch."""
        return self.samples // self._data.batch()

    def __call__(self, number: int) -> dict[str, np.ndarray]:
        """Returns batch ``number`` of the run: arrays by the names of inputs."""
        if not self._next <= number < self._next + _MANY:
            self._start(number)
        for _ in range(number - self._next):
            self._order.next()
        self._data.fill(self._order.next())
        self._next = number + 1
        return {name: self._inputs[name].copy() for name in self._inputs}

    def _start(self, number: int) -> None:
        self._order = _core.SampleOrder(*self._kind)
        self._order.skip(number)
        self._next = number
