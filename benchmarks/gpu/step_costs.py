"""Predicts the time of each record of a step, in the order of the step."""

from __future__ import annotations

import collections
import dataclasses
import math

from attention_costs import Attention, find_attention, predict_attention
from bundles import Bundle
from chips import Chip
from costs import Time, predict_copy, predict_launch
from counts import Launch, count
from matmul_costs import Matmul, predict_matmul
from residency import Residency


@dataclasses.dataclass
class RecordCost:
    """`cached` has a list for each of `launches`, as costs.count_traffic takes it. `attention` is
    set where a library computes it."""

    record: dict
    launches: list[Launch]
    cached: list[list[float]]
    matmul: Matmul | None = None
    attention: Attention | None = None
    copied: float = 0  # Bytes that a copy writes; most copies write a constant.


def find_matmul(bundle: Bundle, record: dict) -> Matmul:
    m, n, k = (record.get(axis, 1) for axis in "mnk")
    widths = {"F32": 4, "F64": 8, "BF16": 2, "F16": 2}  # Others have 8 bits.
    return Matmul(
        m, n, k, math.prod(record.get("batch", [])),
        widths.get(bundle.dtype_of(record["lhs"]), 1),
        widths.get(bundle.dtype_of(record["out"]), 1),
        record.get("accumulate", False),
    )  # fmt: skip


class StepCosts:
    """Walks a bundle's step. Kernels of equal names do equal work, so each is counted once.
    `by` is what computes attention, as in BINADE_CONTRACTION: "auto", "library" or "own"."""

    def __init__(self, bundle: Bundle, chip: Chip, by: str = "auto"):
        self.bundle, self.chip, self.by = bundle, chip, by
        self.residency = Residency(chip.l2_bytes)
        self.counted: dict[str, list[Launch]] = {}

    def walk(self, records: list[dict] | None = None, iteration: int = 0):
        """Yields the cost of each record, and how often the step executes it like this: the
        iterations of a loop after the first are equal."""
        for record in self.bundle.plan["records"] if records is None else records:
            if record["kind"] != "loop":
                yield self.visit(record, iteration), 1
                continue
            for number in range(min(2, record["count"])):
                times = record["count"] - 1 if number else 1
                for cost, inner in self.walk(record["body"], number):
                    yield cost, times * inner

    def visit(self, record: dict, iteration: int) -> RecordCost:
        operands = self.bundle.list_accessed(record)
        shares = self.residency.access(operands, iteration)
        if record["kind"] == "matmul":
            return RecordCost(record, [], [], find_matmul(self.bundle, record))
        if record["kind"] == "attention" and self.chip.attention and self.by != "own":
            if self.by == "library":
                return RecordCost(record, [], [], attention=find_attention(record))
            if scratch := record.get("library_scratch"):
                workspace = self.bundle.size_of(scratch)
                found = find_attention(record, workspace)
                return RecordCost(record, [], [], attention=found)
        if record["kind"] not in ("launch", "attention"):
            return RecordCost(record, [], [], copied=operands[-1][1])
        name = record.get("kernel") or record["device_kernel"]
        if name not in self.counted:
            self.counted[name] = count(self.bundle, record)
        launches = self.counted[name]
        is_many = len(record.get("segments", [])) > 1
        cached, written = [], set()
        for launch in launches:
            known = [0.0] * len(launch.operands) if is_many else shares
            cached.append(
                [
                    max(0.0, 1 - operand.bytes / self.chip.l2_bytes)
                    if index in written
                    else share
                    for index, (operand, share) in enumerate(
                        zip(launch.operands, known)
                    )
                ]
            )
            written |= {i for i, x in enumerate(launch.operands) if x.written}
        return RecordCost(record, launches, cached)


def predict_record(cost: RecordCost, chip: Chip) -> Time:
    """Seconds of a record in a graph, and what limits it."""
    if cost.matmul:
        seconds = predict_matmul(chip.chip, cost.matmul)
        return Time(seconds, {"matmul": seconds})
    if cost.attention:
        seconds = predict_attention(cost.attention, chip.law_of(cost.attention))
        return Time(seconds, {"attention": seconds})
    if not cost.launches:
        return predict_copy(cost.copied, chip)
    seconds, limits = 0.0, collections.Counter()
    for launch, cached in zip(cost.launches, cost.cached, strict=True):
        time = predict_launch(launch, chip, cached)
        seconds += time.seconds
        limits.update(time.limits)
    return Time(seconds, dict(limits))
