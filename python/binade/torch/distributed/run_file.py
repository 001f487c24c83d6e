"""``run.json`` of a run of several processes, which ``binade runs`` reads."""

from __future__ import annotations

import datetime
import json
import os
import platform
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from binade.errors import RejectedError
from binade.torch.distributed.batches import Batches
from binade.torch.distributed.step import DistributedStep
from binade.version import __version__

NAME = "run.json"
# What may not change when a run continues.
_IDENTITY = ("model", "computation", "batches", "exchange")


def describe_run(
    directory: Path, step: DistributedStep, batches: Callable[[int], Any], steps: int
) -> dict[str, Any]:
    """Describes a run, or adds the command that continues it to what its file says.

    The form is that of ``binade train``, with ``exchange``, and with the number of ``ranks``
    of each invocation. The path of the model is not known.

    Args:
      directory: The directory of the run.
      step: The step of rank 0 before its first step here.
      batches: What returns the batches; ``Batches`` knows their file.
      steps: The number of the last step.

    Raises:
      RejectedError: If the directory has a run of another computation.
    """
    about = _describe(step, batches)
    earlier = _read(directory / NAME)
    if earlier and "exchange" not in earlier:
        raise RejectedError(
            f"{directory}: is the directory of a run of 'binade train', which binade.torch.train "
            "cannot continue; name another directory, and begin with the state of that run: "
            f"step.restore('{directory / 'final.safetensors'}')"
        )
    for key in _IDENTITY:
        if earlier and earlier.get(key) != about[key]:
            raise RejectedError(
                f"{directory}: belongs to another run: its {key} is {earlier.get(key)}, "
                f"that of this run {about[key]}; name another directory"
            )
    about["invocations"] = [
        *earlier.get("invocations", []),
        _describe_invocation(step, batches, steps) | {"policy": about["policy"]},
    ]
    return about


def write_run_file(directory: Path, about: Mapping[str, Any]) -> None:
    """Replaces the file of a run at once, so that a reader never sees a part of it."""
    temporary = directory / f"{NAME}.{os.getpid()}"
    temporary.write_text(json.dumps(about, indent=2) + "\n")
    temporary.replace(directory / NAME)


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_bytes())
    except ValueError as error:
        raise RejectedError(
            f"{path}: not JSON: {error}; name another directory, or restore the file"
        ) from error
    if not isinstance(found, dict):
        raise RejectedError(f"{path}: expected an object; name another directory")
    return found


def _describe(step: DistributedStep, batches: Callable[[int], Any]) -> dict[str, Any]:
    """Describes what is the same for all commands of a run."""
    plan = step.plan()
    policy = plan["policy"]
    schedules = [text.partition("=") for text in step._chosen.texts]
    known = batches if isinstance(batches, Batches) else None
    return {
        "model": plan["model"],
        "dims": plan["dims"],
        "policy": policy.get("name", ""),
        "policy_hash": policy.get("hash", ""),
        "policy_texts": policy.get("texts", []),
        "computation": plan["computation"],
        "ops": plan["ops"],
        "casts": plan["casts"],
        "settings": dict(step.settings),
        "schedules": {name: text for name, _, text in schedules},
        "samples": known.samples if known else None,
        "eval_samples": 0,
        "batch": known.batch if known else _find_batch(step),
        "batches": step._program.batches(),
        "order": known.order if known else None,
        "seed": step._seed,
        "exchange": step.exchange,
        "arena_bytes": plan["arena_bytes"],
        "ledger": plan["ledger"],
    }


def _find_batch(step: DistributedStep) -> int | None:
    """Returns the number of samples of a batch: the first size of all inputs, if equal."""
    sizes = {step.batch[name].shape[:1] for name in step.batch}
    return int(next(iter(sizes))[0]) if len(sizes) == 1 and () not in sizes else None


def _describe_invocation(
    step: DistributedStep, batches: Callable[[int], Any], steps: int
) -> dict[str, Any]:
    files = {"data": batches.describe_file()} if isinstance(batches, Batches) else {}
    return {
        "started": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%dT%H:%M:%SZ}",
        "after_step": step.calls,
        "steps": steps,
        "epochs": None,
        "command": [sys.executable, *sys.argv],
        "directory": os.getcwd(),
        "files": files,
        "ranks": step.size,
        "machine": {
            "binade": __version__,
            "PyTorch": torch.__version__,
            "cores": len(os.sched_getaffinity(0)),
            "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        },
    }
