"""Simulates training runs of many ranks in which ranks die.

A checkpoint consists of a file of each rank and a manifest, which rank 0 writes after it has
received the hashes of all files. A run that lost a rank continues from the newest checkpoint with
a manifest, in all ranks.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from binade.errors import PeerError, UsageError
from binade.planning.fabric import Fabric
from binade.planning.failures import Failures
from binade.planning.prediction import Prediction, Settings
from binade.planning.simulation import (
    Death,
    Exchange,
    Program,
    list_exchanges,
    run_step,
)
from binade.planning.step import Step

DEATHS = 400  # Deaths of a simulated run, about.


@dataclasses.dataclass
class Storage:
    """What a directory of checkpoints contains.

    Attributes:
      files: The ranks whose file is complete, by checkpoint.
      manifests: The checkpoints that have a manifest. Checkpoint 0 is the initial state.
    """

    files: dict[int, set[int]] = dataclasses.field(default_factory=dict)
    manifests: set[int] = dataclasses.field(default_factory=set)

    def find_good(self, ranks: int) -> int:
        """Returns the checkpoint from which a rank continues.

        Raises:
          PeerError: If its manifest lists a file that is missing.
        """
        good = max(self.manifests, default=0)
        if good and len(self.files[good]) != ranks:
            raise PeerError(
                f"checkpoint {good} has {len(self.files[good])} of {ranks} files"
            )
        return good

    def save(
        self, number: int, start: np.ndarray, writing: np.ndarray, commit: float,
        death: Death | None,
    ) -> tuple[np.ndarray, bool]:  # fmt: skip
        """Writes a checkpoint. Returns when each rank ended or knew of the manifest, and whether
        all do.

        Args:
          start: When each rank starts to write its file.
          writing: The seconds that each rank writes.
          commit: The seconds from the last hash to the manifest.
        """
        written = start + writing
        done = np.full(len(start), written.max() + commit)
        self.files[number] = set(range(len(start)))
        if death is None or death.time >= done[0]:
            self.manifests.add(number)
            return done, True
        if written[death.rank] > death.time:
            self.files[number].remove(death.rank)
        elif death.rank != 0 and written.max() <= death.time:
            # Rank 0 has all hashes, and does not need the dead rank any more.
            self.manifests.add(number)
        ended = np.maximum(written, death.time + death.detection)
        ended[death.rank] = death.time
        return ended, False


@dataclasses.dataclass(frozen=True)
class Job:
    """A training run.

    Attributes:
      program: The exchanges of a step, equal in all ranks.
      measure: Returns the seconds of an exchange.
      step: Seconds of a step without failures.
      interval: The number of steps between checkpoints.
      detection: Seconds after which exchanges with a dead rank fail.
      unevenness: The time to write a file is that of ``failures``, or up to this share less.
    """

    ranks: int
    program: Program
    measure: Callable[[Exchange], float]
    step: float
    interval: int
    failures: Failures
    detection: float = 1.0
    unevenness: float = 0.2


@dataclasses.dataclass
class Outcome:
    """What a run took.

    Attributes:
      seconds: The time from its start to its end.
      useful: Seconds of steps that were not repeated.
      deaths: The number of ranks that died.
      longest: The most seconds from a death to the end of the last rank.
      saved_by_others: Deaths after which a manifest was written without the dead rank.
      broken_saves: Deaths that left a checkpoint without a manifest.
    """

    seconds: float = 0.0
    useful: float = 0.0
    deaths: int = 0
    longest: float = 0.0
    saved_by_others: int = 0
    broken_saves: int = 0

    @property
    def lost(self) -> float:
        """The share of the time that was not useful."""
        return 1 - self.useful / self.seconds


def simulate(job: Job, checkpoints: int, seed: int) -> Outcome:
    """Runs a job until it has written a number of checkpoints.

    Time passes as a whole interval at once, except in the step or the checkpoint in which a rank
    dies, which is simulated rank by rank.

    Raises:
      PeerError: If ranks would continue from different checkpoints, or one does not end.
    """
    generator = np.random.default_rng(seed)
    mean = job.failures.get_mean_time(job.ranks)
    storage, outcome = Storage(), Outcome()
    good = 0
    death = generator.exponential(mean)
    while good < checkpoints:
        start = outcome.seconds
        saving = start + job.interval * job.step
        end = saving + job.failures.save
        if death >= end:
            good += 1
            storage.files[good] = set(range(job.ranks))
            storage.manifests.add(good)
            outcome.seconds = end
            continue
        who = Death(int(generator.integers(job.ranks)), death, job.detection)
        ended = _die(job, storage, good + 1, saving, who, generator)
        outcome.deaths += 1
        outcome.longest = max(outcome.longest, float(ended.max()) - death)
        found = storage.find_good(job.ranks)
        outcome.saved_by_others += found > good
        outcome.broken_saves += found == good and good + 1 in storage.files
        good = found
        storage.files = {good: storage.files[good]} if good else {}
        # The ranks restart together; a failure during the restart begins it anew.
        outcome.seconds = float(ended.max())
        while (life := generator.exponential(mean)) < job.failures.restart:
            outcome.seconds += life
        outcome.seconds += job.failures.restart
        # Failures do not depend on the past.
        death = outcome.seconds + generator.exponential(mean)
    outcome.useful = good * job.interval * job.step
    return outcome


def _die(
    job: Job, storage: Storage, number: int, saving: float, death: Death,
    generator: np.random.Generator,
) -> np.ndarray:  # fmt: skip
    """Simulates the step or the checkpoint in which a rank dies; returns when each rank ended."""
    if death.time < saving:
        whole = math.floor((saving - death.time) / job.step) + 1
        start = np.full(job.ranks, saving - whole * job.step)
        result = run_step([job.program] * job.ranks, job.measure, start, death=death)
        if result.is_whole:  # It died in the update: the next step finds out.
            ended = np.maximum(result.clocks, death.time + death.detection)
            ended[death.rank] = death.time
            return ended
        return result.clocks
    shares = generator.uniform(1 - job.unevenness, 1, job.ranks)
    commit = 0.01 * job.failures.save
    writing = shares / shares.max() * (job.failures.save - commit)
    start = np.full(job.ranks, saving)
    return storage.save(number, start, writing, commit, death)[0]


def simulate_plan(
    step: Step, fabric: Fabric, settings: Settings, predicted: Prediction, seed: int
) -> Outcome:
    """Runs a job with the exchanges of a step, in which about ``DEATHS`` ranks die.

    Raises:
      UsageError: If the fabric has no rate of failures.
    """
    failures, ranks = fabric.failures, settings.ranks
    if failures is None:
        raise UsageError("--simulate: the fabric has no 'failures'")
    program = list_exchanges(
        predicted.buckets, [transfer for transfer, _ in predicted.others],
        step.backward_end, ranks, settings.exchange,
    )  # fmt: skip
    interval = failures.find_interval(ranks)
    job = Job(
        ranks, program,
        lambda exchange: exchange.transfer.cost(fabric.levels, ranks).seconds,
        predicted.seconds, max(1, round(interval / predicted.seconds)), failures,
    )  # fmt: skip
    mean = failures.get_mean_time(ranks)
    return simulate(job, max(1, round(DEATHS * mean / interval)), seed)
