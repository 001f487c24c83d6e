"""benchmarks/gpu/counts.py: what a block of a kernel executes."""

import json
import sys

import numpy as np
import pytest
from support.gpu_code import Entry
from support.paths import ROOT

sys.path.insert(0, str(ROOT / "benchmarks" / "gpu"))

import counts
import reuse


RATES = ROOT / "benchmarks/gpu/results/rates/nvidia-h100-80gb-hbm3-2026-11-27.json"
UNITS = {
    row["instruction"]: row["per_cycle"]
    for row in json.loads(RATES.read_text())["rates"]["units"]
}
WIDTHS = (128, 64, 16)  # Instructions, the ALU and special functions, per cycle.


@pytest.mark.parametrize("measured, instruction", [
    ("fma.rn.f32", "fma.rn.f32"), ("div.rn.f32", "div.rn.f32"),
    ("sqrt.rn.f32", "sqrt.rn.f32"), ("ex2.approx.ftz.f32", "ex2.approx.ftz.f32"),
    ("lg2.approx.ftz.f32", "lg2.approx.ftz.f32"), ("add.s32", "add.s32"),
    ("mad.lo.s32", "mad.lo.s32"), ("prmt.b32", "prmt.b32"), ("min.f32", "min.f32"),
    ("shfl.bfly", "shfl.sync.bfly.b32"), ("cvt.bf16x2.f32", "cvt.rn.bf16x2.f32"),
    ("cvt.e4m3x2.f32", "cvt.rn.satfinite.e4m3x2.f32"),
    ("cvt.f16x2.e4m3x2", "cvt.rn.f16x2.e4m3x2"),
])  # fmt: skip
def test_weights_are_measured_rates(measured, instruction):
    """The unit that limits an instruction limits it to the rate that an H100 measured."""
    limits = [
        width / weight
        for width, weight in zip(WIDTHS, counts.weigh(instruction))
        if weight
    ]
    assert min(limits) == pytest.approx(UNITS[measured], rel=0.06)


@pytest.mark.parametrize("instruction, weight", [
    ("fma.rn.f32", (1, 0, 0)), ("add.s64", (2, 0, 0)), ("add.s32", (1, 0, 0)),
    ("mov.b32", (0, 0, 0)), ("max.u32", (1, 1, 0)), ("ld.global.v4.b32", (1, 0, 0)),
    ("ld.param.b64", (0, 0, 0)), ("div.rn.f32", (19, 1, 1)), ("setp.lt.s64", (2, 2, 0)),
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
    assert block.work.alu == 64


def run_lines(lines, sizes, threads=32):
    body = ["mov.u32 %r1, %tid.x;", "mul.wide.u32 %rd1, %r1, 4;",
            "ld.param.b64 %rd2, [k_param_0];", "add.s64 %rd3, %rd2, %rd1;", *lines,
            "ret;"]  # fmt: skip
    entry = Entry("k", "k", 1, threads, 0, 0, body)
    memories = [np.zeros(size, np.uint8) for size in sizes]
    block = counts.CountingBlock(entry, memories, 0, threads, 1, sizes)
    block.run()
    return block


def test_bytes_are_counted_once_and_reads_again_by_their_distance():
    """128 bytes in four sectors, of which the second read has all others between."""
    load = "ld.global.b32 %r{}, [%rd3];"
    block = run_lines(
        [load.format(2), load.format(3), "st.global.b32 [%rd3], %r2;"], [256]
    )
    (operand,) = block.operands
    assert (operand.bytes, operand.read, operand.written) == (256, 128, 128)
    assert operand.reuse == {reuse.step_of(96): 128}


def test_a_use_waits_for_all_loads_before_it():
    load = "ld.global.b32 %r{}, [%rd3+{}];"
    use = "add.s32 %r9, %r{}, %r{};"
    lines = [load.format(2, 0), load.format(3, 128), use.format(2, 3),
             load.format(4, 0), use.format(4, 2), use.format(3, 2)]  # fmt: skip
    work = run_lines(lines, [256]).work
    assert (work.fresh_waits, work.cached_waits) == (1, 1)
