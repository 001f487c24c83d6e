"""Trains a model on several processes. torchrun starts them:

torchrun --nproc-per-node=2 train.py model.onnx --data train.safetensors --out run
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import binade
import binade.torch
import torch.distributed as dist
from binade.command import run_command


def parse(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="an ONNX file, or a bundle of binade compile")
    parser.add_argument("--data", required=True, help="as for binade train")
    parser.add_argument("--window", default="", help="as for binade train")
    parser.add_argument("--out", required=True, help="the directory of the run")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--save-every", type=int, default=10)
    parser.add_argument(
        "--accumulate", type=int, default=4, help="of all ranks together"
    )
    parser.add_argument("--exchange", default="exact", help="f32, bf16, e4m3 or exact")
    parser.add_argument("--shard", default="none", help="none or zero1")
    parser.add_argument("--lr", type=float, default=3e-3)
    return parser.parse_args(words)


def main(words: Sequence[str] | None) -> None:
    options = parse(words)
    if dist.is_torchelastic_launched():
        dist.init_process_group("gloo")
    if options.model.endswith(".bnd"):
        step = binade.load(options.model, threads=1)
    else:
        step = binade.compile(
            options.model,
            optimizer="adamw",
            settings={"lr": options.lr},
            accumulate=options.accumulate,
            exchange=options.exchange,
            threads=1,
        )
    step = binade.torch.distribute(step, shard=options.shard)
    batches = binade.torch.Batches(step, options.data, window=options.window)
    metrics = binade.torch.train(
        step, batches, options.out, steps=options.steps, save_every=options.save_every
    )
    if step.rank == 0 and metrics:
        print(f"ranks: {step.size}, step {step.calls}: loss {metrics[-1].loss:.4f}")
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(run_command("train.py", main))
