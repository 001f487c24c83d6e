"""Ranks of a group as threads of one process, which exchange by arrays and barriers."""

import threading

import numpy as np

# bf16 is only moved, never added.
TYPES = {
    "F32": np.float32, "I32": np.int32, "I64": np.int64, "U8": np.uint8, "BF16": np.uint16,
}  # fmt: skip


class Group:
    """A transport for each rank, which performs every transfer when a bucket starts."""

    def __init__(self, size, order=None):
        self.size = size
        self.order = order or range(size)  # In which sums are formed.
        self.barrier = threading.Barrier(size)
        self.sent = [None] * size
        self.events = [[] for _ in range(size)]

    def transport(self, rank):
        def callback(exchange, event, bucket, stream):
            self.events[rank].append((event, bucket))
            assert (exchange.rank, exchange.size) == (rank, self.size)
            assert stream == 0
            if event == "join":
                assert bucket == exchange.buckets
                return
            for index in range(exchange.transfers(bucket)):
                self.perform(rank, *exchange.transfer(bucket, index))
            exchange.finish(bucket)

        return callback

    def perform(self, rank, operation, dtype, send, receive):
        self.sent[rank] = send.view(TYPES[dtype]).copy()
        self.barrier.wait()
        receive.view(TYPES[dtype])[:] = self.combine(rank, operation)
        self.barrier.wait()

    def combine(self, rank, operation):
        if operation == "max":
            return np.max(self.sent, axis=0)
        if operation == "all_gather":
            return np.concatenate(self.sent)
        if operation == "all_to_all":
            return np.concatenate([np.split(x, self.size)[rank] for x in self.sent])
        total = self.sent[self.order[0]].copy()
        for other in self.order[1:]:
            total += self.sent[other]
        return total


def run_ranks(size, work):
    """Calls ``work(rank)`` on a thread for each rank, and returns the results."""
    results, failures = [None] * size, []

    def run(rank):
        try:
            results[rank] = work(rank)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return results


def divide(batches, rank, size):
    """Returns the batches of a step that a rank executes."""
    return batches[rank * len(batches) // size : (rank + 1) * len(batches) // size]
