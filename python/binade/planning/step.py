"""Reads from the plan of a step what its exchange depends on."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any

from binade.planning.schedule import Bucket

# The first record after the backward pass: it reads all gradients.
_AFTER_BACKWARD = ("gradient_statistics", "optimizer_update")
DEFAULT_BUCKET = 25 * 2**20  # Bytes in f32, as PyTorch's DDP.


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A trained parameter."""

    name: str
    shape: tuple[int, ...]
    bytes: int


@dataclasses.dataclass(frozen=True)
class ShardedParameter:
    """A parameter whose optimizer states ``zero1`` shards.

    Attributes:
      block: Shards begin at multiples of this number of elements.
      states: Bytes of its optimizer states.
      bytes: Bytes of the parameter.
    """

    elements: int
    block: int
    states: int
    bytes: int


@dataclasses.dataclass(frozen=True)
class Step:
    """A training step of one rank.

    Attributes:
      buckets: The gradients that are exchanged together, in the order of the exchange.
      min_bucket_bytes: The bytes in f32 up to which successive buckets are joined.
      magnitudes: The number of largest magnitudes that are exchanged for delayed scales.
      backward_end: Seconds from the start of the last micro-batch to the end of its backward
        pass.
      seconds: Seconds of the last micro-batch and the update.
      update: Seconds of these that are sharded with the optimizer states.
      earlier: Seconds of each micro-batch before the last.
      ledgers: The peak memory of a rank for each way to distribute the step, by shard and format
        of the exchange.
      states: Bytes of the optimizer states.
      exchange: The format in which it exchanges gradients; empty without an exchange.
      batches: The micro-batches of a step, of all ranks if it has an exchange.
    """

    model: str
    policy: str
    target: str
    parameters: tuple[Parameter, ...]
    sharded: tuple[ShardedParameter, ...]
    buckets: tuple[Bucket, ...]
    min_bucket_bytes: int
    magnitudes: int
    backward_end: float
    seconds: float
    update: float
    earlier: float
    ledgers: dict[tuple[str, str], dict[str, int]]
    states: int
    exchange: str
    batches: int

    @property
    def elements(self) -> int:
        return sum(bucket.elements for bucket in self.buckets)


def read_step(plan: dict[str, Any], report: dict[str, Any]) -> Step:
    """Returns the step of a plan.

    Args:
      plan: The output of ``binade inspect --json``.
      report: The output of ``binade inspect --ledger=ranks --costs ... --json``.
    """
    times = report["seconds"]
    starts = [0.0]
    for seconds in times["step"]:
        starts.append(starts[-1] + seconds)
    parameters = [
        Parameter(port["name"], tuple(buffer["shape"]), buffer["bytes"])
        for port, buffer in list_ports(plan, "parameter")
    ]
    sizes = {one.name: one.bytes for one in parameters}
    sharded = [
        ShardedParameter(
            one["elements"], one["block"], one["states"], sizes[one["name"]]
        )
        for one in report["sharded"]
    ]
    buckets, magnitudes, end = find_buckets(plan, starts)
    formats = [
        record.get("format", "f32")
        for record in plan["records"]
        if record["kind"] == "exchange" and record.get("operation") == "sum"
    ]
    exchange = formats[0] if formats else ""
    return Step(
        plan.get("model", ""), plan["policy"]["name"], times["target"], tuple(parameters), tuple(sharded),
        tuple(buckets), 0 if exchange else DEFAULT_BUCKET, magnitudes, starts[end], starts[-1],
        times["sharded"], sum(times["accumulation"]),
        {(one["shard"], one["exchange"]): one["ledger"] for one in report["ledgers"]},
        sum(buffer["bytes"] for _, buffer in list_ports(plan, "state")),
        exchange, plan.get("batches", 1),
    )  # fmt: skip


def list_ports(
    plan: dict[str, Any], role: str
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yields the ports of a role with their buffers."""
    for port in plan["ports"]:
        if port["role"] == role:
            yield port, plan["buffers"][port["buffer"]]


def find_buckets(
    plan: dict[str, Any], starts: Sequence[float]
) -> tuple[list[Bucket], int, int]:
    """Returns the buckets of a step, the number of exchanged magnitudes, and the record before
    which the exchange has to end.

    Those of the plan if it has an exchange; otherwise one for each gradient, in the order in
    which they are completed.

    Args:
      starts: When each record starts, and the end of the last.
    """
    records = plan["records"]
    exchanges = [
        (number, record)
        for number, record in enumerate(records)
        if record["kind"] == "exchange"
    ]
    if not exchanges:
        gradients, end = find_gradients(plan)
        return [Bucket(starts[n + 1], elements, 1) for n, elements in gradients], 0, end
    buckets, magnitudes, end = [], 0, len(records)
    for number, record in exchanges:
        elements = record.get("elements", [])
        if record["action"] == "join":
            end = number
        elif record["action"] == "start" and record["operation"] == "max":
            magnitudes += sum(elements)
        elif record["action"] == "start":
            buckets.append(Bucket(starts[number], sum(elements), len(elements)))
    return buckets, magnitudes, end


def find_gradients(plan: dict[str, Any]) -> tuple[list[tuple[int, int]], int]:
    """Returns for each gradient of a plan without an exchange, in the order in which they are
    completed, the record that completes it and the number of its elements; and the record before
    which all are complete.

    Gradients are alive together until the update, so that an offset is one gradient. With
    several micro-batches they are accumulators.
    """
    gradients = [buffer for _, buffer in list_ports(plan, "accumulator")] or [
        buffer for buffer in plan["buffers"] if buffer["category"] == "gradient"
    ]
    sizes = {buffer["offset"]: math.prod(buffer["shape"]) for buffer in gradients}
    offsets = [
        buffer["offset"] if buffer["category"] == "gradient" else None
        for buffer in plan["buffers"]
    ]
    last: dict[int, int] = {}
    end = len(plan["records"])
    for number, record in enumerate(plan["records"]):
        if record["label"].startswith(_AFTER_BACKWARD):
            end = number
            break
        for index in _list_buffers(record):
            offset = offsets[index]
            if offset in sizes:
                last[offset] = number
    order = sorted(last, key=lambda offset: last[offset])
    return [(last[offset], sizes[offset]) for offset in order], end


def _list_buffers(part: Any) -> Iterator[int]:
    """Yields the buffers that a record mentions."""
    if isinstance(part, dict):
        if isinstance(part.get("buffer"), int):
            yield part["buffer"]
        part = list(part.values())
    if isinstance(part, list):
        for inner in part:
            if isinstance(inner, (dict, list)):
                yield from _list_buffers(inner)
