"""Starts processes that communicate by gloo, and collects what each of them found."""

import json
import os
import subprocess
import sys

import torch


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
            env=environment, stderr=subprocess.PIPE, text=True,
        )
        for rank in range(world)
    ]  # fmt: skip
    try:
        for process in started:
            _, errors = process.communicate(timeout=600)
            assert process.returncode == 0, errors
    finally:
        for process in started:
            process.kill()
    return [torch.load(f"{out}.{rank}") for rank in range(world)]
