"""Starts processes that communicate by gloo, and collects what each of them found."""

import contextlib
import json
import os
import subprocess
import sys
import time

import torch
import torch.distributed as dist


@contextlib.contextmanager
def join_group(rank, world, store):
    """Makes a started process a member of the group until the end of the context."""
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=world
    )
    yield
    dist.barrier()
    dist.destroy_process_group()


def run_processes(script, world, given, folder):
    """Returns what each of ``world`` processes of a script found.

    Each is called with its rank, the number of processes, a file for the rendezvous, and
    ``given`` as JSON, to which `out` is added: it saves its results as `out`.RANK.
    """
    folder.mkdir(parents=True, exist_ok=True)
    out, store = folder / "found", folder / "store"
    text = json.dumps({**given, "out": str(out)})
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    started = [
        subprocess.Popen(
            [sys.executable, script, str(rank), str(world), str(store), text],
            env=environment, stderr=open(folder / f"errors.{rank}", "w"),
        )
        for rank in range(world)
    ]  # fmt: skip
    try:
        wait(started)
    finally:
        for process in started:
            process.kill()
            process.wait()
    # The last lines, which name the error: reports of tests are cut.
    errors = [(folder / f"errors.{rank}").read_text()[-1500:] for rank in range(world)]
    assert all(process.returncode == 0 for process in started), "".join(errors)
    return [torch.load(f"{out}.{rank}") for rank in range(world)]


def wait(started):
    """Waits until all processes have ended, or one has failed."""
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline:
        codes = [process.poll() for process in started]
        if None not in codes or any(codes):
            return
        time.sleep(0.05)
