"""Part of run.py: measures what a device's memory, units, libraries and launches reach.

The rates are for models of costs, such as predict.py. Needs PyTorch and CuPy; measures
cuDNN's attention if the package nvidia-cudnn-frontend is installed, and Liger's fused
cross-entropy if liger-kernel is. Uses no part of Binade.

Times are those of the device, in microseconds unless a key ends in `_ms`. If a group fails,
its error becomes a row, and the next group begins.
"""

from __future__ import annotations

import importlib.util
import pathlib
import sys
import time

import peers
import rate_kernels as kernels
import rate_libraries as libraries
from rows import Rows

SECONDS = 150  # No group begins later.
GROUPS = {
    "launches": kernels.measure_launches,
    "copies": kernels.measure_copies,
    "streams": kernels.measure_streams,
    "cache": kernels.measure_cache,
    "units": kernels.measure_units,
    "attention": libraries.measure_attention,
    "cudnn_attention": libraries.measure_cudnn_attention,
    "products": libraries.measure_matmuls,
    "fp8_products": libraries.measure_fp8_matmuls,
    "head": libraries.measure_head,
    "fused_head": libraries.measure_fused_head,
}


def measure_group(name: str) -> list[dict]:
    """Returns the rows of a group, the last of which may be an error."""
    rows = []
    try:
        for row in GROUPS[name]():
            rows.append(row)
    except Exception as error:
        rows.append({"error": f"{type(error).__name__}: {str(error)[:300]}"})
        print(f"  {name}: {rows[-1]['error']}", flush=True)
    peers.torch.cuda.empty_cache()
    return rows


def main(folder: pathlib.Path, out: pathlib.Path) -> None:
    rows, rates, begin = Rows(out), {}, time.monotonic()
    if not peers.HAS_DEVICE or importlib.util.find_spec("cupy") is None:
        print("  rates: skipped, needs PyTorch, CuPy and a device", flush=True)
        return
    for name in GROUPS:
        took = time.monotonic() - begin
        rates[name] = (
            measure_group(name) if took < SECONDS else [{"error": "no time was left"}]
        )
        rows.note(rates=rates)
        took = time.monotonic() - begin
        print(f"  {name}: {len(rates[name])} rows after {took:.0f} s", flush=True)


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:]))
