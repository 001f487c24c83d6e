"""Predicts the time of a kernel from what one of its blocks executes (counts.py).

A kernel takes the time to start, then the time of one block, and the time of its slowest
limit: bytes from DRAM, bytes from L2, instructions, those of the ALU and of the special
function units, starts of blocks, and, if the multiprocessors hold its blocks only in
several waves, the latency of these. Limits that are close to each other add up in part.
"""

from __future__ import annotations

import dataclasses
import math

from chips import Chip
from counts import WARP, Launch
from reuse import distance_of

GRANULE = 256  # Registers are allocated to warps in so many.
RESERVED = 1024  # Bytes of shared memory of a block that the system takes.


@dataclasses.dataclass(frozen=True)
class Time:
    """Seconds of a kernel, and of each limit."""

    seconds: float
    limits: dict[str, float]

    @property
    def limit(self) -> str:
        return max(self.limits, key=self.limits.get)


def count_resident(launch: Launch, chip: Chip) -> int:
    """How many blocks a multiprocessor holds at a time."""
    warps = math.ceil(launch.threads / WARP)
    registers = GRANULE * math.ceil(launch.registers * WARP / GRANULE) * warps
    limits = [
        chip.registers // registers,
        chip.threads // (WARP * warps),
        chip.blocks,
    ]
    if launch.shared:
        limits.append(chip.shared_bytes // (launch.shared + RESERVED))
    return max(1, min(limits))


@dataclasses.dataclass(frozen=True)
class Traffic:
    """Bytes that a kernel moves from or to DRAM and L2, and the share of what it reads that
    is in L2 before."""

    dram: float
    l2: float
    cached: float


def count_traffic(launch: Launch, chip: Chip, cached: list[float]) -> Traffic:
    """`cached` has, for each operand, the share that is in L2 when the kernel starts."""
    resident = count_resident(launch, chip)
    active = min(launch.grid, chip.multiprocessors * resident)
    dram = l2 = read = hit = 0.0
    for operand, share in zip(launch.operands, cached, strict=True):
        # Blocks that read the same bytes find them in L2.
        fresh = min(launch.grid * operand.read, operand.bytes)
        read += fresh
        hit += share * fresh
        dram += (1 - share) * fresh + min(launch.grid * operand.written, operand.bytes)
        l2 += launch.grid * (operand.read + operand.written)
        for step, moved in operand.reuse.items():
            distance = distance_of(step)
            if resident * distance <= chip.l1_bytes:
                continue
            l2 += launch.grid * moved
            if min(active * distance, operand.bytes) > chip.l2_bytes:
                dram += launch.grid * moved
    return Traffic(dram, l2, hit / read if read else 0.0)


def predict_copy(written: float, chip: Chip) -> Time:
    """The time of a kernel that only writes `written` bytes."""
    seconds = written / chip.dram_rate
    return Time(chip.start + seconds, {"DRAM": seconds})


def predict_launch(launch: Launch, chip: Chip, cached: list[float]) -> Time:
    """The time of a kernel; `cached` as in count_traffic."""
    work, grid = launch.work, launch.grid
    busy = chip.clock * min(grid, chip.multiprocessors)
    waves = grid / (chip.multiprocessors * count_resident(launch, chip))
    traffic = count_traffic(launch, chip, cached)
    limits = {
        "DRAM": traffic.dram / chip.dram_rate,
        "L2": traffic.l2 / chip.l2_rate,
        "instructions": grid * work.instructions / (chip.instructions * busy),
        "ALU": grid * work.alu / (chip.alu * busy),
        "special functions": grid * work.special / (chip.special * busy),
        "blocks": grid * chip.block_start,
        "matrix units": grid * work.products / (chip.matrix_rate * busy),
    }
    latency = chip.dram_latency
    latency += traffic.cached * (chip.l2_latency - chip.dram_latency)
    waits = work.fresh_waits * latency + work.cached_waits * chip.l2_latency
    warps = math.ceil(launch.threads / WARP)
    issued = work.instructions / (WARP * warps) * chip.dependency
    block = (waits / chip.overlap + issued) / chip.clock
    if waves > 1:
        limits["latency"] = waves * (block + chip.turnaround)
    powers = sum(seconds**chip.exponent for seconds in limits.values())
    return Time(chip.start + block + powers ** (1 / chip.exponent), limits)
