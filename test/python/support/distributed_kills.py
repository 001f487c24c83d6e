"""Starts ranks of a run as forked processes, and kills one of them at a random moment.

    python distributed_kills.py JSON

JSON has `bundle`, `folder`, `ranks`, `steps`, `first` and `count`, the numbers of trials;
`signal`, which the rank gets, and `timeout`, of ``binade.torch.distribute``.
Prints a line of JSON for each: exit codes, the seconds until all ranks had ended, and the
hash of the state of the resumed run.
"""

import json
import os
import random
import shutil
import signal
import sys
import time
import traceback

import binade
import binade.torch
import torch.distributed as dist
from binade.command import run_command
from binade.torch.distributed.identity import hash_state

from support import distributed_models


def run_rank(given, rank, folder, attempt):
    """Trains in `folder` to the end; returns the exit code."""

    def main(_):
        dist.init_process_group(
            "gloo", init_method=f"file://{folder}/store{attempt}", rank=rank,
            world_size=given["ranks"],
        )  # fmt: skip
        step = binade.torch.distribute(
            binade.load(given["bundle"], threads=1), timeout=given["timeout"]
        )
        binade.torch.train(
            step, lambda n: distributed_models.make_batch(step.batch, n),
            f"{folder}/run", steps=given["steps"], save_every=3,
        )  # fmt: skip
        if rank == 0:
            with open(f"{folder}/hash", "w") as file:
                file.write(hash_state(step))
        dist.destroy_process_group()

    with open(f"{folder}/errors.{attempt}.{rank}", "w") as errors:
        os.dup2(errors.fileno(), 2)
        return run_command("rank", main, [])


def start(given, folder, attempt):
    """Returns the process ids of the ranks."""
    started = []
    for rank in range(given["ranks"]):
        pid = os.fork()
        if not pid:
            code = 70
            try:
                code = run_rank(given, rank, folder, attempt)
            except SystemExit as error:
                code = error.code
            except BaseException:
                traceback.print_exc()
            os._exit(code)
        started.append(pid)
    return started


def wait(started):
    """Returns how each process ended: an exit code, or the negative number of a signal."""
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in started]


def wait_for_steps(folder):
    path = f"{folder}/run/metrics.jsonl"
    deadline = time.monotonic() + 60
    while not (os.path.exists(path) and os.path.getsize(path)):
        assert time.monotonic() < deadline, "no step within a minute"
        time.sleep(0.005)


def kill_one(given, number):
    random.seed(number)
    folder = f"{given['folder']}/{number}"
    os.makedirs(folder)
    started = start(given, folder, 0)
    wait_for_steps(folder)
    victim = number % given["ranks"]
    time.sleep(random.uniform(0, given["seconds"]))
    os.kill(started[victim], getattr(signal, given["signal"]))
    begin = time.monotonic()
    others = iter(wait([pid for pid in started if pid != started[victim]]))
    seconds = time.monotonic() - begin
    os.kill(started[victim], signal.SIGKILL)  # If it was stopped only.
    [own] = wait([started[victim]])
    codes = [own if r == victim else next(others) for r in range(given["ranks"])]
    again = wait(start(given, folder, 1))
    with open(f"{folder}/hash") as file:
        digest = file.read()
    shutil.rmtree(folder)
    return {"victim": victim, "codes": codes, "seconds": seconds, "again": again,
            "hash": digest}  # fmt: skip


def main():
    given = json.loads(sys.argv[1])
    for number in range(given["first"], given["first"] + given["count"]):
        print(json.dumps(kill_one(given, number)), flush=True)


if __name__ == "__main__":
    main()
