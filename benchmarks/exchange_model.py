#!/usr/bin/env python3
"""Checks the model of `binade plan` with gloo over loopback, on the CPU.

    .venv/bin/python benchmarks/exchange_model.py [--rounds N] [--write FABRIC.yaml]

Measures all-reduces of five sizes with two and with four processes, fits latency and bandwidth to
them, predicts those of three processes, which are measured too, and prints the errors. All
processes have one thread. The machine may be busy: in each round, groups of two, three and four
processes take turns, so that all see the same disturbances. What is compared is the shortest time
of all rounds, because disturbances only make times longer, and, for a second opinion, the median.

--write saves the fabric; python/binade/planning/fabrics/loopback.yaml is one. Needs
`utils/setup.sh --with torch`. docs/Planning.md has results.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))

from binade.planning.calibration import Measurement, fit_level, predict  # noqa: E402
from binade.planning.fabric import Fabric, write_fabric  # noqa: E402

# 4 KiB to 4 MiB: larger exchanges last longer than a time slice of a busy machine, so that none
# would be undisturbed.
SIZES = [4 * 2**n for n in (10, 13, 16, 18, 20)]
GROUPS = (2, 3, 4)
FITTED, PREDICTED = (2, 4), 3
SECONDS = 0.1  # Time for each size in a turn.
MOST = 100  # Measurements of a size in a turn, at most.
SUCCESSIVE = 3  # All-reduces that are measured together.
COLD = 64 * 2**20  # Bytes of all buffers of a size.


def work(ranks: int) -> None:
    """Measures in one process of a group whenever its parent writes a line."""
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    memory = torch.zeros(COLD // 4)
    while sys.stdin.readline():
        found = [measure(dist, memory.split(size // 4)) for size in SIZES]
        if dist.get_rank() == 0:
            print(json.dumps(found), flush=True)
    dist.destroy_process_group()


def measure(dist, buffers) -> list[float]:
    """Returns the seconds of all-reduces: successive ones in the process that takes longest, over
    their number.

    A single one may seem too fast: the process that enters it last finds what others have sent,
    the more so if they shared its core.

    Buffers take turns, because gradients are not in a cache when a step exchanges them.
    """
    import torch

    turn = itertools.cycle(buffers)

    def take_some() -> float:
        dist.barrier()
        start = time.perf_counter()
        for _ in range(SUCCESSIVE):
            dist.all_reduce(next(turn))
        return time.perf_counter() - start

    take_some()
    # All processes need the same count.
    first = torch.tensor([take_some()])
    dist.all_reduce(first, op=dist.ReduceOp.MAX)
    count = max(2, min(MOST, int(SECONDS / float(first))))
    found = torch.tensor([take_some() for _ in range(count)], dtype=torch.float64)
    dist.all_reduce(found, op=dist.ReduceOp.MAX)
    return (found / SUCCESSIVE).tolist()


class Group:
    """Processes that measure when it is their turn."""

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks
        self.processes = [self.start(rank) for rank in range(ranks)]

    def start(self, rank: int) -> subprocess.Popen:
        environment = os.environ | {
            "RANK": str(rank), "WORLD_SIZE": str(self.ranks), "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(29700 + self.ranks), "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        return subprocess.Popen(
            [sys.executable, __file__, "--worker", str(self.ranks)], env=environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def take_turn(self) -> list[list[float]]:
        """Returns the seconds of each size."""
        for process in self.processes:
            process.stdin.write("go\n")
            process.stdin.flush()
        line = self.processes[0].stdout.readline()
        if not line:
            raise SystemExit(f"a process of the group of {self.ranks} ended early")
        return json.loads(line)

    def end(self) -> None:
        for process in self.processes:
            process.stdin.close()
        for process in self.processes:
            process.wait()


def collect(rounds: int) -> dict[int, list[list[float]]]:
    """Returns the seconds of each size by the number of processes."""
    groups = [Group(ranks) for ranks in GROUPS]
    times = {ranks: [[] for _ in SIZES] for ranks in GROUPS}
    for number in range(rounds):
        for group in groups if number % 2 == 0 else groups[::-1]:
            for all_times, new in zip(times[group.ranks], group.take_turn()):
                all_times += new
    for group in groups:
        group.end()
    return times


def get_processor() -> str:
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(": ")[2]
    return platform.processor()


def compare(times: dict[int, list[list[float]]], what: str, choose):
    """Fits the level to two and four processes; prints its predictions for three."""
    chosen = {
        ranks: [choose(one) for one in of_sizes] for ranks, of_sizes in times.items()
    }
    level = fit_level("loopback", [
        Measurement(ranks, size, seconds)
        for ranks in FITTED for size, seconds in zip(SIZES, chosen[ranks])
    ], at_once=len(os.sched_getaffinity(0)))  # fmt: skip
    print(f"\n{what} times in ms; errors of the model in brackets")
    print("      size" + "".join(f"{ranks:>12} processes" for ranks in GROUPS))
    errors = []
    for index, size in enumerate(SIZES):
        line = f"{size / 1024:6.0f} KiB"
        for ranks in GROUPS:
            seconds = chosen[ranks][index]
            error = predict(level, ranks, size) / seconds - 1
            line += f"{1e3 * seconds:13.3f} [{100 * error:+4.0f} %]"
            if ranks == PREDICTED:
                errors.append(abs(error))
        print(line)
    print(
        f"latency {1e6 * level.latency:.1f} us, {level.bandwidth / 1e9:.2f} GB/s, "
        f"{level.at_once} at once, {1e6 * level.wakeup:.1f} us until a waiting process runs;\n"
        "three processes predicted from two and four: error "
        f" {100 * max(errors):.0f} % at most, {100 * statistics.median(errors):.0f} % median"
    )
    return level, errors


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=120, help="turns of each group")
    parser.add_argument("--write", type=pathlib.Path, help="fabric file to write")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.worker)
        return
    import torch

    cores = len(os.sched_getaffinity(0))
    about = (
        f"gloo over loopback, PyTorch {torch.__version__}, {cores} cores of an "
        f"{get_processor()}, load {os.getloadavg()[0]:.1f}"
    )
    print(about)
    times = collect(options.rounds)
    level, errors = compare(times, "shortest", min)
    compare(times, "median", statistics.median)
    if options.write:
        comment = (
            f"{about}.\nFitted to the shortest times of all-reduces of 4 KiB to 4 MiB with two "
            "and four processes by\nbenchmarks/exchange_model.py; three processes are predicted "
            f"within {100 * max(errors):.0f} %."
        )
        fabric = Fabric("gloo over loopback", (level,), costs="x86-64-v3")
        options.write.write_text(write_fabric(fabric, comment))


if __name__ == "__main__":
    main()
