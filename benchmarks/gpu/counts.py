"""Counts what the blocks of a bundle's kernels execute, by running one block of each.

The PTX is run as `test/python/support/ptx.py` does. WEIGHTS has what the assembler makes of
an instruction and how often a multiprocessor can issue that, as measured on an H100
(results/rates). Movements between registers are left out, as the assembler does.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import math
import mmap
import pathlib
import re
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test/python"))

from support import ptx  # noqa: E402
from bundles import Bundle  # noqa: E402
from reuse import SECTOR, Histogram, ReuseDistances, step_of  # noqa: E402
from support.gpu_code import Entry, assemble, count_shared, parse  # noqa: E402

WARP = 32
MMA = "mma.sync.aligned.m16n8k16"
MMA_FLOPS = 2 * 16 * 8 * 16  # Of a warp.
# Instructions of a thread after which a load that it started is complete: those that take as
# long as a load from DRAM, 688 cycles (chips/sm_90.yaml).
COVERED = 136
MAP_NORESERVE = 0x4000  # Of Linux, where the module has no name for it.
DTYPES = {"F32": np.float32, "F64": np.float64, "I32": np.int32, "I64": np.int64}
# The first pattern that matches an instruction of PTX has its cost: issue slots, of which a
# multiprocessor has 128 per cycle, slots of the ALU (64) and of special functions (16).
WEIGHTS = [
    (r"mov|cvta|ld\.param|bra\.uni|ret|neg\.f32", 0, 0, 0),
    (r"div\.rn\.f32", 19, 1, 1),
    (r"sqrt\.rn\.f32", 14, 2, 1),
    (r"rcp\.rn\.f32", 11, 2, 1),
    (r"(div|sqrt|rcp)\.rn\.f64", 40, 4, 1),
    (r"(ex2|lg2|rsqrt)\.|(rcp|sqrt|tanh)\.approx", 1, 0, 1),
    (r"cvt\.\S*(e4m3|e5m2)x2\.f32|shfl|redux", 1, 0, 0.5),
    (r"cvt\.\S*\.(e4m3|e5m2)x2", 1, 0, 0.28),
    (r"cvt\.r\w+i?\.\S*[su](32|64)|cvt\.rn\.f32\.[su]", 1, 0, 1),
    (r"cvt\.[su]64\.[su]32|cvt\.[su]32\.[su]64", 1, 0, 0),
    (r"(ld|st|atom|bar|bra|cp\.async)", 1, 0, 0),
    (r"(mul|fma|add|sub)\.rn\.", 1, 0, 0),
    (r"(add|sub)\.[su]32", 1, 0, 0),
    (r"(add|sub)\.[su]64", 2, 0, 0),
    (r"mul\.wide|mul\.lo\.[su]32|mad\.lo\.[su]32", 1, 1, 0),
    (r"(mul|mad)\.lo\.[su]64", 3, 3, 0),
    (r"(div|rem)\.[su]64", 70, 40, 1),
    (r"(div|rem)\.[su]32", 20, 10, 1),
    (r".*[subf]64", 2, 2, 0),
    (r".*", 1, 1, 0),
]


@functools.cache
def weigh(instruction: str) -> tuple[float, float, float]:
    return next(
        tuple(counts) for form, *counts in WEIGHTS if re.match(form, instruction)
    )


@dataclasses.dataclass
class Operand:
    """What a block does with an operand of a kernel, in bytes.

    `bytes` is the size of the operand. `read` and `written` count each sector once; `reuse`
    has further reads, by their reuse distance within the block.
    """

    bytes: float
    read: float = 0
    written: float = 0
    reuse: Histogram = dataclasses.field(default_factory=Histogram)


@dataclasses.dataclass
class Work:
    """What a block executes.

    `instructions`, `alu` and `special` are sums of WEIGHTS over its threads, `products` are
    FLOPs of matrix units. The first thread of the block waits `fresh_waits` times for loads
    of bytes that the block has not accessed before, and `cached_waits` times for others.
    """

    instructions: float = 0
    alu: float = 0
    special: float = 0
    products: float = 0
    fresh_waits: float = 0
    cached_waits: float = 0

    def add(self, other: Work, times: float) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name) + times * getattr(other, field.name)
            setattr(self, field.name, value)


@dataclasses.dataclass
class Launch:
    """A kernel as it is launched; `work` and `operands` are those of one block."""

    symbol: str
    grid: float  # Blocks.
    threads: int  # Of a block.
    registers: int  # Of a thread.
    shared: int  # Bytes of a block.
    work: Work
    operands: list[Operand]


@functools.cache
def parse_entries(text: str) -> dict[str, Entry]:
    # A module of a bundle has no comments that say how it is launched.
    described = "".join(
        f"// {symbol}: {symbol}, 0 blocks of 0 threads, 0 bytes of shared memory, 0 of "
        "workspace\n"
        for symbol in re.findall(r"\.entry (\w+)\(", text)
    )
    return {
        entry.symbol: dataclasses.replace(
            entry, shared=count_shared(text, entry.symbol)
        )
        for entry in parse(described + text)
    }


@functools.cache
def count_registers(text: str) -> dict[str, int]:
    """Registers of a thread of each entry, as ptxas allocates them."""
    chip = re.search(r"\.target (sm_\w+)", text)[1]
    with tempfile.TemporaryDirectory() as folder:
        used = assemble(text, chip, pathlib.Path(folder))
    return {symbol: usage.registers for symbol, usage in used.items()}


def find_entries(bundle: Bundle, kernel: str) -> list[tuple[Entry, int]]:
    """The entries of a kernel in the order of their launches, with their registers."""
    known = bundle.kernels[kernel]
    text = bundle.code(known["module"], "compute_").decode()
    found, registers = parse_entries(text), count_registers(text)
    return [
        (dataclasses.replace(found[e["symbol"]], block=int(np.prod(e["block"])),
                             grid=int(np.prod(e["grid"]))), registers[e["symbol"]])
        for e in known["entries"]
    ]  # fmt: skip


def size_of(name: list[str], registers: list[str]) -> int:
    """Bytes that a load or store accesses."""
    return np.dtype(ptx.numpy_type(name[-1])).itemsize * len(registers)


class CountingBlock(ptx.Block):
    """Counts what the block does. `sizes` and `owners` describe its operands: owner(memory,
    offset) is the index of the operand there, or None for what is not counted."""

    def __init__(self, entry, memories, number, threads, grid, sizes=(), owner=None):
        super().__init__(entry, memories, number, threads, grid)
        self.work = Work()
        self.operands = [Operand(size) for size in sizes]
        self.owner = owner or (lambda memory, _: memory)
        self.places = {id(memory): i for i, memory in enumerate(self.memories)}
        self.distances = ReuseDistances()
        self.written: set[tuple[int, int]] = set()
        self.pending: dict[
            str, bool
        ] = {}  # Registers of loads; whether bytes are fresh.
        self.is_first = False
        # Of the first thread: the instructions so far, and those before its last
        # asynchronous copy, if it has not waited since.
        self.executed, self.copied_at, self.copies_are_fresh = 0, None, False

    def step(self, line):
        threads = WARP * len(np.unique(self.who // WARP))
        text = re.sub(r"^@!?%p\d+\s+", "", line)
        instruction = text.split()[0]
        self.work.add(Work(*weigh(instruction)), threads)
        if instruction.startswith(MMA):
            self.work.products += threads / WARP * MMA_FLOPS
        self.is_first = 0 in self.who
        self.executed += self.is_first
        if self.is_first and self.pending:
            self.wait(re.findall(r"%[a-z]+\d+", text))
        super().step(line)

    def wait(self, registers):
        """An instruction of the first thread that uses a pending load waits for all."""
        if not any(register in self.pending for register in registers):
            return
        if any(self.pending.values()):
            self.work.fresh_waits += 1
        else:
            self.work.cached_waits += 1
        self.pending.clear()

    def wait_for_copies(self):
        """What the thread executed since it started them hides the latency, or a part of it
        that is not counted."""
        if self.copied_at is not None and self.executed - self.copied_at < COVERED:
            if self.copies_are_fresh:
                self.work.fresh_waits += 1
            else:
                self.work.cached_waits += 1
        self.copied_at, self.copies_are_fresh = None, False

    def access(self, size, text, is_load) -> bool:
        """Counts sectors. Returns whether the block accesses one of them first."""
        memory, where = self.address(text, size)
        number = self.places.get(id(memory))
        is_fresh = False
        for sector in np.unique(where // SECTOR).tolist():
            index = number is not None and self.owner(number, sector * SECTOR)
            if index is None or index is False or index >= len(self.operands):
                continue
            operand = self.operands[index]
            distance = self.distances.access(number, sector)
            is_fresh |= distance is None
            if not is_load:
                if (number, sector) not in self.written:
                    self.written.add((number, sector))
                    operand.written += SECTOR
            elif distance is None:
                operand.read += SECTOR
            else:
                operand.reuse[step_of(distance)] += SECTOR
        return is_fresh

    def do_ld(self, name, operands):
        if "global" in name:
            registers = re.findall(r"[%\w]+", operands[0])
            is_fresh = self.access(size_of(name, registers), operands[1], True)
            if self.is_first:
                self.pending.update(dict.fromkeys(registers, is_fresh))
        super().do_ld(name, operands)

    def do_st(self, name, operands):
        if "global" in name:
            registers = re.findall(r"[%\w]+", operands[1])
            self.access(size_of(name, registers), operands[0], False)
        super().do_st(name, operands)

    def do_cp(self, name, operands):
        if "global" in name:
            is_fresh = self.access(int(operands[2]), operands[1], True)
            if self.is_first:
                self.copied_at = self.executed
                self.copies_are_fresh |= is_fresh
        elif name[2] == "wait_group" and self.is_first:
            self.wait_for_copies()
        super().do_cp(name, operands)


def make_zeros(count: int) -> np.ndarray:
    """Bytes of which only those that are touched take memory, and vectors' ends."""
    sparse = mmap.mmap(-1, count + 16, flags=mmap.MAP_PRIVATE | MAP_NORESERVE)
    return np.frombuffer(sparse, np.uint8)


