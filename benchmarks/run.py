#!/usr/bin/env python3
"""Measures Binade against PyTorch on this machine, in one process, in pairs.

    .venv/bin/python benchmarks/run.py [char-gpt] [cut] [fp8] [nvfp4] [quantize] [adamw] [states] [optimizers] [statistics] [monitor] [launches] [compile] [assignment] [--pairs N]

char-gpt  the whole training step of examples/char-gpt against torch.compile, in f32
          and in bf16 autocast, and the share of contractions
cut       the same step under a policy that cuts by costs measured here, against presets
fp8       steps of both char-GPTs in FP8 and NVFP4 against those in bf16-amp
nvfp4     steps of both char-GPTs in NVFP4 against PyTorch with torchao's quantizer
          (utils/setup.sh --with torch --with peers)
quantize  bf16 to FP8 and back, on one thread, against torch.compile
adamw     the update of GPT-2's 148 tensors (124 million parameters) against
          torch.optim.AdamW(fused=True)
states    the same update with quantized states, against torchao and bitsandbytes
          (utils/setup.sh --with torch --with peers)
optimizers  binade.torch.AdamW in a loop against torch.optim.AdamW, and the cost of a call
statistics  steps of both char-GPTs with statistics against those without
monitor   a PyTorch loop that binade.torch.monitor watches against the same without it
launches  launches of one kernel on one thread and on all, by size
memory    the memory of steps of char-gpt and GPT-2 against torch.compile
compile   import and compilation of a model, by phase (give it by --model)
assignment  the choice of formats for training steps of up to a million ops

Without names all are measured. Needs `utils/setup.sh --with torch`. What is reported
are ratios of times, with quartiles: this is how to compare on a machine that is not
quiet. docs/performance.md has results and what they mean.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pathlib
import sys

THREADS = len(os.sched_getaffinity(0))
os.environ.setdefault("OMP_NUM_THREADS", str(THREADS))


# The module of each benchmark. Only those that run are imported.
BENCHMARKS = {
    "char-gpt": "char_gpt",
    "cut": "cut",
    "fp8": "fp8",
    "nvfp4": "nvfp4",
    "quantize": "quantize",
    "adamw": "adamw",
    "states": "states",
    "optimizers": "optimizers",
    "statistics": "watched",
    "monitor": "monitored",
    "launches": "launches",
    "memory": "memory",
    "compile": "compilation",
    "assignment": "assignment",
}


def processor() -> str:
    """The name of the processor, and the widest vectors that it has."""
    info = dict(
        map(str.strip, line.split(":", 1))
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        if ":" in line
    )
    flags = info["flags"].split()
    widest = {
        "AMX": "amx_bf16", "AVX-512 BF16": "avx512_bf16", "AVX-512": "avx512f", "AVX2": "avx2",
    }  # fmt: skip
    level = next((name for name, flag in widest.items() if flag in flags), "no AVX2")
    return f"{info['model name']} with {level}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "what",
        nargs="*",
        help=f"benchmarks to run: {', '.join(BENCHMARKS)} (default: all)",
    )
    parser.add_argument(
        "--pairs", type=int, default=15, help="pairs of measurements (default: 15)"
    )
    parser.add_argument("--model", type=pathlib.Path, help="ONNX file for 'compile'")
    parser.add_argument(
        "--autotune", action="store_true", help="also compare with max-autotune"
    )
    arguments = parser.parse_args()
    unknown = [name for name in arguments.what if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark is called {unknown[0]}")
    print(f"{processor()}, {THREADS} threads, {arguments.pairs} pairs")
    for name in arguments.what or BENCHMARKS:
        print(f"\n{name}", flush=True)
        importlib.import_module(BENCHMARKS[name]).measure(arguments)


if __name__ == "__main__":
    sys.exit(main())
