"""The trainings of ``binade bisect``: a policy with different rules added to it.

In its directory, ``runs/KEY`` is a run and ``tried/KEY.yaml`` its policy. A run that was
killed resumes from its newest checkpoint; a finished run is read, not repeated.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from binade import overrides
from binade.command import NUMERIC
from binade.criterion import Criterion
from binade.overrides import Rule
from binade.run import read_run
from binade.trainings import read_done, train_with_bar


class OutOfRuns(Exception):
    """The maximum number of trainings was reached."""


@dataclass
class Trial:
    """A training and its result."""

    label: str
    path: Path
    value: float | None
    good: bool


@dataclass
class Trials:
    """The trainings of a search; `words` are arguments of ``binade train`` without the
    options for steps, policy and directory."""

    words: list[str]
    policy: str  # A name, or the path of a file.
    steps: list[str]  # The options for steps.
    criterion: Criterion
    out: Path
    most: int  # Maximum number of trainings in this call; 0 for no limit.
    text: str  # The text of the policy, with all that it extends.
    reference: float | None = None
    done: list[Trial] = field(default_factory=list)
    trained: int = 0

    def __post_init__(self) -> None:
        (self.out / "tried").mkdir(parents=True, exist_ok=True)
        self.extends = overrides.copy_policy(self.policy, self.out / "tried")

    @property
    def limit(self) -> float:
        return self.criterion.limit(self.reference)

    def describe(self) -> str:
        """Returns the criterion as text, with its limit if that is known."""
        if self.criterion.needs_reference and self.reference is None:
            return self.criterion.text
        return f"{self.criterion.text} (limit {self.limit:.6g})"

    def measure_reference(self) -> float | None:
        """Trains in fp32 and returns the metric, or None if the run did not reach it."""
        self.reference = self._train("fp32", "fp32", self._key("fp32", []))
        path = self.out / "runs" / self._key("fp32", [])
        self._add(
            Trial("all in fp32", path, self.reference, self.reference is not None)
        )
        return self.reference

    def run(self, rules: Sequence[Rule], label: str) -> Trial:
        """Trains with the rules added to the policy, or reads the result if that was done."""
        rules = overrides.merge_phases(rules)
        key = self._key(self.extends, rules)
        path = self.out / "runs" / key
        for trial in self.done:
            if trial.path == path:
                return trial
        policy = self.out / "tried" / f"{key}.yaml"
        policy.write_text(overrides.format_policy(key, self.extends, rules))
        value = self._train(str(policy), label, key)
        return self._add(
            Trial(label, path, value, self.criterion.holds(value, self.limit))
        )

    def _add(self, trial: Trial) -> Trial:
        self.done.append(trial)
        verdict = "good" if trial.good else "bad"
        shown = "none" if trial.value is None else f"{trial.value:.6g}"
        print(
            f"{len(self.done):3}  {verdict:4}  {shown:>10}  {trial.label}", flush=True
        )
        return trial

    def _key(self, policy: str, rules: Sequence[Rule]) -> str:
        text = "" if policy == "fp32" else self.text
        about = json.dumps([self.words, self.steps, text, list(rules)])
        return hashlib.sha256(about.encode()).hexdigest()[:12]

    def _train(self, policy: str, label: str, key: str) -> float | None:
        path = self.out / "runs" / key
        if read_done(path) is None:
            if self.most and self.trained >= self.most:
                raise OutOfRuns
            self.trained += 1
        words = [*self.words, *self.steps, "--policy", policy]
        code = train_with_bar(words, path, self.criterion.step, label)
        if code not in (0, NUMERIC):
            print((path / "log.txt").read_text(), end="", file=sys.stderr)
            raise SystemExit(code)
        return self.criterion.measure(read_run(path))
