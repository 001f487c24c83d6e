"""Predicts a step on many ranks from its plan and a fabric."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from binade.planning.collectives import Cost, divide_ranks
from binade.planning.fabric import Fabric
from binade.planning.sharding import get_unevenness
from binade.planning.schedule import Bucket, Overlap, merge_buckets, overlap
from binade.planning.step import Step
from binade.planning.transfers import (
    GRADIENTS,
    Transfer,
    list_gradient_transfers,
    list_other_transfers,
)


@dataclasses.dataclass(frozen=True)
class Settings:
    """How a step is shared.

    Attributes:
      shard: ``none``, or ``zero1`` for sharded states (ZeRO stage 1).
      exchange: The format of gradients.
      batches: The micro-batches of each rank in a step.
      bucket: The least bytes of a bucket in f32; 0 for those of the step.
    """

    ranks: int
    shard: str = "none"
    exchange: str = "f32"
    batches: int = 1
    bucket: int = 0

    @property
    def is_sharded(self) -> bool:
        return self.shard == "zero1"

    @property
    def ledger(self) -> tuple[str, str]:
        return self.shard, self.exchange


@dataclasses.dataclass(frozen=True)
class Prediction:
    """What a step takes.

    Attributes:
      buckets: The gradients exchanged together.
      bucket_costs: The cost of each bucket's transfers.
      others: The transfers that nothing hides, with their costs.
      overlap: How much of the exchange of gradients the backward pass hides.
      compute: Seconds of the step on the rank with the largest shard.
    """

    buckets: tuple[Bucket, ...]
    bucket_costs: tuple[Cost, ...]
    others: tuple[tuple[Transfer, Cost], ...]
    overlap: Overlap
    compute: float

    @property
    def gradients(self) -> Cost:
        return sum(self.bucket_costs, Cost())

    @property
    def exposed(self) -> float:
        """Seconds by which exchanges make the step longer."""
        return self.overlap.exposed + sum(cost.seconds for _, cost in self.others)

    @property
    def seconds(self) -> float:
        return self.compute + self.exposed

    @property
    def sent(self) -> float:
        """Bytes that a rank sends in a step."""
        return self.gradients.sent + sum(cost.sent for _, cost in self.others)


def predict(step: Step, fabric: Fabric, settings: Settings) -> Prediction:
    """Predicts a step with the given settings."""
    levels, ranks = fabric.levels, settings.ranks
    least = settings.bucket or step.min_bucket_bytes
    buckets = merge_buckets(step.buckets, least // 4)
    costs = [
        sum(
            (transfer.cost(levels, ranks) for transfer in list_gradient_transfers(
                bucket.elements, ranks, settings.exchange)),
            Cost(),
        )
        for bucket in buckets
    ]  # fmt: skip
    gathered = saved = 0.0
    if settings.is_sharded and ranks > 1:
        unevenness = get_unevenness(step.sharded, ranks)
        gathered = sum(one.bytes for one in step.sharded) * unevenness
        saved = step.update * (1 - unevenness / ranks)
    others = list_other_transfers(ranks * settings.batches, step.magnitudes, gathered)
    hidden = overlap(
        [bucket.ready for bucket in buckets],
        [cost.seconds for cost in costs],
        step.backward_end,
    )
    compute = (
        step.seconds
        - saved
        + (settings.batches - 1) * (step.earlier or step.backward_end)
    )
    return Prediction(
        tuple(buckets), tuple(costs),
        tuple((one, one.cost(levels, ranks)) for one in others), hidden, compute,
    )  # fmt: skip


def compare_formats(
    step: Step, fabric: Fabric, settings: Settings
) -> dict[str, Prediction]:
    """Predicts the step for each format of exchanged gradients."""
    return {
        name: predict(step, fabric, dataclasses.replace(settings, exchange=name))
        for name in GRADIENTS
    }


def compare_buckets(
    step: Step, fabric: Fabric, settings: Settings, sizes: Sequence[int]
) -> list[tuple[int, Prediction]]:
    """Predicts the step for several least sizes of buckets in bytes, without those that make the
    same buckets."""
    found: list[tuple[int, Prediction]] = []
    for size in sizes:
        one = predict(step, fabric, dataclasses.replace(settings, bucket=size))
        if not found or len(one.buckets) < len(found[-1][1].buckets):
            found.append((size, one))
    return found


# --- JSON -------------------------------------------------------------------------------


def write_cost(cost: Cost) -> dict[str, float]:
    return {
        "sent_bytes": cost.sent,
        "latency_s": cost.latency,
        "transfer_s": cost.transfer,
    }


def write_prediction(prediction: Prediction) -> dict[str, Any]:
    """Returns a prediction for ``--json``."""
    return {
        "buckets": [
            {"elements": bucket.elements, "tensors": bucket.tensors,
             "ready_s": bucket.ready, **write_cost(cost)}
            for bucket, cost in zip(prediction.buckets, prediction.bucket_costs)
        ],
        "others": [
            {"what": transfer.what, "operation": transfer.operation,
             "bytes": transfer.size, **write_cost(cost)}
            for transfer, cost in prediction.others
        ],
        "sent_bytes": prediction.sent,
        "exchange_s": prediction.overlap.exchange,
        "exposed_s": prediction.exposed,
        "hidden": prediction.overlap.hidden,
        "compute_s": prediction.compute,
        "step_s": prediction.seconds,
    }  # fmt: skip


def write_levels(fabric: Fabric, ranks: int) -> list[dict[str, Any]]:
    return [
        {"name": level.name, "members": members, "latency_s": level.latency,
         "bytes_per_s": level.bandwidth}
        for level, members in divide_ranks(fabric.levels, ranks)
    ]  # fmt: skip
