"""A process that exchanges gradients on the simulated driver; started by
test_cuda_exchange.py.

    python simulated_exchange.py BUNDLE OUT SIZE

Trains as rank 0 of a group of SIZE, whose other ranks have gradients of 0, and saves the
events of the transport, the parameters, and the generator.
"""

import json
import sys

import numpy as np
from support.exchanged_steps import draw_batches, run_step
from support.rank_threads import divide

import binade


def main(bundle, out, size):
    step = binade.load(bundle, device="cuda", seed=3, alarms="off")
    events, streams = [], set()

    def transport(exchange, event, bucket, stream):
        events.append((event, bucket))
        streams.add(stream)
        if event == "join":
            return
        operation, dtype, send, receive = exchange.transfer(bucket, 0)
        assert (operation, dtype, exchange.transfers(bucket)) == ("sum", "F32", 1)
        assert send == receive
        address, count = send
        assert address % 64 == 0
        assert count % 4 == 0
        exchange.finish(bucket)

    if size:
        step._program.set_exchange(0, size, transport)
    batches = divide(draw_batches(step), 0, size or 1)
    for _ in range(3):  # The first step is enqueued, the others are graphs.
        run_step(step, batches)
    values = {name: np.asarray(value) for name, value in step.parameters.items()}
    np.savez(
        out, rng=np.asarray(step._program.tensor("rng", "rng")).view(np.int64), **values
    )
    print(json.dumps({"events": events, "streams": len(streams), "null": 0 in streams}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
