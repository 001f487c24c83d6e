"""Recomputes a step of a run, bit for bit: ``binade replay RUN --step K``.

Restores the newest checkpoint before the step, or starts from the beginning, and trains
up to the step with the run's recorded command, in a new directory. ``--stats`` records
additional statistics.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from binade import safetensors
from binade.arguments import find_value
from binade.command import DIFFERENT, run_command
from binade.errors import RejectedError
from binade.parser import Parser
from binade.run import Run, read_run

# Options of the run's command that a replay drops, most of them about what the run writes
# and when. Each has a value.
LEFT_OUT = (
    "--out", "--resume", "--save-every", "--keep", "--max-seconds", "--stop-after",
    "--record", "--save-grads", "--save-inputs", "--profile", "--init",
)  # fmt: skip
# Options of the run's command without a value that a replay drops.
FLAGS_LEFT_OUT = ("--overwrite",)


def without(
    words: Sequence[str], options: Sequence[str], flags: Sequence[str] = ()
) -> list[str]:
    """Returns the arguments of a command without those options, which have values, and
    without those flags."""
    words = [word for word in words if word not in flags]
    kept: list[str] = []
    rest = iter(words)
    for word in rest:
        name, equals, _ = word.partition("=")
        if name not in options:
            kept.append(word)
        elif not equals:
            next(rest, None)
    return kept


def _find_start(run: Path, step: int) -> Path | None:
    """Returns the newest checkpoint before the step, or None for the start of the run."""
    found = {
        int(path.name.removeprefix("step-")): path
        for path in (run / "checkpoints").glob("step-[0-9]*")
        if path.name.removeprefix("step-").isdigit()
    }
    before = [done for done in found if done < step]
    return found[max(before)] if before else None


def choose_command(run: Run, step: int) -> dict[str, object]:
    """Returns the recorded command that computed the step."""
    calls = [c for c in run.about["invocations"] if c["after_step"] < step]
    if not calls:
        raise RejectedError(f"{run.path / 'run.json'}: says of no command")
    command: dict[str, object] = calls[-1]
    return command


def check_step(run: Run, step: int) -> None:
    """Raises a RejectedError where the run has not done the step."""
    if not 1 <= step <= len(run.steps):
        raise RejectedError(
            f"{run.path}: has done steps 1 to {len(run.steps)}, not {step}"
        )


def _was_stopped(run: Path) -> bool:
    """Whether alarms ended the run, by its command or its policy."""
    path = run / "alarms.jsonl"
    # A killed run may leave a last line without an end.
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return any(json.loads(line)["action"] == "stop" for line in lines)


def prepare(run: Run, step: int, out: Path, more: Sequence[str]) -> list[str]:
    """Copies the checkpoint to `out` and returns the command that trains up to the step.

    `more` are additional arguments of the command, such as ``--stats``.
    """
    first = run.about["invocations"][0]
    words = [str(word) for word in choose_command(run, step)["command"]]  # type: ignore[attr-defined]
    start = _find_start(run.path, step)
    if start:
        shutil.copytree(start, out / "checkpoints" / start.name)
        for name in ("run.json", "metrics.jsonl", "stats.jsonl", "alarms.jsonl"):
            if (run.path / name).exists():
                shutil.copy(run.path / name, out / name)
    kept = without(words, LEFT_OUT, FLAGS_LEFT_OUT)
    if _was_stopped(run.path):
        # A later command resumed the run past the alarm, so alarms must not stop the replay.
        kept = [*without(kept, ["--on-alarm"]), "--on-alarm", "warn"]
    initial = find_value([str(word) for word in first["command"]], "--init")
    if initial and not start:
        kept += ["--init", initial]
    return [*kept, "--resume" if start else "--out", str(out), "--stop-after",
            str(step), "--save-every", str(step), *more]  # fmt: skip


def find_difference(run: Run, again: Run, step: int) -> str | None:
    """Describes what differs from the original step; None where all bits are equal."""
    old, new = (
        {s["step"]: {k: v for k, v in s.items() if k != "ms"} for s in r.steps}
        for r in (run, again)
    )
    if old.get(step) != new.get(step):
        return f"metrics were {json.dumps(old.get(step))} and are {json.dumps(new.get(step))}"
    state = Path("checkpoints") / f"step-{step:06d}" / "state.safetensors"
    if not (run.path / state).exists():
        return None
    before, after = (safetensors.load(r.path / state) for r in (run, again))
    if before.keys() != after.keys():
        names = ", ".join(sorted(before.keys() ^ after.keys()))
        return f"only one checkpoint has {names}"
    different = [
        name for name in before if before[name].tobytes() != after[name].tobytes()
    ]
    return f"other bits: {', '.join(different)}" if different else None


def replay(path: Path, step: int, out: Path, more: Sequence[str]) -> int:
    """Replays a step and prints whether its bits equal the original's.

    Returns:
      The exit code: 0, 1 if the step differs, or that of the training if it failed;
      `out` is then removed.

    Raises:
      RejectedError: If the run has not done the step, or `out` exists.
    """
    run = read_run(path)
    check_step(run, step)
    if out.exists():
        raise RejectedError(f"{out}: is there; --out names a directory to be made")
    directory = str(choose_command(run, step)["directory"])
    out.mkdir(parents=True)
    with contextlib.ExitStack() as undo:
        undo.callback(shutil.rmtree, out, ignore_errors=True)
        words = prepare(run, step, out.absolute(), more)
        # Use this installation's executable, wherever the run's was.
        programs = os.environ.get("BINADE_PROGRAMS", "")
        words[0] = os.path.join(programs, Path(words[0]).name)
        code = subprocess.run(words, cwd=directory, check=False).returncode
        if code != 0:
            # The program has printed the reason. As in a shell, signal N is 128 + N.
            return code if code > 0 else 128 - code
        undo.pop_all()
    if difference := find_difference(run, read_run(out), step):
        print(f"step {step} is not what it was in {path}: {difference}")
        return DIFFERENT
    print(f"step {step} has the bits that it had in {path}")
    return 0


def make_parser() -> Parser:
    """Returns the parser of ``binade replay``."""
    parser = Parser(
        "binade replay",
        description="Recompute a step of a run, bitwise identical to the original, "
        "for example\nwith more statistics.",
        epilog="Example:\n"
        "  binade replay run --step 3000 --stats '*:absmax,nonfinite' --out again\n"
        "The step is recomputed from the newest checkpoint before it.\n"
        "The exit code is 1 if a result differs from the run's.",
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="directory of the run")
    parser.add_argument(
        "--step",
        type=int,
        required=True,
        metavar="K",
        help="number of the step to recompute, from 1",
    )
    parser.add_argument(
        "--stats", action="append", default=[], metavar="KIND[/GLOB]:STATISTIC,...",
        help="statistics to record in addition to the run's, such as "
        "'*:absmax,nonfinite'; 'binade list stats' explains them (repeatable)",
    )  # fmt: skip
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR",
        help="directory to create for the recomputed run",
    )  # fmt: skip
    return parser


def _main(arguments: Sequence[str] | None) -> int:
    options = make_parser().parse_args(arguments)
    more = [word for text in options.stats for word in ("--stats", text)]
    return replay(options.run, options.step, options.out, more)


def main() -> int:
    """Runs the command; returns its exit code."""
    return run_command("binade replay", _main)


if __name__ == "__main__":
    sys.exit(main())
