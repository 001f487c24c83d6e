"""Counts the instructions that a bundle's kernels execute, by running one block of each.

The PTX is run as `test/python/support/ptx.py` does. What the assembler makes of an instruction is
in WEIGHTS: the loops that `nvdisasm` shows of AdamW and of a quantizer of rows have a
tenth more. Movements between registers are left out, as the assembler does.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import mmap
import pathlib
import re
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test/python"))

from support import ptx  # noqa: E402
from bundles import Bundle, list_attention  # noqa: E402
from support.gpu_code import Entry, count_shared, parse  # noqa: E402

WARP = 32
MMA = "mma.sync.aligned.m16n8k16"
MMA_FLOPS = 2 * 16 * 8 * 16  # Of a warp.
MAP_NORESERVE = 0x4000  # Of Linux, where the module has no name for it.
DTYPES = {"F32": np.float32, "F64": np.float64, "I32": np.int32, "I64": np.int64}
# Of an instruction of PTX, the first that fits: instructions of machine code, of them
# those that add, compare or shift integers (the ALU), and special functions.
WEIGHTS = [
    (r"mov|cvta|ld\.param|bra\.uni|ret", 0, 0, 0),
    (r"neg\.f32", 0, 0, 0),  # The operand of another says so.
    (r"div\.rn\.f32", 10, 1, 1),
    (r"(sqrt|rcp)\.rn\.f32", 11, 2, 1),
    (r"(div|sqrt|rcp)\.rn\.f64", 40, 4, 1),
    (r"(ex2|lg2|rsqrt)\.", 1, 0, 1),
    (r"(ld|st|atom|shfl|bar|bra)", 1, 0, 0),
    (r"(mul|fma|add|sub)\.rn\.", 1, 0, 0),
    (r"mul\.wide|mul\.lo\.[su]32|mad\.lo\.[su]32", 1, 0, 0),
    (r"(mul|mad)\.lo\.[su]64", 3, 0, 0),
    (r"(div|rem)\.[su]64", 70, 40, 1),
    (r"(div|rem)\.[su]32", 20, 10, 1),
    (r".*[subf]64", 2, 2, 0),
    (r".*", 1, 1, 0),
]


@functools.cache
def weigh(instruction: str) -> tuple[int, int, int]:
    return next(
        tuple(counts) for form, *counts in WEIGHTS if re.match(form, instruction)
    )


def find_entries(bundle: Bundle, kernel: str) -> list[Entry]:
    """In the order that they are launched."""
    known = bundle.kernels[kernel]
    found = parse_entries(bundle.code(known["module"], "compute_").decode())
    return [
        dataclasses.replace(found[e["symbol"]], block=int(np.prod(e["block"])),
                            grid=int(np.prod(e["grid"])))
        for e in known["entries"]
    ]  # fmt: skip


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


@dataclasses.dataclass
class Work:
    """Of a launch: instructions of threads, FLOPs of matrix units, and kernels."""

    instructions: float = 0
    integers: float = 0
    special: float = 0
    products: float = 0
    kernels: int = 0

    def add(self, other: Work, times: float) -> None:
        self.instructions += times * other.instructions
        self.integers += times * other.integers
        self.special += times * other.special
        self.products += times * other.products


class CountingBlock(ptx.Block):
    """Counts instructions as a warp issues them, whichever of its threads are active."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.work = Work()

    def step(self, line):
        threads = WARP * len(np.unique(self.who // WARP))
        instruction = re.sub(r"^@!?%p\d+\s+", "", line).split()[0]
        self.work.add(Work(*weigh(instruction)), threads)
        if instruction.startswith(MMA):
            self.work.products += threads / WARP * MMA_FLOPS
        super().step(line)


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


def run_block(entry: Entry, memories: list[np.ndarray], number: int = 0) -> Work:
    block = CountingBlock(entry, memories, number, entry.block, max(entry.grid, 1))
    block.run()
    return block.work


def count_many(bundle: Bundle, record: dict) -> Work:
    """A multi-tensor launch: the first block of each kernel, for all blocks."""
    buffers, random = bundle.plan["buffers"], np.random.default_rng(0)
    arena = make_zeros(bundle.plan["arena_bytes"])
    work, segments = Work(), {}
    for segment in record["segments"]:
        name = segment.get("kernel") or record["kernel"]
        segments.setdefault(name, []).append(segment)
    for name, every in segments.items():
        count = min(record["grain"], every[0]["extent"])
        row = []
        for view in every[0]["operands"]:
            buffer = buffers[view["buffer"]]
            row.append(buffer["offset"])
            memory = arena[row[-1] :][: buffer["bytes"]]
            fill(memory, buffer["dtype"], bundle.limits_of(view), random)
        table = np.array([*row, 0, count], np.int64).view(np.uint8)
        block = run_block(find_entries(bundle, name)[0], [arena, table])
        work.add(block, sum(segment["extent"] for segment in every) / count)
        work.kernels += 1
    work.kernels += bool(record.get("finish"))
    return work


def count_one(bundle: Bundle, record: dict) -> Work:
    work, random, memories = Work(), np.random.default_rng(0), []
    (segment,) = record["segments"]
    for view in segment["operands"]:
        buffer = bundle.plan["buffers"][view["buffer"]]
        memories.append(make_zeros(buffer["bytes"]))
        memory = memories[-1][: buffer["bytes"]]
        fill(memory, buffer["dtype"], bundle.limits_of(view), random)
    for entry in find_entries(bundle, segment.get("kernel") or record["kernel"]):
        work.add(run_block(entry, memories), entry.grid)
        work.kernels += 1
    return work


def count_attention(bundle: Bundle, record: dict) -> Work:
    """The blocks of a head have more to do one after the other, or all the same."""
    work, random, memories = Work(), np.random.default_rng(0), []
    views = [view for view, _ in list_attention(record)]
    for view in [*views, *filter(None, [record.get("scratch")])]:
        buffer = bundle.plan["buffers"][view["buffer"]]
        memories.append(make_zeros(buffer["bytes"]))
        fill(memories[-1][: buffer["bytes"]], buffer["dtype"], None, random)
    for entry in find_entries(bundle, record["device_kernel"]):
        last = entry.grid // math.prod(record["batch"]) - 1
        for number in (0, last):
            work.add(run_block(entry, memories, number), entry.grid / 2)
        work.kernels += 1
    return work


def count(bundle: Bundle, record: dict) -> Work:
    """What a launch or attention executes."""
    if record["kind"] == "attention":
        return count_attention(bundle, record)
    name = record["segments"][0].get("kernel") or record["kernel"]
    isOverMany = bundle.kernels[name]["entries"][0]["grid"][0] == 0
    return (count_many if isOverMany else count_one)(bundle, record)
