"""Runs ``binade train`` as a subprocess, each training in its own directory.

A training that was killed resumes from the newest checkpoint in its directory. A training
that has ended has a file ``done`` there and is not repeated.
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

# Number of checkpoints: a killed training loses at most a quarter of its steps.
CHECKPOINTS = 4


def train(
    words: Sequence[str],
    path: Path,
    steps: int,
    progress: Callable[[int], object],
    policy: str = "",
    until: int | None = None,
) -> int:
    """Trains in directory `path`, unless that training has ended; the output of the program
    goes to ``log.txt`` there.

    Args:
      words: Arguments of ``binade train`` without the directory.
      steps: The total number of steps, which determines when checkpoints are written.
      progress: Called repeatedly with the number of steps done.
      policy: The text of the policy, to detect changes of its file.
      until: The step after which to pause; a later call continues from there.

    Returns:
      The exit code.

    Raises:
      RejectedError: If the directory has a training with another command or policy.
    """
    ended = read_done(path)
    if ended is not None:
        if ended["words"] != list(words) or ended["policy"] != policy:
            raise RejectedError(
                f"{path}: contains a run of another command, or of another policy with this name: "
                f"{' '.join(ended['words'])}; write to another directory, or remove this one"
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
                    lines = metrics.read_bytes()
                    progress(lines.count(b"\n") - lines.startswith(b'{"step":0,'))
        except BaseException:
            process.terminate()
            raise
    code = process.returncode
    if code in (0, NUMERIC):  # A killed or rejected training is retried later.
        about = {"words": list(words), "policy": policy, "code": code,
                 "until": until or steps}  # fmt: skip
        (path / "done").write_text(json.dumps(about) + "\n")
    return get_exit_code(code)


def train_with_bar(
    words: Sequence[str], path: Path, steps: int, label: str, policy: str = "",
    until: int | None = None,
) -> int:  # fmt: skip
    """Calls ``train`` with a progress bar, which is shown on a terminal."""
    with tqdm(total=until or steps, desc=label[:40], unit=" steps", leave=False,
              disable=not sys.stderr.isatty()) as bar:  # fmt: skip
        return train(words, path, steps, lambda count: bar.update(count - bar.n), policy,
                     until)  # fmt: skip


def read_done(path: Path) -> dict | None:
    """Returns the record of how the training in `path` ended; None if it has not."""
    file = path / "done"
    return json.loads(file.read_text()) if file.exists() else None
