"""What breaks first when a training step gets more ranks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from binade.planning.collectives import find_half_size
from binade.planning.sharding import get_unevenness
from binade.planning.fabric import Fabric
from binade.planning.failures import Failures
from binade.planning.prediction import Prediction, Settings, predict
from binade.planning.step import Step

MAX_RANKS = 2**20  # Ranks that are looked at.
MAX_LOST_SHARE = 0.1  # A share of the time that is too much.
MAX_IMBALANCE = (
    1.5  # The elements of the fullest rank, relative to the mean, that are too many.
)
# A manifest lists the file, shape, offsets and SHA-256 of each part of each tensor.
MANIFEST_ENTRY = 200  # Bytes.
MANIFEST_SECONDS = 1.0
JSON_RATE = 100e6  # Bytes per second that a JSON parser reads.


@dataclasses.dataclass(frozen=True)
class Limit:
    """What a step cannot bear.

    Attributes:
      ranks: The smallest power of two from which it holds; None if it does not up to ``MAX_RANKS``.
      why: A sentence with the numbers at that number of ranks.
    """

    name: str
    ranks: int | None
    why: str


def find_limits(step: Step, fabric: Fabric, settings: Settings) -> list[Limit]:
    """Returns what breaks, in the order of the number of ranks."""

    def predict_on(ranks: int) -> Prediction:
        return predict(step, fabric, dataclasses.replace(settings, ranks=ranks))

    checks = [
        ("exchange not hidden", lambda n: _exposure(predict_on(n))),
        ("small buckets", lambda n: _latency(predict_on(n), fabric, n)),
        ("few blocks", lambda n: _few_blocks(step, n)),
        ("uneven shards", lambda n: _uneven(step, n)),
        ("manifest", lambda n: _manifest(step, n)),
    ]
    if settings.exchange in ("bf16", "e4m3"):
        checks.append(("messages of all-to-all", lambda n: _messages(predict_on(n), n)))
    if fabric.failures:
        failures = fabric.failures
        checks.append(("failures", lambda n: _failures(failures, n)))
        checks.append(
            ("gathered checkpoint", lambda n: _gather(step, fabric, failures, n))
        )
    limits = [_find(name, check) for name, check in checks]
    return sorted(limits, key=lambda limit: limit.ranks or 2 * MAX_RANKS)


def _find(name: str, check: Callable[[int], str]) -> Limit:
    ranks = 2
    while ranks <= MAX_RANKS:
        if why := check(ranks):
            return Limit(name, ranks, why)
        ranks *= 2
    return Limit(name, None, f"not up to {MAX_RANKS:,} ranks")


def _exposure(prediction: Prediction) -> str:
    share = prediction.exposed / prediction.seconds
    if share <= MAX_LOST_SHARE:
        return ""
    return (
        f"exchanges make the step {1e3 * prediction.exposed:.3g} ms longer, "
        f"{100 * share:.0f} % of its time"
    )


def _latency(prediction: Prediction, fabric: Fabric, ranks: int) -> str:
    cost = prediction.gradients
    if cost.latency <= cost.transfer:
        return ""
    size = find_half_size(fabric.levels, ranks)
    return (
        f"latency is {1e3 * cost.latency:.3g} of {1e3 * cost.seconds:.3g} ms of the "
        f"{len(prediction.buckets)} buckets; latency is half of the time of an all-reduce of "
        f"{size / 1e6:.3g} MB"
    )


def _few_blocks(step: Step, ranks: int) -> str:
    blocks = sum(-(-one.elements // one.block) for one in step.sharded)
    if blocks == 0 or blocks >= ranks:
        return ""
    size = max(one.block for one in step.sharded)
    return (
        f"the states that zero1 shards are those of {blocks:,} blocks of up to {size:,} "
        "elements; some ranks have none of them"
    )


def _uneven(step: Step, ranks: int) -> str:
    ratio = get_unevenness(step.sharded, ranks)
    if ratio <= MAX_IMBALANCE:
        return ""
    return f"with zero1 the fullest rank has {ratio:.3g} times the mean of the elements"


def _messages(prediction: Prediction, ranks: int) -> str:
    latency = prediction.gradients.latency
    if latency <= MAX_LOST_SHARE * prediction.compute:
        return ""
    return (
        f"each bucket takes {ranks - 1:,} messages in each rank, "
        f"{1e3 * latency:.3g} ms of latency per step"
    )


def _manifest(step: Step, ranks: int) -> str:
    entries = len(step.parameters) * ranks
    seconds = entries * MANIFEST_ENTRY / JSON_RATE
    if seconds <= MANIFEST_SECONDS:
        return ""
    return (
        f"a manifest of {entries:,} parts has {entries * MANIFEST_ENTRY / 1e6:.0f} MB, "
        f"which every rank parses in {seconds:.2g} s: keep one per node"
    )


def _failures(failures: Failures, ranks: int) -> str:
    interval = failures.find_interval(ranks)
    lost = failures.get_lost_share(ranks, interval)
    if lost <= MAX_LOST_SHARE:
        return ""
    return (
        f"a failure every {failures.get_mean_time(ranks) / 3600:.3g} h, "
        f"{100 * lost:.0f} % of the time lost with a checkpoint every "
        f"{interval / 60:.3g} min"
    )


def _gather(step: Step, fabric: Fabric, failures: Failures, ranks: int) -> str:
    size = step.states + sum(one.bytes for one in step.parameters)
    save = size / fabric.levels[-1].bandwidth
    gathered = dataclasses.replace(failures, save=max(save, failures.save))
    lost = gathered.get_lost_share(ranks, gathered.find_interval(ranks))
    if lost <= MAX_LOST_SHARE or save <= failures.save:
        return ""
    return (
        f"rank 0 receives {size / 1e9:.3g} GB over one link in {save:.3g} s, with which "
        f"{100 * lost:.0f} % of the time is lost"
    )


def list_sizes() -> Sequence[int]:
    """Returns the sizes of buckets to compare, in bytes."""
    return [2**20 * size for size in (1, 5, 25, 100, 400)]
