#!/usr/bin/env python3
"""Measures Binade against PyTorch on this machine, in one process, in pairs.

    .venv/bin/python benchmarks/run.py [char-gpt] [cut] [fp8] [quantize] [adamw] [states] [optimizers] [statistics] [monitor] [memory] [compile] [--pairs N]

char-gpt  the whole training step of examples/char-gpt against torch.compile, in f32
          and in bf16 autocast, and the share of contractions
cut       the same step under a policy that cuts by costs measured here, against presets
fp8       steps of both char-GPTs in FP8 against those in bf16-amp
quantize  bf16 to FP8 and back, on one thread, against torch.compile
adamw     the update of GPT-2's 148 tensors (124 million parameters) against
          torch.optim.AdamW(fused=True)
states    the same update with quantized states, against torchao and bitsandbytes
          (utils/setup.sh --with torch --with peers)
optimizers  binade.torch.AdamW in a loop against torch.optim.AdamW, and the cost of a call
statistics  steps of both char-GPTs with statistics against those without
monitor   a PyTorch loop that binade.torch.monitor watches against the same without it
memory    the memory of steps of char-gpt and GPT-2 against torch.compile
compile   import and compilation of a model, by phase (give it by --model)

Without names all are measured. Needs `utils/setup.sh --with torch`. What is reported
are ratios of times, with quartiles: this is how to compare on a machine that is not
quiet. docs/performance.md has results and what they mean.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import platform
import sys

THREADS = len(os.sched_getaffinity(0))
os.environ.setdefault("OMP_NUM_THREADS", str(THREADS))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "what",
        nargs="*",
        help="benchmarks to run: char-gpt, cut, fp8, quantize, adamw, states, "
        "optimizers, statistics, monitor, memory, compile (default: all)",
    )
    parser.add_argument(
        "--pairs", type=int, default=15, help="pairs of measurements (default: 15)"
    )
    parser.add_argument("--model", type=pathlib.Path, help="ONNX file for 'compile'")
    parser.add_argument(
        "--autotune", action="store_true", help="also compare with max-autotune"
    )
    arguments = parser.parse_args()
    import adamw
    import char_gpt
    import compilation
    import cut
    import fp8
    import memory
    import monitored
    import optimizers
    import quantize
    import states
    import watched

    benchmarks = {
        "char-gpt": char_gpt.measure,
        "cut": cut.measure,
        "fp8": fp8.measure,
        "quantize": quantize.measure,
        "adamw": adamw.measure,
        "states": states.measure,
        "optimizers": optimizers.measure,
        "statistics": watched.measure,
        "monitor": monitored.measure,
        "memory": memory.measure,
        "compile": compilation.measure,
    }
    unknown = [name for name in arguments.what if name not in benchmarks]
    if unknown:
        parser.error(f"no benchmark is called {unknown[0]}")
    print(f"{platform.machine()}, {THREADS} threads, {arguments.pairs} pairs")
    for name in arguments.what or benchmarks:
        print(f"\n{name}", flush=True)
        benchmarks[name](arguments)


if __name__ == "__main__":
    sys.exit(main())
