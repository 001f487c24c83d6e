"""Parses the PTX of kernels: entries, loops, and the assembler's report on them."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import pathlib
import re
import shutil
import subprocess

from support.paths import BUILD, ROOT
from support.reference import binade

TOOLS = BUILD / "bin"
HEADER = re.compile(r"^\.(?:version|target|address_size) .*\n", re.MULTILINE)


def find_ptxas() -> str | None:
    root = os.environ.get("BINADE_CUDA_ROOT")
    return shutil.which("ptxas", path=root and f"{root}/bin")


@dataclasses.dataclass
class Entry:
    kernel: str  # The name of the kernel in the module.
    symbol: str
    grid: int
    block: int
    shared: int
    workspace: int
    lines: list[str]  # Labels and instructions.
    # Constants of the module.
    tables: dict[str, bytes] = dataclasses.field(default_factory=dict)

    def instructions(self) -> list[str]:
        return [line for line in self.lines if not line.endswith(":")]

    def hot(self) -> list[str]:
        """Instructions of the innermost loops, or all if the entry has no loop."""
        labels = {
            line[:-1]: at for at, line in enumerate(self.lines) if line[-1] == ":"
        }
        loops = []
        for at, line in enumerate(self.lines):
            target = re.search(r"\bbra(?:\.uni)?\s+(\$\w+)", line)
            if target and labels[target[1]] <= at:
                loops.append(range(labels[target[1]], at + 1))
        inner = [
            loop for loop in loops if not any(set(other) < set(loop) for other in loops)
        ]
        places = {at for loop in inner or [range(len(self.lines))] for at in loop}
        return [self.lines[at] for at in sorted(places) if self.lines[at][-1] != ":"]

    def divisions(self) -> int:
        """The number of exact div, rcp and sqrt, which expand to instruction sequences."""
        return sum(
            bool(re.search(r"\b(?:div|rcp|sqrt)\.rn", line)) for line in self.hot()
        )


def read_body(ptx: str, symbol: str) -> list[str]:
    """Labels and instructions of an entry, each on a line."""
    body = ptx[ptx.index(f".entry {symbol}(") :]
    body = body[body.index("\n{") + 2 : body.index("\n}")]
    text = re.sub(r"//.*", "", body)
    lines = re.findall(r"[^;:{}]+:|[^;]+;", re.sub(r"\s*\n\s*", " ", text))
    return [line.strip() for line in lines if not line.strip().startswith(".")]


def count_shared(ptx: str, symbol: str) -> int:
    """Bytes of shared memory of an entry."""
    body = ptx[ptx.index(f".entry {symbol}(") :]
    body = body[: body.index("\n}")]
    sizes = re.findall(r"^\s*\.shared[^\n]*\[(\d+)\];", body, re.MULTILINE)
    return sum(map(int, sizes))


def parse(ptx: str) -> list[Entry]:
    described = re.findall(
        r"^// ([\w.]+): (\w+), (\d+) blocks of (\d+) threads, (\d+) bytes of shared "
        r"memory, (\d+) of workspace",
        ptx,
        re.MULTILINE,
    )
    constant = r"^\.global \.align \d+ \.b8 (\S+)\[(\d+)\] = \{([\d, ]*)\};"
    tables = {  # Zeros at the end are not written.
        name: bytes(map(int, numbers.split(","))).ljust(int(size), b"\0")
        for name, size, numbers in re.findall(constant, ptx, re.MULTILINE)
    }
    return [
        Entry(kernel, symbol, *map(int, sizes), read_body(ptx, symbol), tables)
        for kernel, symbol, *sizes in described
    ]


def compile_ptx(path: pathlib.Path, chip: str = "sm_90") -> subprocess.CompletedProcess:
    command = [TOOLS / "binade-translate", path, "--kernels-to-ptx", f"--chip={chip}"]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False
    )


@dataclasses.dataclass
class Usage:
    registers: int
    spills: int  # Bytes.
    stack: int


def assemble(ptx: str, chip: str, directory: pathlib.Path) -> dict[str, Usage]:
    """The resources of each entry, by symbol. All modules of `ptx` are assembled as one."""
    header = "".join(HEADER.findall(ptx)[:3])
    path = directory / f"{chip}.ptx"
    path.write_text(header + HEADER.sub("", ptx))
    output = path.with_suffix(".cubin")
    command = [find_ptxas(), f"-arch={chip}", "-v", path, "-o", output]
    process = subprocess.run(
        command, capture_output=True, text=True, timeout=600, check=False
    )
    assert process.returncode == 0, process.stderr[-2000:]
    pattern = re.compile(
        r"Compiling entry function '(\w+)'.*?(\d+) bytes stack frame, "
        r"(\d+) bytes spill stores.*?Used (\d+) registers",
        re.DOTALL,
    )
    return {
        symbol: Usage(int(registers), int(spills), int(stack))
        for symbol, stack, spills, registers in pattern.findall(process.stderr)
    }


def read_kernels(policy):
    """Modules of the policy's kernels by name, without the step that launches them."""
    model = ROOT / "examples/char-gpt/mini.onnx"
    process = binade("compile", model, "--policy", policy, "--to=kernels", "-o", "-")
    assert process.returncode == 0, process.stderr
    process = subprocess.run(
        [TOOLS / "binade-opt"],
        input=process.stdout,
        capture_output=True,
        text=True,
        check=True,
    )
    tops = re.findall(
        r"^  (?! |\}).*?(?=^  (?! |\})|^\})", process.stdout, re.DOTALL | re.MULTILINE
    )
    heads = [top.split("\n", 1)[0] for top in tops]
    rules = [
        top
        for top, head in zip(tops, heads)
        if "binade.optimizer" in head
        or re.search(r"@[\w.]+\.(?:scalars|update)\b", head)
    ]
    kernels = {}
    for top, head in zip(tops, heads):
        if "binade.kernel" in head:
            parts = rules if "binade.optimizer" in top else []
            kernels[re.search(r"@(\w+)", head)[1]] = "".join([*parts, top])
    return kernels


