"""Performs the exchange of a step by collectives of torch.distributed."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from binade.errors import PeerError
from binade.torch.distributed.ranks import translate_collective_errors

_TYPES = {
    "F32": torch.float32,
    "BF16": torch.bfloat16,
    "U8": torch.uint8,
    "I32": torch.int32,
    "I64": torch.int64,
}


def view(memory: np.ndarray, dtype: str) -> torch.Tensor:
    """Returns a tensor over the memory of a transfer."""
    return torch.from_numpy(memory).view(_TYPES[dtype])


def transfer(
    group: dist.ProcessGroup, operation: str, dtype: str, send: Any, receive: Any
) -> None:
    """Performs one transfer, and returns when it is complete."""
    if operation in ("sum", "max"):
        kind = getattr(dist.ReduceOp, operation.upper())
        dist.all_reduce(view(receive, dtype), kind, group=group)
        return
    # As bytes, because not all backends transfer all types.
    to, data = torch.from_numpy(receive), torch.from_numpy(send)
    if operation == "all_to_all":
        dist.all_to_all_single(to, data, group=group)
    elif operation != "all_gather":
        raise ValueError(f"unknown transfer {operation!r}")
    elif dist.get_backend(group) == "gloo":
        gather_in_ring(group, to, data)
    else:
        dist.all_gather_into_tensor(to, data, group=group)


def gather_in_ring(
    group: dist.ProcessGroup, receive: torch.Tensor, send: torch.Tensor
) -> None:
    """Gathers what all ranks send, without the copies that gloo's all-gather makes of both
    tensors, whose memory the process keeps."""
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    parts = receive.chunk(size)
    if parts[rank].data_ptr() != send.data_ptr():
        parts[rank].copy_(send)
    for step in range(size - 1):
        works = [
            dist.isend(parts[rank - step], group=group, group_dst=(rank + 1) % size),
            dist.irecv(
                parts[rank - step - 1], group=group, group_src=(rank - 1) % size
            ),
        ]
        for work in works:
            if work is not None:
                work.wait()


class Transport:
    """Exchanges the buckets of a step on a thread of its own, in order, while the step
    continues. ``Program.set_exchange`` takes it."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        self._group = group
        self._started: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._unfinished: list[threading.Event] = []
        self._error: BaseException | None = None

    def __call__(self, exchange: Any, event: str, bucket: int, stream: int) -> None:
        """Called by the step: ``start`` when the gradients of a bucket are complete, and
        ``join`` before the first use of any.

        Raises:
          PeerError: If another process failed; in each later step, too, because the
            collectives of the ranks may belong to different calls.
        """
        if self._error is not None:
            raise self._error
        if event == "start":
            self._start(exchange, bucket)
        else:
            self._join()

    def _start(self, exchange: Any, bucket: int) -> None:
        if self._thread is None:
            # Not waited for when the interpreter ends: a peer may never answer.
            self._thread = threading.Thread(
                target=self._work, name="binade-exchange", daemon=True
            )
            self._thread.start()
        isDone = threading.Event()
        self._unfinished.append(isDone)

        def perform() -> None:
            try:
                if self._error is None:
                    self._exchange(exchange, bucket)
            except BaseException as error:  # Raised by the step.
                self._error = error
            finally:
                isDone.set()

        self._started.put(perform)

    def _work(self) -> None:
        while True:
            self._started.get()()

    def _exchange(self, exchange: Any, bucket: int) -> None:
        for index in range(exchange.transfers(bucket)):
            operation, dtype, send, receive = exchange.transfer(bucket, index)
            with translate_collective_errors(
                f"exchanging bucket {bucket} of {exchange.buckets}"
            ):
                transfer(self._group, operation, dtype, send, receive)
        exchange.finish(bucket)

    def _join(self) -> None:
        unfinished, self._unfinished = self._unfinished, []
        try:
            for isDone in unfinished:
                isDone.wait()
        except BaseException:  # A signal: collectives continue without this step.
            self._error = PeerError("an exchange was interrupted: restart all ranks")
            raise
        if self._error is not None:
            raise self._error
