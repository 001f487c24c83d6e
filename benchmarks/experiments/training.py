"""Runs many short trainings by `binade train`, and caches their results.

Each run has one thread, so that its bits do not depend on the number of cores, and as many run
at a time as there are cores. A line of `runs.jsonl` is the result of one command; what has
a line is not trained again.
"""

from __future__ import annotations

import concurrent.futures
import json
import math
import os
import pathlib
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BINADE_BUILD", ROOT / "build/release"))
BINADE = BUILD.resolve() / "bin/binade"
sys.path.insert(0, str(BUILD / "python"))  # The package with its extension.
MODEL = ROOT / "examples/char-gpt/mini.onnx"
# The learning rate decays to 0, so that the last loss depends less on the last batches.
COURSE = ["--schedule", "lr=base * warmup(step, 20) * cosine(step - 20, steps - 20)"]
SIZES = {"B": 2**-20, "KiB": 2**-10, "MiB": 1.0, "GiB": 2.0**10}


def binade(*words: str | pathlib.Path) -> subprocess.CompletedProcess[str]:
    """Runs `binade` and captures its output; does not check the exit code."""
    return subprocess.run([BINADE, *words], capture_output=True, text=True)


def require(process: subprocess.CompletedProcess[str]) -> str:
    """Returns the output of a command; exits if it failed."""
    if process.returncode:
        sys.exit(f"{' '.join(map(str, process.args))}\n{process.stderr}")
    return process.stdout


def find_text(out: pathlib.Path, window: int = 128) -> list[str]:
    """Options of char-GPT's text, which is prepared where it is missing."""
    data = out / "data"
    if not (data / "train.held-out.safetensors").exists():
        prepare = ROOT / "examples/char-gpt/prepare.py"
        command = [sys.executable, prepare, "--out", data, "--held-out", "0.035"]
        subprocess.run(command, check=True, stdout=sys.stderr)
    return [
        "--data", str(data / "train.safetensors"),
        "--eval-data", str(data / "train.held-out.safetensors"),
        "--window", f"input_ids=tokens[0:{window}],labels=tokens[1:{window + 1}]",
    ]  # fmt: skip


def report(place: str, record: dict) -> None:
    """A line of progress."""
    tail = shlex.join(record["words"]).partition(" --policy ")[2]
    print(f"{place}  {record['seconds']:4.0f} s  {record['loss']:.4f}  {tail}",
          file=sys.stderr, flush=True)  # fmt: skip


class Runs:
    def __init__(self, out: pathlib.Path, jobs: int) -> None:
        self.out, self.jobs = out, jobs
        self.file = out / "runs.jsonl"
        self.lock = threading.Lock()
        self.known: dict[tuple[str, ...], dict] = {}
        out.mkdir(parents=True, exist_ok=True)
        if self.file.exists():
            for line in self.file.read_text().splitlines():
                record = json.loads(line)
                self.known[tuple(record["words"])] = record

    def train(
        self,
        model: pathlib.Path,
        commands: Iterable[Sequence[str]],
        judge: Callable[[pathlib.Path], dict] = lambda run: {},
    ) -> list[dict]:
        """A record for each list of options: `loss` held out after the last step,
        `training` losses of all steps, `code` of the process, and what `judge` finds."""
        keys = [self.describe(model, options) for options in commands]
        missing = [key for key in dict.fromkeys(keys) if key not in self.known]
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            done = [pool.submit(self._train, key, judge) for key in missing]
            try:
                for number, future in enumerate(
                    concurrent.futures.as_completed(done), 1
                ):
                    report(f"{number}/{len(missing)}", future.result())
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        return [self.known[key] for key in keys]

    def describe(self, model: pathlib.Path, options: Sequence[str]) -> tuple[str, ...]:
        """The words of a command, with paths as seen from the repository."""
        words = [str(model), "--threads", "1", *options]
        return tuple(word.replace(f"{ROOT}/", "") for word in words)

    def _train(
        self, words: tuple[str, ...], judge: Callable[[pathlib.Path], dict]
    ) -> dict:
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            process = subprocess.run(
                [str(BINADE), "train", *words, "--out", f"{folder}/run"],
                capture_output=True, text=True, cwd=ROOT,
            )  # fmt: skip
            log = pathlib.Path(folder) / "run/metrics.jsonl"
            more = judge(log.parent) if process.returncode == 0 else {}
            steps = [json.loads(line) for line in log.read_text().splitlines()] if (
                log.exists()) else []  # fmt: skip
        # 4: stopped by its numbers, which is a result.
        if process.returncode not in (0, 4):
            sys.exit(f"{shlex.join(process.args)}\n{process.stderr}")
        found = re.findall(r"eval_loss (\S+)", process.stdout + process.stderr)
        record = {
            "words": words,
            "code": process.returncode,
            "loss": float(found[-1]) if found else math.nan,
            # Without the evaluation before the first step.
            "training": [step["loss"] for step in steps if step["step"] > 0],
            "skipped": sum(step["skipped"] for step in steps),
            "seconds": time.monotonic() - began,
            **more,
        }
        with self.lock, self.file.open("a") as file:
            file.write(json.dumps(record) + "\n")
            self.known[words] = record
        return record


def get_memory(
    out: pathlib.Path, *options: str, model: pathlib.Path = MODEL
) -> dict[str, float]:
    """MiB of the plan by category."""
    bundle = out / "step.bnd"
    require(binade("compile", model, "-o", bundle, *options))
    found = re.findall(
        r"(\w+) ([\d.]+) ([KMG]?i?B)\b", require(binade("inspect", bundle))
    )
    return {name: float(size) * SIZES[scale] for name, size, scale in found}


def shorten(loss: float, digits: int = 4) -> float | None:
    """A number as JSON keeps it: null if it is not finite."""
    return round(loss, digits) if math.isfinite(loss) else None


def write_records(path: pathlib.Path, records: Iterable[dict]) -> None:
    """What a table of the documentation is made of, a line for each of its rows."""
    lines = ",\n".join(json.dumps(record) for record in records)
    path.write_text(f"[\n{lines}\n]\n")


def describe(losses: Sequence[float]) -> str:
    """Mean, and distance from the best to the worst."""
    return f"{statistics.mean(losses):.4f} | {max(losses) - min(losses):.4f}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
