"""Starts processes that communicate by gloo, and collects what each of them found."""

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import traceback

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

    ``main`` of the script is called in each, with these arguments of the command line: its
    rank, the number of processes, a file for the rendezvous, and ``given`` as JSON, to which
    `out` is added: it saves its results as `out`.RANK. The processes are forked after the
    script is imported, so that PyTorch is imported once.
    """
    folder.mkdir(parents=True, exist_ok=True)
    out, store = folder / "found", folder / "store"
    text = json.dumps({**given, "out": str(out)})
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    started = subprocess.Popen(
        [sys.executable, __file__, script, str(world), str(store), text, str(folder)],
        env=environment, start_new_session=True, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        _, errors = started.communicate(timeout=600)
    except subprocess.TimeoutExpired:
        errors = "no end within 600 s\n"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGKILL)
        started.wait()
    # The last lines, which name the error: reports of tests are cut.
    errors += "".join(p.read_text()[-1500:] for p in sorted(folder.glob("errors.*")))
    assert started.returncode == 0, errors
    return [torch.load(f"{out}.{rank}") for rank in range(world)]


def run_rank(function, arguments, errors):
    """Calls a function in a forked process, which it ends."""
    code = 1
    try:
        with open(errors, "w") as file:
            os.dup2(file.fileno(), sys.stderr.fileno())
        sys.argv[1:] = arguments
        function()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main():
    """Forks the processes of a group, and exits when all have ended or one has failed."""
    script, world, store, text, folder = sys.argv[1:]
    specification = importlib.util.spec_from_file_location("script", script)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    for rank in range(int(world)):
        if not os.fork():
            arguments = [str(rank), world, store, text]
            run_rank(module.main, arguments, f"{folder}/errors.{rank}")
    for _ in range(int(world)):
        _, status = os.wait()
        if status:
            sys.exit(1)


if __name__ == "__main__":
    main()
