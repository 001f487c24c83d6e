"""Measures the time of calls by the device's events, without the overhead of the host."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import peers

Call = Callable[[], object]


def time_graph(call: Call, calls: int = 20, rounds: int = 5) -> float:
    """Returns the microseconds of one of `calls` calls in a CUDA graph: the median of `rounds`."""
    peers.warm_up(call)
    graph = peers.capture(repeat(call, calls))
    graph.replay()
    peers.torch.cuda.synchronize()
    return time_events(graph.replay, rounds) / calls


def time_events(call: Call, rounds: int = 5) -> float:
    """Returns the microseconds of a call by the device's events: the median of `rounds`."""
    torch, times = peers.torch, []
    for _ in range(rounds):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(1e3 * begin.elapsed_time(end))
    return statistics.median(times)


def repeat(call: Call, times: int) -> Call:
    """Returns a function that calls `call` `times` times."""

    def run() -> None:
        for _ in range(times):
            call()

    return run