def fill(
    memory: np.ndarray, dtype: str, limits: dict | None, random: np.random.Generator
) -> None:
    """A block reads small values, where states and factors of a healthy step are not
    negative, and indices of equal probability."""
    if dtype not in DTYPES:
        return
    width = np.dtype(DTYPES[dtype]).itemsize
    few = memory[: len(memory) // width * width].view(DTYPES[dtype])[: 1 << 16]
    if dtype.startswith("F"):
        few[:] = 1e-3 * np.abs(random.standard_normal(few.shape))
    elif limits:
        few[:] = random.integers(limits.get("low", 0), limits["high"], few.shape)


def run_block(entry: Entry, registers: int, memories, number, sizes, owner=None):
    """Runs a block; returns the launch of `entry.grid` such blocks."""
    grid = max(entry.grid, 1)
    block = CountingBlock(entry, memories, number, entry.block, grid, sizes, owner)
    block.run()
    return Launch(entry.symbol, entry.grid, entry.block, registers, entry.shared,
                  block.work, block.operands)  # fmt: skip


def count_many(bundle: Bundle, record: dict) -> list[Launch]:
    """A multi-tensor launch: the first block of each kernel, for all blocks."""
    buffers, random = bundle.plan["buffers"], np.random.default_rng(0)
    arena = make_zeros(bundle.plan["arena_bytes"])
    segments, launches = collections.defaultdict(list), []
    for segment in record["segments"]:
        segments[segment.get("kernel") or record["kernel"]].append(segment)
    for name, every in segments.items():
        count = min(record["grain"], every[0]["extent"])
        places = []
        for view in every[0]["operands"]:
            buffer = buffers[view["buffer"]]
            places.append((buffer["offset"], buffer["offset"] + buffer["bytes"]))
            memory = arena[slice(*places[-1])]
            fill(memory, buffer["dtype"], bundle.limits_of(view), random)
        sizes = [
            sum(bundle.size_of(segment["operands"][i]) for segment in every)
            for i in range(len(places))
        ]

        def owner(memory, offset, places=places):
            within = (
                i for i, (first, end) in enumerate(places) if first <= offset < end
            )
            return None if memory else next(within, None)

        row = [first for first, _ in places]
        table = np.array([*row, 0, count], np.int64).view(np.uint8)
        entry, registers = find_entries(bundle, name)[0]
        launch = run_block(entry, registers, [arena, table], 0, sizes, owner)
        blocks = sum(segment["extent"] for segment in every) / count
        launches.append(dataclasses.replace(launch, grid=math.ceil(blocks)))
    return launches


def allocate(bundle: Bundle, views: list[dict]) -> list[np.ndarray]:
    random, memories = np.random.default_rng(0), []
    for view in views:
        buffer = bundle.plan["buffers"][view["buffer"]]
        memories.append(make_zeros(buffer["bytes"]))
        memory = memories[-1][: buffer["bytes"]]
        fill(memory, buffer["dtype"], bundle.limits_of(view), random)
    return memories


def count_one(bundle: Bundle, record: dict) -> list[Launch]:
    (segment,) = record["segments"]
    views = segment["operands"]
    memories, sizes = allocate(bundle, views), [*map(bundle.size_of, views)]
    return [
        run_block(entry, registers, memories, 0, sizes)
        for entry, registers in find_entries(bundle, segment.get("kernel") or record["kernel"])
    ]  # fmt: skip


def count_attention(bundle: Bundle, record: dict) -> list[Launch]:
    """The blocks of a head do equal work, or more from one to the next. `work` is the mean of
    the first and the last of them."""
    views, sizes = zip(*bundle.list_accessed(record))
    memories, launches = allocate(bundle, views), []
    heads = math.prod(record["batch"])
    groups = heads // record["batch"][-1] if record.get("grouped") else heads
    # The second kernel of a gradient computes those of keys and values.
    for batch, (entry, registers) in zip(
        (heads, groups), find_entries(bundle, record["device_kernel"])
    ):
        last = entry.grid // batch - 1
        first, other = (
            run_block(entry, registers, memories, number, sizes) for number in (0, last)
        )
        work = Work()
        for launch in (first, other):
            work.add(launch.work, 0.5)
        launches.append(dataclasses.replace(other, work=work))
    return launches


def count(bundle: Bundle, record: dict) -> list[Launch]:
    """The kernels of a record of kind launch or attention, in the order of their launches."""
    if record["kind"] == "attention":
        return count_attention(bundle, record)
    name = record["segments"][0].get("kernel") or record["kernel"]
    is_multi_tensor = bundle.kernels[name]["entries"][0]["grid"][0] == 0
    return (count_many if is_multi_tensor else count_one)(bundle, record)
