"""Compares the memory of training steps with the peak of live tensors in torch.compile."""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
from char_gpt import OPTIONS, peak_bytes
from runtime import BUILD, ROOT

sys.path.insert(0, str(ROOT / "examples" / "char-gpt"))
MIB = 2**20
VARIANTS = {"": [], " released": ["--release-gradients"]}


class Peer:
    """A model in PyTorch with fused AdamW."""

    def __init__(self, module: torch.nn.Module, batch: dict, policy: str):
        import model

        self.module, self.batch = module, batch
        self.optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3, fused=True)
        autocast = policy == "bf16-amp"

        def loss(input_ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                return model.cross_entropy(module(input_ids), labels)

        self.loss = torch.compile(loss)

    def step(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        self.loss(**self.batch).backward()
        self.optimizer.step()


def plan(model: pathlib.Path, policy: str, options: list[str]) -> dict:
    """Returns the plan of a step, which states the memory that the step uses."""
    command = [BUILD / "bin" / "binade", "compile", model, "--to", "plan", "-o", "-"]
    return json.loads(
        subprocess.run(
            [*command, "--policy", policy, *OPTIONS, *options],
            check=True, capture_output=True,
        ).stdout
    )  # fmt: skip


def measure_model(name: str, config: object, folder: pathlib.Path) -> None:
    import model
    from binade import export

    module = model.CharGPT(config)
    ids = torch.zeros(config.batch, config.context, dtype=torch.int64)
    batch = {"input_ids": ids, "labels": ids.clone()}
    path = folder / f"{name}.onnx"
    export.export_onnx(module, batch, path, loss=model.cross_entropy)
    for policy in ("fp32", "bf16-amp"):
        peer = Peer(module, batch, policy)
        peer.step()
        peak = peak_bytes(peer)
        print(f"  {name} {policy}: torch.compile {peak / MIB:.1f} MiB")
        for variant, options in VARIANTS.items():
            made = plan(path, policy, options)
            parts = ", ".join(
                f"{category} {count / MIB:.1f}"
                for category, count in made["ledger"].items()
                if count >= MIB // 20
            )
            arena = made["arena_bytes"]
            print(
                f"    binade{variant} {arena / MIB:.1f} MiB, "
                f"ratio {arena / peak:.3f}: {parts}",
                flush=True,
            )


def measure(arguments: argparse.Namespace) -> None:
    import model

    gpt2 = dataclasses.replace(
        model.CHAR_GPT, layers=12, width=768, heads=12, context=1024, batch=1,
        tied=True, vocabulary=50257,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        for name, config in {"char-gpt": model.CHAR_GPT, "gpt2": gpt2}.items():
            measure_model(name, config, pathlib.Path(folder))
