"""benchmarks/gpu/counts.py: how many machine instructions ptxas emits for each of PTX."""

import struct
import sys

import numpy as np
import pytest
from support.gpu_code import Entry, assemble, compile_ptx, find_ptxas
from support.paths import ROOT

sys.path.insert(0, str(ROOT / "benchmarks" / "gpu"))

import counts


def count_code(cubin):
    """The number of instructions, of 16 bytes each, in the code of an ELF object."""
    (table,) = struct.unpack_from("<Q", cubin, 0x28)
    size, number, names = struct.unpack_from("<HHH", cubin, 0x3A)
    sections = [
        struct.unpack_from("<IIQQQQ", cubin, table + i * size) for i in range(number)
    ]
    strings = sections[names][4]
    return sum(
        section[5] // 16
        for section in sections
        if cubin[strings + section[0] :].startswith(b".text")
    )


def assemble_chain(op, length, folder):
    """The number of instructions of a kernel with a chain of `length` equal ops."""
    kind, last = "tensor<65536xf32>", "%x"
    body = ""
    for i in range(length):
        operands = f"{last}, %y" if op == "div" else last
        kinds = f"{kind}, {kind}" if op == "div" else kind
        body += f"  %v{i} = binade.{op} {operands} : ({kinds}) -> {kind}\n"
        last = f"%v{i}"
    path = folder / f"{op}{length}.mlir"
    path.write_text(
        f"func.func private @chain(%x: {kind}, %y: {kind}) -> {kind}\n"
        "    attributes {binade.kernel = #binade.schedule<elementwise>} {\n"
        f"{body}  return {last} : {kind}\n}}\n"
    )
    process = compile_ptx(path)
    assert process.returncode == 0, process.stderr
    assemble(process.stdout, "sm_90", folder)
    return count_code((folder / "sm_90.cubin").read_bytes())


@pytest.mark.skipif(not find_ptxas(), reason="no ptxas")
@pytest.mark.parametrize(
    "op, instruction", [("div", "div.rn.f32"), ("sqrt", "sqrt.rn.f32")]
)
def test_weights_match_the_assembler(op, instruction, tmp_path):
    """Each op also has a call for rare operands, of at most five instructions, which
    usual operands skip. A thread computes four elements."""
    lengths = (4, 12)
    short, long = (assemble_chain(op, length, tmp_path) for length in lengths)
    each = (long - short) / (lengths[1] - lengths[0]) / 4
    assert counts.weigh(instruction)[0] <= each <= counts.weigh(instruction)[0] + 5


@pytest.mark.parametrize("instruction, weight", [
    ("fma.rn.f32", (1, 0, 0)), ("add.s64", (2, 2, 0)), ("add.s32", (1, 1, 0)),
    ("mov.b32", (0, 0, 0)), ("max.u32", (1, 1, 0)), ("ld.global.v4.b32", (1, 0, 0)),
    ("ld.param.b64", (0, 0, 0)), ("div.rn.f32", (10, 1, 1)), ("setp.lt.s64", (2, 2, 0)),
])  # fmt: skip
def test_weights(instruction, weight):
    assert counts.weigh(instruction) == weight


def test_a_warp_issues_for_all_its_threads():
    """Two warps: all 64 threads add, one of them twice."""
    lines = ["mov.u32 %r1, %tid.x;", "setp.ne.b32 %p1, %r1, 5;", "add.s32 %r2, %r1, 1;",
             "@%p1 bra $end;", "add.s32 %r2, %r2, 1;", "$end:", "ret;"]  # fmt: skip
    entry = Entry("k", "k", 1, 64, 0, 0, lines)
    block = counts.CountingBlock(entry, [np.zeros(16, np.uint8)], 0, 64, 1)
    block.run()
    # setp, add and bra of both warps; the second add of the first.
    assert block.work.instructions == 3 * 64 + 32
    assert block.work.integers == 2 * 64 + 32
