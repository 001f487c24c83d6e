"""``distribute``: a compiled step that several processes execute together."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from binade.compiled_step import TrainStep
from binade.errors import PeerError, UsageError
from binade.run import format_mib
from binade.torch.distributed import identity
from binade.torch.distributed.state_shards import StateShards, StateBytes
from binade.torch.distributed.ranks import Ranks
from binade.torch.distributed.transport import Transport

_LOG = logging.getLogger("binade")

# Statistics of which the smallest of all ranks is reported, instead of the largest.
_SMALLEST = ("min", "sqnr")


class DistributedStep(TrainStep):
    """A compiled step that several processes execute together: each computes the gradients
    of its batches of a step, and all apply the same update.

    It is called as a ``TrainStep`` with the batches of this rank, ``share``. Parameters,
    states, settings, loss, norm and alarms are the same on all ranks.

    Attributes:
      rank: The number of this process, from 0.
      size: The number of processes.
      exchange: The format of the exchange.
      share: Which of a step's ``accumulate`` batches this rank computes.
      shard: ``"zero1"`` if the optimizer states are sharded: then ``states`` has
        this rank's elements of them; otherwise ``"none"``.
      state_bytes: The bytes of states of this rank and of all.
    """

    def __init__(
        self, step: TrainStep, ranks: Ranks, format: str, shard: str = "none"
    ) -> None:
        vars(self).update(vars(step))
        self._ranks = ranks
        self._shards: StateShards | None = None
        self.shard = shard
        if shard != "none" and ranks.size > 1:
            self._shard_states()
        self.state_bytes = StateBytes(*self._program.state_bytes())
        self.rank, self.size = ranks.rank, ranks.size
        self.exchange = format
        self.share = divide(self._program.batches(), ranks.rank, ranks.size)
        # The same length on all ranks, for collectives.
        self._max_batches = -(-self._program.batches() // ranks.size)
        self._watch.isLogged = ranks.is_rank_zero
        self._request = 0  # A signal that this rank got.
        self._agreed = 0  # A signal that a rank had got when the last call ended.

    def _shard_states(self) -> None:
        """Continues with a program that has only the states of this rank."""
        ranks = self._ranks
        program = self._program.shard_states(ranks.rank, ranks.size)
        self._watch = self._watch.watch_other(program)
        self._set_program(program)
        self._shards = StateShards(ranks, program)
        own, whole, repeated = program.state_bytes()
        if not ranks.is_rank_zero:
            return
        if repeated == whole:
            _LOG.warning(
                "shard='zero1' saves no memory: this optimizer has no states, or needs "
                "whole ones on every rank, such as Muon's momentum; use shard='none'"
            )
        else:
            _LOG.info(
                "shard='zero1': rank 0 has %s MiB of optimizer states, of %s MiB in all; "
                "%s MiB are on every rank",
                format_mib(own), format_mib(whole), format_mib(repeated),
            )  # fmt: skip

    def _count_batches(self) -> int:
        return len(self.share)

    def run(self) -> None:
        """Executes the step on the data in its ports, without schedules and alarms.

        Raises:
          UsageError: If this rank has several batches: call the step with them.
        """
        if len(self.share) > 1:
            raise UsageError(
                f"rank {self.rank} has {len(self.share)} batches of a step, and run() has "
                "the one in the step's memory: call the step with a list of batches"
            )
        self._program.run()

    def _average(self, losses: Sequence[float]) -> float:
        """Adds the losses of all batches in their order, as one process does. Also lets all
        ranks have the same statistics."""
        due = self._list_due()
        numbers = [value for name in due for value in self._flatten(name)]
        padded = [*losses] + [0.0] * (self._max_batches - len(losses))
        every = self._ranks.all_gather_f64([float(self._request), *padded, *numbers])
        self._agreed = int(max(row.pop(0) for row in every))
        if self.size > 1:
            self._combine(due, [row[self._max_batches :] for row in every])
        counts = [
            len(divide(self._program.batches(), rank, self.size))
            for rank in range(self.size)
        ]
        rows = [row[:count] for row, count in zip(every, counts)]
        return super()._average([loss for row in rows for loss in row])

    def _list_due(self) -> list[str]:
        """Returns the statistics of the call that is running."""
        number = self.calls + 1
        return sorted(n for n, every in self._periods.items() if number % every == 0)

    def _flatten(self, name: str) -> list[float]:
        return self.ports("statistic")[name].astype(np.float64).reshape(-1).tolist()

    def _combine(self, names: Sequence[str], every: Sequence[Sequence[float]]) -> None:
        """Writes to the statistics of this rank those of all, which alarms then see."""
        ports, begin = self.ports("statistic"), 0
        rows = np.asarray(every, np.float64)
        for name in names:
            own = ports[name]
            values, begin = rows[:, begin : begin + own.size], begin + own.size
            kind = name.rpartition("/")[2].partition("(")[0]
            choose = np.min if kind in _SMALLEST else np.max
            # NaN if any is NaN.
            ports.set(name, choose(values, axis=0).reshape(own.shape).astype(own.dtype))

    def take(
        self, batches: Callable[[int], Mapping[str, object]]
    ) -> list[Mapping[str, object]]:
        """Returns this rank's batches of the next call.

        Args:
          batches: Returns a batch of the run by its number, from 0, the same on all ranks,
            such as ``binade.torch.Batches``. Call ``n`` from 0 on has the batches
            ``n * accumulate`` to ``(n + 1) * accumulate - 1``.
        """
        first = self.calls * self._program.batches()
        return [batches(first + index) for index in self.share]

    def save(self, path: str | os.PathLike) -> None:
        """Writes parameters, buffers, states and counters to a safetensors file, from rank 0.
        All ranks have to call this; it returns when the file is complete."""
        shards = self._shards
        if shards is None:
            self._ranks.call_on_rank_zero(lambda: TrainStep.save(self, path))
            return
        error = self._save_whole(os.fspath(path), shards)
        self._ranks.call_on_rank_zero(lambda: _raise(error))

    def _save_whole(self, path: str, shards: StateShards) -> Exception | None:
        """Gathers one state after the other on rank 0, which writes them. Returns its
        error."""
        left = list(shards.shapes)

        def read(name: str) -> np.ndarray:
            whole = shards.gather(name, 0)
            left.remove(name)
            assert whole is not None
            return whole.reshape(-1).view(torch.uint8).numpy()

        error = None
        if self._ranks.is_rank_zero:
            try:
                self._program.save(path, read)
            except PeerError:
                raise
            except Exception as raised:
                error = raised  # The others are still sending.
        for name in left:
            shards.gather(name, 0)
        return error

    def __repr__(self) -> str:
        own, whole, _ = self.state_bytes
        states = f", {own} of {whole} bytes of states" if self._shards else ""
        return f"{super().__repr__()}, rank {self.rank} of {self.size}{states}"


def _raise(error: Exception | None) -> None:
    if error is not None:
        raise error


def divide(batches: int, rank: int, size: int) -> range:
    """Returns which of a step's batches a rank computes: consecutive ones, in the order of
    ranks."""
    return range(rank * batches // size, (rank + 1) * batches // size)


def distribute(
    step: TrainStep,
    group: Any = None,
    *,
    shard: str = "none",
    reduce: str | None = None,
    timeout: float = 50.0,
) -> DistributedStep:
    """Lets the processes of a group execute a compiled step together (docs/Distributed.md).

    The step has to be compiled with the option ``exchange``. Its ``accumulate`` is the number
    of batches of a step of all ranks together. All ranks have to call this, with the same
    step; use only what it returns afterwards.

    Args:
      step: What ``binade.compile`` or ``binade.load`` returned.
      group: The processes: a process group of ``torch.distributed`` or a mesh with one axis;
        by default all.
      shard: ``"none"``: each rank has all states and updates all parameters; or
        ``"zero1"``: each has a shard of the states, updates the parameters that belong to
        it, and gets the others from the other ranks. The results have the same bits.
      reduce: ``"exact"``: the sums of gradients have the same bits for any number of ranks;
        or ``"library"``: those of the library. It has to agree with the option
        ``exchange`` of the step; by default what that says.
      timeout: After how many seconds without an answer a rank counts as failed.

    Raises:
      UsageError: If an argument is wrong, the step has no exchange or fewer batches than
        there are ranks, or ranks differ in model, policy, settings, seed or version.
      PeerError: If another process fails.
    """
    _check_options(shard, reduce)
    found: Any = step._program.exchange()
    if found is None:
        raise UsageError(
            "distribute: the step exchanges nothing: compile it with exchange='f32', or "
            "with exchange='exact' for the same bits with any number of ranks"
        )
    if step.device != "cpu":
        raise UsageError(
            f"distribute: the step is on {step.device}: only steps on the CPU can be "
            "distributed so far"
        )
    format: str = found["format"]
    if reduce is not None and (reduce == "exact") != (format == "exact"):
        wanted = "exact" if reduce == "exact" else "f32"
        raise UsageError(
            f"distribute: reduce={reduce!r} does not fit to the step, which was compiled "
            f"with exchange={format!r}: compile it with exchange={wanted!r}"
        )
    ranks = Ranks(group, timeout)
    about = {"format of the exchange": format, "argument shard": shard}
    identity.check_equal(ranks.all_gather_object(identity.describe_rank(step, about)))
    distributed = DistributedStep(step, ranks, format, shard)
    if ranks.exchange is not None:
        transport = Transport(ranks.exchange)
        distributed._program.set_exchange(ranks.rank, ranks.size, transport)
    return distributed


def _check_options(shard: str, reduce: str | None) -> None:
    if shard not in ("none", "zero1"):
        raise UsageError(f"distribute: shard is 'none' or 'zero1', got {shard!r}")
    if reduce not in (None, "library", "exact"):
        raise UsageError(f"distribute: reduce is 'library' or 'exact', got {reduce!r}")
