"""Measures rates of the device itself: launches, memory, caches and arithmetic units.

The kernels are CUDA C++, which CuPy compiles with NVRTC on the measured machine.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import peers
from rate_timing import time_graph

MIB = 1 << 20
MULTIPROCESSORS, CLOCK = 132, 1.98e9  # Of an H100; the highest clock, in Hz.

# The type of the items that a thread copies, by their bytes.
ITEMS = {2: "unsigned short", 4: "unsigned", 8: "uint2", 16: "uint4"}
STREAM = r"""
// Copies items: each thread has UNROLL loads in flight, then stores them.
extern "C" __global__ void __launch_bounds__(THREADS) copy(
    const ITEM *__restrict__ in, ITEM *__restrict__ out, long long count) {
  extern __shared__ char limitsOccupancy[];
  long long start = (long long)blockIdx.x * THREADS * UNROLL + threadIdx.x;
  ITEM held[UNROLL];
#pragma unroll
  for (int i = 0; i < UNROLL; ++i)
    if (start + (long long)i * THREADS < count)
      held[i] = in[start + (long long)i * THREADS];
#pragma unroll
  for (int i = 0; i < UNROLL; ++i)
    if (start + (long long)i * THREADS < count)
      out[start + (long long)i * THREADS] = held[i];
}
// The same by a single wave of blocks, each of which loops over items.
extern "C" __global__ void __launch_bounds__(THREADS) loopCopy(
    const ITEM *__restrict__ in, ITEM *__restrict__ out, long long count) {
  long long step = (long long)gridDim.x * THREADS * UNROLL;
  for (long long start = (long long)blockIdx.x * THREADS * UNROLL + threadIdx.x;
       start < count; start += step) {
    ITEM held[UNROLL];
#pragma unroll
    for (int i = 0; i < UNROLL; ++i)
      if (start + (long long)i * THREADS < count)
        held[i] = in[start + (long long)i * THREADS];
#pragma unroll
    for (int i = 0; i < UNROLL; ++i)
      if (start + (long long)i * THREADS < count)
        out[start + (long long)i * THREADS] = held[i];
  }
}
"""

STREAMS = r"""
// Reads READS tensors of f32 and writes WRITES, as updates of optimizers do; each thread
// reads or writes four elements of each.
extern "C" __global__ void __launch_bounds__(256) streams(
    float4 *__restrict__ base, long long count) {
  long long index = (long long)blockIdx.x * 256 + threadIdx.x;
  if (index >= count) return;
  float4 sum = {0, 0, 0, 0};
#pragma unroll
  for (int i = 0; i < READS; ++i) {
    float4 x = base[i * count + index];
    sum.x += x.x; sum.y += x.y; sum.z += x.z; sum.w += x.w;
  }
#pragma unroll
  for (int i = 0; i < WRITES; ++i)
    base[i * count + index] = sum;
  if (WRITES == 0 && sum.x == 1.25f) base[index] = sum;
}
"""

SUM = r"""
// Reads `count` items `passes` times, all but the first time from L2 if they fit.
extern "C" __global__ void __launch_bounds__(512) again(
    const float4 *__restrict__ in, float *out, long long count, int passes) {
  float sum = 0;
  for (int pass = 0; pass < passes; ++pass)
    for (long long i = (long long)blockIdx.x * 512 + threadIdx.x; i < count;
         i += (long long)gridDim.x * 512) {
      float4 x = __ldcg(in + i);
      sum += x.x + x.y + x.z + x.w;
    }
  if (sum == 1.25f) *out = sum;
}
// A chain of dependent loads: the latency of a load.
extern "C" __global__ void chase(const int *next, int *out, int steps) {
  int at = 0;
  long long begin = clock64();
  for (int i = 0; i < steps; ++i) at = __ldcg(next + at);
  out[0] = at;
  out[1] = (int)((clock64() - begin) / steps);
}
"""

# Each thread executes eight independent chains of the instruction, to measure throughput.
UNITS = {
    "fma.rn.f32": ("f", 'asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(x[i]));'),
    "ex2.approx.ftz.f32": ("f", 'asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x[i]));'),
    "lg2.approx.ftz.f32": ("f", 'asm volatile("lg2.approx.ftz.f32 %0, %0;" : "+f"(x[i]));'),
    "rcp.approx.ftz.f32+add.f32": ("f", 'asm volatile("rcp.approx.ftz.f32 %0, %0; '
                                   'add.f32 %0, %0, 0f3F800000;" : "+f"(x[i]));'),
    "sqrt.approx.ftz.f32": ("f", 'asm volatile("sqrt.approx.ftz.f32 %0, %0;" : "+f"(x[i]));'),
    "sqrt.rn.f32": ("f", 'asm volatile("sqrt.rn.f32 %0, %0;" : "+f"(x[i]));'),
    "div.rn.f32": ("f", 'asm volatile("div.rn.f32 %0, %0, %0;" : "+f"(x[i]));'),
    "add.s32": ("r", 'asm volatile("add.s32 %0, %0, %0;" : "+r"(x[i]));'),
    "mad.lo.s32": ("r", 'asm volatile("mad.lo.s32 %0, %0, %0, %0;" : "+r"(x[i]));'),
    "prmt.b32": ("r", 'asm volatile("prmt.b32 %0, %0, %0, 4660;" : "+r"(x[i]));'),
    "min.f32": ("f", 'asm volatile("min.f32 %0, %0, 0f3F800000;" : "+f"(x[i]));'),
    "setp+selp": ("f", 'asm volatile("{.reg .pred p; setp.lt.f32 p, %0, 0f3F800000; '
                  'selp.f32 %0, %0, 0f40000000, p;}" : "+f"(x[i]));'),
    "shfl.bfly": ("f", "x[i] = __shfl_xor_sync(~0u, x[i], 1);"),
    "cvt.bf16x2.f32": ("f", 'asm volatile("{.reg .b32 t; cvt.rn.bf16x2.f32 t, %0, %0; '
                       'mov.b32 %0, t;}" : "+f"(x[i]));'),
    "cvt.e4m3x2.f32": ("f", 'asm volatile("{.reg .b16 t; cvt.rn.satfinite.e4m3x2.f32 t, %0, '
                       '%0; mov.b32 %0, {t, t};}" : "+f"(x[i]));'),
    "cvt.f16x2.e4m3x2": ("r", 'asm volatile("{.reg .b16 l, h; mov.b32 {l, h}, %0; '
                         'cvt.rn.f16x2.e4m3x2 %0, l;}" : "+r"(x[i]));'),
    "ld.shared.f32": ("r", "x[i] = table[x[i] & 255];"),
}  # fmt: skip
UNIT = r"""
extern "C" __global__ void __launch_bounds__(256) unit(TYPE *out, int rounds) {
  __shared__ TYPE table[256];
  table[threadIdx.x] = threadIdx.x;
  __syncthreads();
  TYPE x[8];
  for (int i = 0; i < 8; ++i) x[i] = (TYPE)(threadIdx.x + i);
  for (int round = 0; round < rounds; ++round)
#pragma unroll
    for (int again = 0; again < 4; ++again)
#pragma unroll
      for (int i = 0; i < 8; ++i) { BODY }
  TYPE sum = 0;
  for (int i = 0; i < 8; ++i) sum += x[i];
  if (sum == (TYPE)12345) *out = sum;
}
"""


def build(source: str, name: str, **defines: object):
    """Compiles a kernel with CuPy; returns a function that launches it on PyTorch's stream."""
    import cupy

    for key, value in defines.items():
        source = f"#define {key} {value}\n" + source
    kernel = cupy.RawKernel(source, name, options=("--std=c++17",))

    def launch(grid: int, block: int, arguments: tuple, shared: int = 0) -> None:
        torch = peers.torch
        values = tuple(
            cupy.int64(a.data_ptr()) if isinstance(a, torch.Tensor) else a
            for a in arguments
        )
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            kernel((grid,), (block,), values, shared_mem=shared)

    launch.kernel = kernel
    return launch


