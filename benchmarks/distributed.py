"""Measures the exchange of a compiled step on several processes, against PyTorch's DDP on the
same model, and which share of it the backward pass hides.

    torchrun --nproc-per-node=2 benchmarks/distributed.py --exchange f32 --profile profile.json

Each rank computes one batch per step on one thread. What an exchange costs is the time of a
step minus that of a step without exchange; both and those of PyTorch alternate, after a
barrier. Other programs on the machine make single times longer; the ratio of the shortest times
is the least disturbed. With one rank, what is measured is the processor time of an exchange
without another process.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import binade
import binade.torch
import numpy as np
import torch
import torch.distributed as dist
from binade.torch.distributed import step as distributed_step
from binade.torch.distributed.transport import Transport
from runtime import ROOT

sys.path.insert(0, str(ROOT / "examples" / "char-gpt"))


class TimedTransport(Transport):
    """Notes when the exchange of each bucket begins and ends, and how long steps wait."""

    latest: TimedTransport

    def __init__(self, group: Any) -> None:
        super().__init__(group)
        TimedTransport.latest = self
        self.begin = 0.0
        self.waited = 0.0
        self.joined = 0.0
        self.buckets: list[dict[str, float]] = []

    def _start(self, exchange: Any, bucket: int) -> None:
        if bucket == 0:
            self.buckets = []
        self.buckets.append({"bucket": bucket, "ready": time.perf_counter()})
        super()._start(exchange, bucket)

    def _exchange(self, exchange: Any, bucket: int) -> None:
        begin = time.perf_counter()
        super()._exchange(exchange, bucket)
        self.buckets[bucket] |= {"begin": begin, "end": time.perf_counter()}

    def _join(self) -> None:
        self.joined = time.perf_counter()
        super()._join()
        self.waited = time.perf_counter() - self.joined

    def read(self) -> dict[str, Any]:
        """Returns what the last step took, in ms."""
        busy = sum(one["end"] - one["begin"] for one in self.buckets)
        return {
            "busy_ms": 1e3 * busy,
            "waited_ms": 1e3 * self.waited,
            "hidden": 1 - self.waited / busy,
        }

    def profile(self, begin: float, end: float) -> dict[str, Any]:
        """Returns the times of a step from its begin, in ms."""
        buckets = [
            {
                k: v if k == "bucket" else round(1e3 * (v - begin), 2)
                for k, v in one.items()
            }
            for one in self.buckets
        ]
        return {
            "join": round(1e3 * (self.joined - begin), 2),
            "end": round(1e3 * (end - begin), 2),
            "buckets": buckets,
        }


def make_torch_steps() -> tuple[Callable[[], None], Callable[[], None]]:
    """Returns a step with DDP, and the same step without exchange."""
    import model

    torch.manual_seed(0)
    module = model.make_mini()
    distributed = torch.nn.parallel.DistributedDataParallel(module)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4, fused=True)
    batch = {
        name: torch.randint(0, 90, ids.shape)
        for name, ids in model.make_mini_batch().items()
    }

    def run(network: torch.nn.Module) -> None:
        optimizer.zero_grad(set_to_none=True)
        model.cross_entropy(network(batch["input_ids"]), batch["labels"]).backward()
        optimizer.step()

    return lambda: run(distributed), lambda: run(module)


def make_binade_steps(exchange: str) -> tuple[Callable[[], None], Callable[[], None]]:
    """Returns a distributed step, and the same step without exchange."""
    path = ROOT / "examples" / "char-gpt" / "mini.onnx"
    options: dict[str, Any] = {"optimizer": "adamw", "threads": 1}
    distributed_step.Transport = TimedTransport  # type: ignore[misc]
    step = binade.torch.distribute(
        binade.compile(
            path, accumulate=dist.get_world_size(), exchange=exchange, **options
        )
    )
    alone = binade.compile(path, **options)
    random = np.random.default_rng(dist.get_rank())
    batch = {n: random.integers(0, 90, step.batch[n].shape) for n in step.batch}
    return lambda: step(batch), lambda: alone(batch)


def measure(
    calls: dict[str, Callable[[], None]], pairs: int
) -> tuple[dict[str, list[float]], list[dict[str, Any]], dict[str, Any]]:
    """Returns times in ms by name, what the exchanges took, and a profile of one."""
    isAlone = dist.get_world_size() == 1
    clock = time.process_time if isAlone else time.perf_counter
    times: dict[str, list[float]] = {name: [] for name in calls}
    exchanges, profile = [], {}
    for pair in range(-2, pairs):
        for name, call in calls.items():
            dist.barrier()
            begin, start = time.perf_counter(), clock()
            call()
            end, stop = time.perf_counter(), clock()
            if pair < 0:
                continue
            times[name].append(1e3 * (stop - start))
            if name == "binade" and not isAlone:
                exchanges.append(TimedTransport.latest.read())
                profile = TimedTransport.latest.profile(begin, end)
    return times, exchanges, profile


def divide(times: dict[str, list[float]], ours: str, peer: str) -> dict[str, float]:
    """Returns the ratio of paired times, and that of the shortest times."""
    ratios = [a / b for a, b in zip(times[ours], times[peer])]
    return summarize(ratios) | {
        "shortest": round(min(times[ours]) / min(times[peer]), 3)
    }


def summarize(values: list[float]) -> dict[str, float]:
    if not values:
        return {}
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return {"median": round(median, 3), "low": round(low, 3), "high": round(high, 3)}


def name_processor() -> str:
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    return next(x.partition(": ")[2] for x in lines if x.startswith("model name"))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--exchange", default="f32", help="f32, bf16, e4m3 or exact")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--profile", type=pathlib.Path, help="write all as JSON")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    ddp, torch_alone = make_torch_steps()
    ours, ours_alone = make_binade_steps(arguments.exchange)
    calls = {"binade": ours, "binade alone": ours_alone, "ddp": ddp,
             "torch alone": torch_alone}  # fmt: skip
    times, exchanges, profile = measure(calls, arguments.pairs)
    found = {
        "processor": name_processor(),
        "ranks": dist.get_world_size(),
        "exchange": arguments.exchange,
        "times_ms": {name: summarize(values) for name, values in times.items()},
        "binade / binade alone": divide(times, "binade", "binade alone"),
        "ddp / torch alone": divide(times, "ddp", "torch alone"),
        "binade / ddp": divide(times, "binade", "ddp"),
        "hidden": summarize([one["hidden"] for one in exchanges]),
        "busy_ms": summarize([one["busy_ms"] for one in exchanges]),
        "profile_of_one_step_ms": profile,
    }
    if dist.get_rank() == 0:
        print(json.dumps(found, indent=2))
        if arguments.profile:
            arguments.profile.write_text(json.dumps(found, indent=2) + "\n")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