def identify(name, text):
    """The same for kernels that differ only in their names."""
    return hashlib.sha256(re.sub(rf"@{name}\b", "@", text).encode()).digest()


CHIPS = ["sm_80", "sm_89", "sm_90", "sm_100"]
# Approximations, flushed subnormal numbers, memory of a thread, and calls.
FORBIDDEN = re.compile(r"\.approx|\.ftz|\.local|\bcall\b")


# Kernels of attention approximate powers of two.
ATTENTION = re.compile(r"\battention_\w+")
EXPONENTIAL = "ex2.approx.ftz.f32"


def is_forbidden(line: str, symbol: str) -> bool:
    """Whether the entry `symbol` may not contain `line`."""
    if ATTENTION.match(symbol):
        line = line.replace(EXPONENTIAL, "")
    return bool(FORBIDDEN.search(line))


def check_instructions(entries):
    for entry in entries:
        wrong = [
            line for line in entry.instructions() if is_forbidden(line, entry.symbol)
        ]
        assert not wrong, f"{entry.kernel}: {wrong[:3]}"


@dataclasses.dataclass
class Kernel:
    ptx: str
    arguments: list[tuple[int, str]]  # Elements and their type.
    entries: list[Entry]


def read_saved(folder):
    """The kernels of a compiled module, without multi-tensor kernels."""
    for path in (folder / "kernels").glob("*.ptx"):
        ptx, ir = path.read_text(), path.with_suffix(".mlir").read_text()
        kernels = re.findall(
            r"gpu\.func @(\w+)\((.*?)\) .*?known_block_size = array<i32: (\d+),"
            r".*?known_grid_size = array<i32: (\d+),",
            ir,
        )
        if not kernels:
            continue
        entries = [
            Entry(
                symbol, symbol, int(grid), int(block),
                count_shared(ptx, symbol), 0, read_body(ptx, symbol),
            )
            for symbol, _, block, grid in kernels
        ]  # fmt: skip
        arguments = re.findall(r"memref<(\d+)x(\w+)>", kernels[0][1])
        yield Kernel(ptx, [(int(n), dtype) for n, dtype in arguments], entries)
