"""Measures memory and time of a rank whose group shards the optimizer states of a compiled
step (``shard="zero1"``), against FSDP2 with AdamW of PyTorch and of torchao, on the same model.

    python3 benchmarks/zero.py --json docs/results/zero.json

Each way to train runs in processes of its own, one thread each, with gloo. Memory is what a
process has resident, and shares with no file, beyond what it has after all imports: the peak until
the last step ends, and then, after `malloc_trim`. Binade's steps are loaded from bundles, so that the memory of the
compiler does not count. FSDP2 also shards parameters and gradients. The ways take turns, so that
other programs slow down all of them.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from distributed import name_processor, summarize
from torch import nn

# Ways to train: the library, and its optimizer or format of states.
WAYS = {
    "binade none f32": ("binade", "none", "f32"),
    "binade zero1 f32": ("binade", "zero1", "f32"),
    "binade none dyn8": ("binade", "none", "dyn8"),
    "binade zero1 dyn8": ("binade", "zero1", "dyn8"),
    "FSDP2 AdamW": ("fsdp2", "", "AdamW"),
    "FSDP2 AdamW8bit": ("fsdp2", "", "AdamW8bit"),
}
WIDTH, LAYERS, BATCH = 2048, 8, 32
RANKS = (2, 4)
MIB = 2**20


def make_model() -> nn.Module:
    """Returns a model whose states take much more memory than its activations."""
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for _ in range(LAYERS):
        layers += [nn.Linear(WIDTH, WIDTH), nn.GELU()]
    return nn.Sequential(*layers, nn.Linear(WIDTH, 16))


def get_loss(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(scores, labels)


def make_batch() -> dict[str, torch.Tensor]:
    torch.manual_seed(dist.get_rank() if dist.is_initialized() else 0)
    return {
        "input": torch.randn(BATCH, WIDTH),
        "labels": torch.randint(0, 16, (BATCH,)),
    }


def read_memory(key: str) -> int:
    """Returns what the process has resident and shares with no file, in bytes."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {key}")


class PeakWatch:
    """Reads the memory of the process again and again."""

    def __init__(self) -> None:
        self.peak = 0
        self._isOver = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._isOver.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._isOver.wait(0.005):
            self.peak = max(self.peak, read_memory("RssAnon"))


Prepare = Callable[[], tuple[Callable[[], None], dict[str, int]]]


def make_binade_step(folder: str, shard: str, states: str) -> Prepare:
    """Returns a function that returns a function that executes a step, and the bytes of the
    ledger."""
    import binade
    import binade.torch

    def prepare() -> tuple[Callable[[], None], dict[str, int]]:
        path = name_bundle(folder, dist.get_world_size(), states)
        step = binade.torch.distribute(binade.load(path, threads=1), shard=shard)
        batch = {name: value.numpy() for name, value in make_batch().items()}
        ledger = step.plan()["ledger"]
        own = {name: ledger.get(name, 0) for name in ("parameter", "gradient", "state")}
        return lambda: step(batch), own

    return prepare


def make_fsdp_step(optimizer: str) -> Prepare:
    from torch.distributed.fsdp import fully_shard

    if optimizer == "AdamW8bit":
        from torchao.optim import AdamW8bit as make_optimizer
    else:
        make_optimizer = functools.partial(torch.optim.AdamW, fused=True)

    def prepare() -> tuple[Callable[[], None], dict[str, int]]:
        mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
        model = make_model()
        for layer in model:
            if isinstance(layer, nn.Linear):
                fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        update = make_optimizer(model.parameters(), lr=1e-4)
        batch = make_batch()

        def run() -> None:
            get_loss(model(batch["input"]), batch["labels"]).backward()
            update.step()
            update.zero_grad()

        return run, {}

    return prepare


def train(way: str, folder: str, steps: int) -> dict[str, Any]:
    """Returns what a rank takes for a way to train."""
    library, shard, kind = WAYS[way]
    if library == "binade":
        prepare = make_binade_step(folder, shard, kind)
    else:
        prepare = make_fsdp_step(kind)
    before = read_memory("RssAnon")
    times = []
    with PeakWatch() as watch:
        run, ledger = prepare()
        started = watch.peak
        for number in range(steps + 2):
            dist.barrier()
            begin = time.perf_counter()
            run()
            if number >= 2:
                times.append(1e3 * (time.perf_counter() - begin))
    ctypes.CDLL(None).malloc_trim(0)
    after = read_memory("RssAnon")
    return {
        "peak_MiB": round((watch.peak - before) / MIB, 1),
        "peak_before_steps_MiB": round((started - before) / MIB, 1),
        "steady_MiB": round((after - before) / MIB, 1),
        "ledger_MiB": {name: round(size / MIB, 1) for name, size in ledger.items()},
        "step_ms": summarize(times),
    }


