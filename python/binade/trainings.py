"""Trainings as processes of their own, each in its directory: started, resumed, or read.

A directory that a killed training leaves has its newest checkpoint, from which the
next one continues; one whose training has ended has a file ``done``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tqdm import tqdm

from binade.command import NUMERIC
from binade.errors import RejectedError
from binade.tracing import find_program, get_exit_code

# A training that is killed loses a quarter at most.
CHECKPOINTS = 4


def train(
    words: Sequence[str],
    path: Path,
    steps: int,
    progress: Callable[[int], object],
    policy: str = "",
    until: int | None = None,
) -> int:
    """Trains in directory `path`, unless that was done; what the program says is in
    ``log.txt`` there.

    Args:
      words: Those of ``binade train`` without the directory.
      steps: How many there will be at most, for checkpoints between them.
      progress: Told how many steps are done, again and again.
      policy: What the policy says that the words name, if that may change.
      until: The step after which it stops for now; the same command continues from there.

    Returns:
      The exit code.

    Raises:
      RejectedError: If the directory belongs to a training by other words.
    """
    ended = read_done(path)
    if ended is not None:
        if ended["words"] != list(words) or ended["policy"] != policy:
            raise RejectedError(
                f"{path}: trained by another command, or another policy of that name: "
                f"{' '.join(ended['words'])}; name another directory, or remove it"
            )
        if ended["code"] != 0 or ended["until"] >= (until or steps):
            return int(ended["code"])
    path.mkdir(parents=True, exist_ok=True)
    command = [find_program("binade"), "train", *words, "--resume", str(path),
               "--save-every", str(max(1, steps // CHECKPOINTS))]  # fmt: skip
    if until is not None and until < steps:
        command += ["--stop-after", str(until)]
    metrics = path / "metrics.jsonl"
    with (
        (path / "log.txt").open("w") as log,
        subprocess.Popen(command, stdout=log, stderr=log) as process,
    ):
        try:
            while process.poll() is None:
                time.sleep(0.05)
                if metrics.exists():
                    progress(metrics.read_bytes().count(b"\n"))
        except BaseException:
            process.terminate()
            raise
    code = process.returncode
    if code in (0, NUMERIC):  # One that was killed, or refused, is tried again.
        about = {"words": list(words), "policy": policy, "code": code,
                 "until": until or steps}  # fmt: skip
        (path / "done").write_text(json.dumps(about) + "\n")
    return get_exit_code(code)


def train_with_bar(
    words: Sequence[str], path: Path, steps: int, label: str, policy: str = "",
    until: int | None = None,
) -> int:  # fmt: skip
    """As ``train``, with a bar on a terminal."""
    with tqdm(total=until or steps, desc=label[:40], unit=" steps", leave=False,
              disable=not sys.stderr.isatty()) as bar:  # fmt: skip
        return train(words, path, steps, lambda count: bar.update(count - bar.n), policy,
                     until)  # fmt: skip


def read_done(path: Path) -> dict | None:
    """What the training in `path` ended with; None where it has not."""
    file = path / "done"
    return json.loads(file.read_text()) if file.exists() else None
