"""Plans and trains the candidates of ``binade search`` by successive halving.

Successive halving (Jamieson, Talwalkar, 2016) trains all candidates for a part of the
steps, and the better ones for more. The memory of a candidate is planned first, so that
one that exceeds the budget is never trained.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from binade import overrides, replay
from binade.budget import Limit
from binade.candidates import Choice, list_sensitive
from binade.command import REJECTED
from binade.errors import RejectedError
from binade.proposals import Proposals
from binade.run import Run
from binade.step_times import get_milliseconds
from binade.sweep import Member, Outcome, find_error, read_outcome, show_policy, watch
from binade.tracing import OF_TRAINING, end_as, run_program, trace_run
from binade.trainings import train_with_bar
from binade.units import Unit

# The verdict on a candidate that was trained to the end.
WHOLE = "all steps"
# The candidate that others are compared with.
BASE = Choice("fp32")
# Limit of repeated proposals per bracket. The bracket stays smaller then, and an empty one
# ends the search.
PATIENCE = 100


@dataclass(frozen=True)
class Plan:
    """The compiler's plan of a candidate's step."""

    bytes: float  # Peak memory; infinite if the step cannot be compiled.
    computes: str = ""  # A key that is equal for plans with the same computation.
    error: str = ""  # Why the step cannot be compiled.


@dataclass
class Candidate:
    """A choice with its plan and its results."""

    choice: Choice
    path: str  # A policy's name or file.
    plan: Plan
    outcomes: list[Outcome] = field(default_factory=list)  # One for each seed.
    steps: int = 0  # Number of steps trained so far.
    # Held-out loss after `steps` minus that of fp32, the mean over seeds.
    gap: float | None = None
    verdict: str = ""  # Why its training ended; empty while it may continue.

    @property
    def name(self) -> str:
        return self.choice.name

    @property
    def bytes(self) -> float:
        return self.plan.bytes

    @property
    def milliseconds(self) -> float | None:
        """The time of a step."""
        return get_milliseconds([one.run for one in self.outcomes if one.run])


def copy_given(policy: str, folder: Path) -> str:
    """Copies a policy's file to ``given`` in `folder`, so that its name does not collide
    with a candidate's.

    Returns:
      The value of ``extends`` for a policy in `folder`.
    """
    name = overrides.copy_policy(policy, folder / "given")
    return f"given/{name}" if name.endswith(".yaml") else name


def plan_rungs(steps: int, count: int, factor: int, every: int | None) -> list[int]:
    """Returns the steps after which candidates are compared: multiples of `every`, and
    the last step."""
    rungs = [-(-steps // factor**left) for left in reversed(range(count))]
    every = every or rungs[0]
    return sorted({min(steps, -(-rung // every) * every) for rung in rungs})


class Search:
    """Trains candidates of one model; trainings that its directory has are reused."""

    def __init__(
        self, words: Sequence[str], limits: Mapping[str, Limit], rungs: Sequence[int],
        seeds: Sequence[int], out: Path,
    ) -> None:  # fmt: skip
        """`words` are those of ``binade train`` without policy, seed, steps, directory."""
        self.words = list(words)
        self.limits = limits
        self.rungs = rungs
        self.seeds = seeds
        self.out = out
        self.tried: dict[Choice, Candidate] = {}
        self.sensitive: dict[str, list[Unit]] = {}  # By policy.
        (out / "tried").mkdir(parents=True, exist_ok=True)

    # --- What a candidate is ------------------------------------------------------------

    def plan(self, policy: str, more: Sequence[str] = ()) -> Plan:
        """Plans a step; `more` are options that the compiler may reject for a policy."""
        words = replay.without(self.words, (*OF_TRAINING, "--stats"))
        done = run_program(["binade", "inspect", *words, *more, "--policy", policy,
                            "--json"], os.getcwd())  # fmt: skip
        if done.returncode == REJECTED and more:
            line = find_error(done.stderr.splitlines())
            return Plan(math.inf, error=line.rpartition("error: ")[2])
        if done.returncode != 0:
            end_as(done)
        plan = json.loads(done.stdout)
        # Alarm rules are part of the key, because they may end a run.
        computes = [plan["computation"], plan.get("alarms")]
        return Plan(plan["arena_bytes"], json.dumps(computes))

    def make(self, choice: Choice) -> Candidate:
        """Writes the policy, and plans its step."""
        if choice == BASE:
            self.tried[choice] = self.base
            return self.base
        if choice.wide and choice.policy not in self.sensitive:
            self.sensitive[choice.policy] = self.measure_sensitivity(choice.policy)
        extends = copy_given(choice.policy, self.out / "tried")
        path = self.out / "tried" / f"{choice.name}.yaml"
        rules = choice.rules(self.sensitive.get(choice.policy, []))
        path.write_text(overrides.format_policy(path.stem, extends, rules))
        plan = self.plan(str(path), choice.words)
        self.tried[choice] = Candidate(choice, str(path), plan)
        return self.tried[choice]

    def find_equal(self, candidate: Candidate) -> Candidate | None:
        """Returns an earlier candidate with the same computation, or None."""
        for other in self.tried.values():
            if other is candidate:
                return None
            if other.plan.computes and other.plan.computes == candidate.plan.computes:
                return other
        return None

    def measure_sensitivity(self, policy: str) -> list[Unit]:
        """Returns the layers of the unchanged policy by the error that they introduce in
        the last step of the first rung, the largest first."""
        plain = self.tried.get(Choice(policy)) or self.make(Choice(policy))
        member = self.list_members(plain)[0]
        run = self.run(member, self.rungs[0], f"evidence: {plain.name}").run
        if run is None or not run.steps:
            return []
        kept = self.out / "evidence" / f"{Path(policy).stem}.json"
        step = min(len(run.steps), self.rungs[0])
        label = f"{plain.name}, "
        return list_sensitive(trace_run(run, step, kept, show_policy(policy), label))

    # --- Training -----------------------------------------------------------------------

    def list_members(self, candidate: Candidate) -> list[Member]:
        members = []
        for seed in self.seeds:
            words = [*self.words, "--steps", str(self.rungs[-1]), "--seed", str(seed),
                     "--policy", candidate.path, *candidate.choice.words,
                     *watch(self.rungs[-1])]  # fmt: skip
            path = self.out / "runs" / f"{candidate.name}.{seed}"
            members.append(Member(candidate.path, None, seed, path, tuple(words)))
        return members

    def run(self, member: Member, until: int, label: str) -> Outcome:
        code = train_with_bar(member.words, member.path, self.rungs[-1], label,
                              show_policy(member.policy), until)  # fmt: skip
        return read_outcome(member, code)

    def train(self, candidate: Candidate, until: int) -> None:
        """Trains all seeds up to a step."""
        candidate.outcomes = [
            self.run(member, until, candidate.name)
            for member in self.list_members(candidate)
        ]
        candidate.steps = until

    @cached_property
    def base(self) -> Candidate:
        """The fp32 run, trained to the end, that others are compared with."""
        base = Candidate(BASE, BASE.policy, self.plan(BASE.policy))
        self.train(base, self.rungs[-1])
        for outcome in base.outcomes:
            if outcome.run is None or outcome.error is not None:
                raise RejectedError(f"{base.name}: {outcome.error}: there is nothing to compare "
                                    "with")  # fmt: skip
            if outcome.run.last_held_out is None:
                raise RejectedError(f"{base.name} has no held-out loss that is finite")
        base.gap = 0.0
        return base

    # --- Comparing ----------------------------------------------------------------------

    def find_excess(self, candidate: Candidate) -> float:
        """Returns the largest relative excess over the budget, of the resources known so
        far; 0 or less if the candidate is within."""
        taken: dict[str, tuple[float, float | None]] = {
            "memory": (self.base.bytes, candidate.bytes),
            "time": (self.base.milliseconds or 0.0, candidate.milliseconds),
        }
        excesses = [
            size / limit.resolve(resource, taken[resource][0]) - 1
            for resource, limit in self.limits.items()
            if (size := taken[resource][1]) is not None
        ]
        return max(excesses, default=0.0)

    def compare(self, candidate: Candidate, until: int) -> None:
        """Sets the gap to fp32 after a rung, or the verdict if there is no gap."""
        failed = [one for one in candidate.outcomes if one.error is not None]
        if failed:
            candidate.gap, candidate.verdict = None, failed[0].error or ""
            return
        gaps = []
        for one, other in zip(candidate.outcomes, self.base.outcomes):
            loss, wide = (_held_out(run, until) for run in (one.run, other.run))
            gaps.append(loss - wide)
        gap = math.fsum(gaps) / len(gaps)
        candidate.gap = gap if math.isfinite(gap) else None
        if candidate.gap is None:
            candidate.verdict = f"loss not finite at step {until}"

    def halve(
        self, batch: Sequence[Candidate], factor: int, show: Callable[[Candidate], None]
    ) -> None:
        """Trains candidates rung by rung and drops the worse ones after each rung; sets the
        verdict of every candidate."""
        alive = list(batch)
        for number, until in enumerate(self.rungs, 1):
            for one in alive:
                self.train(one, until)
                self.compare(one, until)
                if one.gap is not None and self.find_excess(one) > 0:
                    one.verdict = "over the budget of time"
                show(one)
            good = [one for one in alive if not one.verdict]
            good.sort(key=lambda one: one.gap or 0.0)
            is_last = number == len(self.rungs)
            kept = good if is_last else good[: math.ceil(len(alive) / factor)]
            for one in good:
                if one not in kept:
                    one.verdict = f"left after step {until}"
                elif is_last:
                    one.verdict = WHOLE
            alive = kept

    def explore(
        self, proposals: Proposals, trials: int, factor: int,
        show: Callable[[Candidate], None],
    ) -> None:  # fmt: skip
        """Trains `trials` candidates, bracket by bracket."""
        trained = 0
        while trained < trials:
            size = min(factor ** len(self.rungs), trials - trained)
            batch, asked = self._fill(proposals, size, show)
            self.halve(batch, factor, show)
            trained += len(batch)
            for one, trial in asked:
                self._tell(proposals, trial, one)
            if not batch:
                return

    def _fill(
        self, proposals: Proposals, size: int, show: Callable[[Candidate], None]
    ) -> tuple[list[Candidate], list[tuple[Candidate, Any]]]:
        """Returns up to `size` new candidates within the memory budget, and the pairs of
        candidate and trial whose results are still to be reported to `proposals`."""
        batch: list[Candidate] = []
        asked: list[tuple[Candidate, Any]] = []
        repeated = 0
        while len(batch) < size and repeated < PATIENCE:
            choice, trial = proposals.ask()
            known = self.tried.get(choice)
            if known and (known.verdict or any(known is one for one in batch)):
                repeated += 1
                self._tell(proposals, trial, known)
                continue
            one = known or self.make(choice)
            equal = self.find_equal(one)
            if equal:
                one.verdict = f"the same as {equal.name}"
                asked.append((equal, trial))
            elif self.find_excess(one) > 0:
                one.verdict = one.plan.error or "over the budget of memory"
                self._tell(proposals, trial, one)
            else:
                batch.append(one)
                asked.append((one, trial))
            if one.verdict:
                show(one)
        return batch, asked

    def _tell(self, proposals: Proposals, trial: Any, one: Candidate) -> None:
        whole = one.verdict == WHOLE
        proposals.tell(trial, self.find_excess(one), one.gap, one.steps, whole)


def _held_out(run: Run | None, step: int) -> float:
    """Returns a run's held-out loss after a step; NaN if it was not measured."""
    value = run.series("eval_loss").get(step) if run else None
    return math.nan if value is None else value