def work(arguments: argparse.Namespace) -> None:
    """What a rank does."""
    torch.set_num_threads(1)
    store = f"file://{arguments.store}"
    dist.init_process_group(
        "gloo", init_method=store, rank=arguments.rank, world_size=arguments.ranks
    )
    found = train(arguments.way, arguments.folder, arguments.steps)
    every: list[Any] = [None] * arguments.ranks
    dist.all_gather_object(every, found)
    if arguments.rank == 0:
        print(json.dumps(every))
    dist.barrier()
    dist.destroy_process_group()


def run_way(way: str, ranks: int, steps: int, bundles: str) -> list[dict[str, Any]]:
    """Returns what each rank of a group of processes takes."""
    with tempfile.TemporaryDirectory() as folder:
        words = [
            sys.executable, __file__, "--way", way, "--ranks", str(ranks), "--steps",
            str(steps), "--folder", bundles, "--store", f"{folder}/store",
        ]  # fmt: skip
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
        }
        started = [
            subprocess.Popen([*words, "--rank", str(rank)], env=environment,
                             stdout=subprocess.PIPE, text=True)
            for rank in range(ranks)
        ]  # fmt: skip
        texts = [one.communicate()[0] for one in started]
    if any(one.returncode for one in started):
        raise RuntimeError(f"{way} on {ranks} ranks failed")
    return json.loads(texts[0])


def summarize_ranks(every: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the largest of each number of all ranks, and the times of rank 0."""
    names = ("peak_MiB", "peak_before_steps_MiB", "steady_MiB")
    ledgers = [one["ledger_MiB"] for one in every]
    return {name: max(one[name] for one in every) for name in names} | {
        "ledger_MiB": {
            name: max(ledger[name] for ledger in ledgers) for name in ledgers[0]
        },
        "step_ms": every[0]["step_ms"],
    }


def name_bundle(folder: str, ranks: int, states: str) -> str:
    return f"{folder}/{ranks}-{states}.bnd"


def write_bundles(folder: str) -> None:
    """Compiles the steps for all numbers of ranks and formats of states."""
    import binade
    from binade.export import export_onnx

    path = f"{folder}/model.onnx"
    export_onnx(make_model(), make_batch(), path, loss=get_loss)
    for ranks in RANKS:
        for states in ("f32", "dyn8"):
            step = binade.compile(
                path, optimizer="adamw", states=states, settings={"lr": 1e-4}, threads=1,
                accumulate=ranks, exchange="f32",
            )  # fmt: skip
            step.write(name_bundle(folder, ranks, states))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--repeat", type=int, default=1, help="processes of each way")
    parser.add_argument("--json", type=pathlib.Path, help="write the results")
    for name in ("way", "folder", "store"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    parser.add_argument("--ranks", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.way:
        return work(arguments)
    load = os.getloadavg()[0]
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        write_bundles(folder)
        for ranks in RANKS:
            runs: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
            for _ in range(arguments.repeat):
                for way, known in runs.items():
                    every = run_way(way, ranks, arguments.steps, folder)
                    known.append(summarize_ranks(every))
            found[str(ranks)] = {way: merge(known) for way, known in runs.items()}
    count = sum(value.numel() for value in make_model().parameters())
    report = {
        "processor": name_processor(),
        "cores": os.cpu_count(),
        "load_before": round(load, 1),
        "versions": {"torch": torch.__version__},
        "parameters": count,
        "parameters_MiB": round(4 * count / MIB, 1),
        "ranks": found,
    }
    print(json.dumps(report, indent=2))
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")


def merge(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns medians over runs in other processes, and the times of the fastest."""
    names = ("peak_MiB", "peak_before_steps_MiB", "steady_MiB")
    fastest = min(runs, key=lambda one: one["step_ms"]["median"])
    return {name: statistics.median(one[name] for one in runs) for name in names} | {
        "ledger_MiB": runs[0]["ledger_MiB"],
        "step_ms": fastest["step_ms"],
    }


if __name__ == "__main__":
    main()