def make_buffers(size: int) -> tuple:
    """Returns two buffers of `size` bytes."""
    torch = peers.torch
    return tuple(torch.ones(size, dtype=torch.uint8, device="cuda") for _ in range(2))


def measure_copies() -> Iterator[dict]:
    """Copies with different bytes in flight (vector width, loads of a thread, resident
    threads) and sizes.
    """
    import numpy as np

    def row(width, unroll, threads, resident, size, name="copy"):
        """Measures a copy with `resident` threads per multiprocessor, 0 for the maximum."""
        launch = build(STREAM, name, ITEM=ITEMS[width], UNROLL=unroll, THREADS=threads)
        shared = 0
        if resident:
            # Shared memory limits the blocks of a multiprocessor: they share 227 KiB, and
            # each takes 1 KiB more than it asks for.
            shared = (227 * 1024 // (resident // threads) - 1024) & ~127
            launch.kernel.max_dynamic_shared_size_bytes = shared
        source, target = make_buffers(size)
        count = size // width
        grid = -(-count // (threads * unroll))
        if name == "loopCopy":
            grid = MULTIPROCESSORS * (2048 // threads)
        arguments = source, target, np.int64(count)
        us = time_graph(lambda: launch(grid, threads, arguments, shared))
        return {
            "kernel": name, "vector_bytes": width, "loads": unroll, "threads": threads,
            "resident": resident or 2048, "registers": launch.kernel.num_regs,
            "mib": size / MIB, "us": round(us, 2), "gbs": round(2 * size / us / 1e3),
        }  # fmt: skip

    for width, unroll in itertools.product((2, 4, 8, 16), (1, 2, 4)):
        yield row(width, unroll, 256, 0, 256 * MIB)
    for resident, unroll in itertools.product((256, 512, 1024, 2048), (1, 4)):
        yield row(16, unroll, 256, resident, 256 * MIB)
    for size in (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 384, 768, 1536):
        yield row(16, 1, 256, 0, size * MIB)
    for threads in (128, 512, 1024):
        yield row(16, 1, threads, 0, 256 * MIB)
    for unroll in (1, 4):
        yield row(16, unroll, 512, 0, 256 * MIB, "loopCopy")
        yield row(4, unroll, 512, 0, 256 * MIB, "loopCopy")


def measure_streams() -> Iterator[dict]:
    """Reads and writes several tensors in one kernel."""
    import numpy as np

    torch = peers.torch
    for reads, writes in (
        (1, 0),
        (0, 1),
        (1, 1),
        (2, 1),
        (3, 1),
        (4, 1),
        (4, 3),
        (6, 3),
    ):
        launch = build(STREAMS, "streams", READS=reads, WRITES=writes)
        for mib in (16, 128):
            count = mib * MIB // 16
            streams = max(reads, writes, 1)
            base = torch.ones(streams * mib * MIB // 4, device="cuda")
            arguments = base, np.int64(count)
            us = time_graph(lambda: launch(-(-count // 256), 256, arguments))
            moved = (reads + writes) * mib * MIB
            yield {"reads": reads, "writes": writes, "mib": mib, "us": round(us, 2),
                   "gbs": round(moved / us / 1e3)}  # fmt: skip


def measure_cache() -> Iterator[dict]:
    """Reads tensors of several sizes repeatedly, and measures the latency of one load."""
    import numpy as np

    torch = peers.torch
    launch, chase = build(SUM, "again"), build(SUM, "chase")
    out = torch.zeros(4, dtype=torch.int32, device="cuda")
    for mib in (4, 8, 16, 20, 24, 28, 32, 40, 48, 64, 96, 192):
        source, _ = make_buffers(mib * MIB)
        count = np.int64(mib * MIB // 16)
        us = {}
        for passes in (2, 10):
            arguments = source, out, count, np.int32(passes)
            us[passes] = time_graph(
                lambda: launch(MULTIPROCESSORS * 4, 512, arguments), calls=4
            )
        gbs = 8 * mib * MIB / (us[10] - us[2]) / 1e3
        yield {"kind": "read again", "mib": mib, "gbs": round(gbs)}
    for mib in (1, 16, 256, 2048):
        count = mib * MIB // 512  # One load from every fourth cache line.
        order = torch.randperm(count - 1) + 1
        order = torch.cat([torch.zeros(1, dtype=torch.int64), order])
        next_entries = torch.zeros(count * 128, dtype=torch.int32)
        next_entries[order * 128] = (torch.roll(order, -1) * 128).int()
        next_entries = next_entries.cuda()
        for is_warm in (False, True):
            if not is_warm:  # Evict the chain from L2.
                torch.ones(512 * MIB, dtype=torch.uint8, device="cuda")
            chase(1, 1, (next_entries, out, np.int32(min(count, 20000))))
            torch.cuda.synchronize()
            row = {"kind": "latency", "mib": mib, "warm": is_warm}
            yield row | {"cycles": int(out[1])}


def measure_units() -> Iterator[dict]:
    """Measures instructions of threads per cycle of a multiprocessor, assuming CLOCK."""
    import numpy as np

    torch = peers.torch
    out = torch.zeros(4, dtype=torch.int32, device="cuda")
    for name, (kind, body) in UNITS.items():
        kernel_type = {"f": "float", "r": "int"}[kind]
        launch = build(UNIT, "unit", TYPE=kernel_type, BODY=body)
        us = {}
        for rounds in (100, 500):
            arguments = out, np.int32(rounds)
            us[rounds] = time_graph(
                lambda: launch(MULTIPROCESSORS * 8, 256, arguments), calls=3
            )
        done = 400 * 4 * 8 * 2048  # Instructions of a multiprocessor's threads.
        cycles = (us[500] - us[100]) * 1e-6 * CLOCK
        yield {"instruction": name, "per_cycle": round(done / cycles, 1)}


def measure_launches() -> Iterator[dict]:
    """Measures the time between the starts of two empty kernels of a CUDA graph."""
    import numpy as np

    torch = peers.torch
    launch = build(STREAM, "copy", ITEM="unsigned", UNROLL=1, THREADS=128)
    source, target = make_buffers(4 * MIB)
    for grid in (1, 132, 528, 2112, 8448):
        us = time_graph(
            lambda: launch(grid, 128, (source, target, np.int64(1))), calls=500
        )
        yield {"blocks": grid, "us": round(us, 3)}
    small = torch.ones(1024, device="cuda")
    us = time_graph(lambda: small.add_(1), calls=500)
    yield {"blocks": "torch add of 1024", "us": round(us, 3)}
