"""Runs ``binade trace``: computes a step op by op with the reference implementation.

``binade train --save-inputs`` writes the inputs of the step. For a run, it trains up to the
step again from the newest checkpoint before it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from binade import replay
from binade.arguments import find_value
from binade.command import NUMERIC
from binade.errors import RejectedError
from binade.run import Run

# Options of `binade train` that do not change what a step computes. Each has a value.
OF_TRAINING = (
    "--alarms", "--batch", "--const", "--data", "--device", "--epochs", "--eval-data",
    "--eval-every", "--eval-fraction", "--init", "--init-seed", "--inject", "--keep",
    "--max-seconds", "--max-skipped", "--min-delta", "--on-alarm", "--order", "--out",
    "--patience", "--profile", "--record", "--resume", "--save-every", "--save-grads", "--save-inputs",
    "--schedule", "--seed", "--steps", "--stop-after", "--stride", "--warmup",
    "--window",
)  # fmt: skip
# Such options without a value.
FLAGS_OF_TRAINING = ("--init-partial", "--keep-best", "--overwrite")


@dataclass(frozen=True)
class Step:
    """A step to trace."""

    words: list[str]  # Arguments of `binade trace`: the model and options.
    directory: str  # The working directory of the command.
    inputs: Path
    number: int

    @property
    def policy(self) -> str:
        return find_value(self.words, "--policy") or "fp32"


def find_program(name: str) -> str:
    """Returns the path of a program of this installation (``BINADE_PROGRAMS``)."""
    return os.path.join(os.environ.get("BINADE_PROGRAMS", ""), name)


def run_program(
    words: Sequence[str], directory: str
) -> subprocess.CompletedProcess[str]:
    """Runs a program of this installation in `directory`, and captures its output."""
    return subprocess.run(
        [find_program(words[0]), *words[1:]],
        cwd=directory, check=False, capture_output=True, text=True,
    )  # fmt: skip


def get_exit_code(code: int) -> int:
    """Converts a return code of ``subprocess``: as in a shell, signal N is 128 + N."""
    return code if code >= 0 else 128 - code


def end_as(done: subprocess.CompletedProcess[str]) -> NoReturn:
    """Prints the errors of a program that failed, and exits with its code."""
    print(done.stderr, end="", file=sys.stderr)
    raise SystemExit(get_exit_code(done.returncode))


def _of_trace(words: Sequence[str]) -> list[str]:
    """Returns the arguments of ``binade trace`` among those of ``binade train``."""
    return replay.without(words, OF_TRAINING, FLAGS_OF_TRAINING)


def _train(words: Sequence[str], directory: str, inputs: Path) -> None:
    done = run_program(words, directory)
    # If training stops at a step with a numeric error, its inputs are already written.
    if done.returncode == 0 or (done.returncode == NUMERIC and inputs.exists()):
        return
    end_as(done)


def capture_run(run: Run, step: int, folder: Path) -> Step:
    """Trains up to the step of the run in `folder`, an empty directory.

    Raises:
      RejectedError: If the run has not done the step, or trained a bundle.
    """
    replay.check_step(run, step)
    command = replay.choose_command(run, step)
    words = [str(word) for word in command["command"]]  # type: ignore[attr-defined]
    if words[1:2] != ["train"] or Path(words[0]).name != "binade":
        raise RejectedError(
            f"{run.path}: trained by '{' '.join(words[:2])}': expected 'binade train' of "
            "a model, for a compiled step has its ops no more"
        )
    directory, inputs = str(command["directory"]), folder / "inputs.safetensors"
    out = folder / "run"
    out.mkdir()
    again = replay.prepare(run, step, out, ["--save-inputs", str(inputs)])
    _train(["binade", *again[1:]], directory, inputs)
    return Step(_of_trace(words[2:]), directory, inputs, step)


def capture_model(words: Sequence[str], step: int, folder: Path) -> Step:
    """Trains a model up to the step in `folder`; `words` are arguments of ``binade train``
    without the options for steps and directory."""
    inputs = folder / "inputs.safetensors"
    command = ["binade", "train", *words, "--steps", str(step),
               "--out", str(folder / "run"), "--save-inputs", str(inputs)]  # fmt: skip
    _train(command, os.getcwd(), inputs)
    return Step(_of_trace(words), os.getcwd(), inputs, step)


def trace(
    step: Step, policy: str | None = None, *, compares: bool = True
) -> dict[str, Any]:
    """Returns the report of ``binade trace`` on the step, under its policy or another.

    Returns:
      ``loss``, and ``origin``: the first value that is not finite, or None. If `compares`,
      which computes the step in f64 too and takes three times as long, also ``exact_loss``
      and ``errors``: a list with an entry for each result of an op.
    """
    if sys.stderr.isatty():
        print(f"computing step {step.number} op by op ...", file=sys.stderr)
    words = list(step.words)
    if policy is not None:
        words = [*replay.without(words, ["--policy"]), "--policy", policy]
    done = run_program(
        [
            "binade",
            "trace",
            *words,
            "--inputs",
            str(step.inputs),
            *(["--compare"] if compares else []),
        ],
        step.directory,
    )
    if done.returncode != 0:
        end_as(done)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def trace_run(run: Run, step: int, kept: Path, key: str, label: str = "") -> dict:
    """Returns the trace of a run's step, compared with f64. File `kept` caches it for the
    same `key`."""
    if kept.exists():
        known = json.loads(kept.read_text())
        if known["key"] == key:
            return dict(known["trace"])
    print(f"evidence: {label}errors of step {step}, op by op", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        report = trace(capture_run(run, step, Path(folder)))
    kept.parent.mkdir(exist_ok=True)
    kept.write_text(json.dumps({"key": key, "trace": report}))
    return report


def name_op(value: dict[str, Any]) -> str:
    """Describes a value: "matmul at 'fc1', backward", or "batch 'x'" for an argument."""
    if not value["decision"] and value["kind"] in ("batch", "parameter", "state",
                                                   "buffer", "scaler"):  # fmt: skip
        return f"{value['kind']} '{value['node']}'"
    text = value["kind"] + (f" at '{value['node']}'" if value["node"] else "")
    return text if value["phase"] == "forward" else f"{text}, {value['phase']}"
