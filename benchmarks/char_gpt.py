"""Times the training step of examples/char-gpt against torch.compile."""

from __future__ import annotations

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import torch
from pairs import compare
from runtime import BUILD, ROOT, Program, compile_step

EXAMPLE = ROOT / "examples" / "char-gpt"
sys.path.insert(0, str(EXAMPLE))
OPTIONS = ["--optimizer", "adamw", "--lr", "1e-3", "--set", "weight_decay=0.01"]


class Peer:
    """The same model and optimizer in PyTorch, with the same weights."""

    def __init__(self, program: Program, batch: dict, policy: str, mode: str | None):
        import model

        self.module = model.make_model()
        for name, parameter in self.module.named_parameters():
            parameter.data.copy_(torch.from_numpy(program["parameter", name].copy()))
        self.batch = {name: torch.from_numpy(a) for name, a in batch.items()}
        self.optimizer = torch.optim.AdamW(
            self.module.parameters(), lr=1e-3, weight_decay=0.01, fused=True
        )
        self.autocast = policy == "bf16-amp"

        def loss(input_ids, labels):
            with torch.autocast("cpu", torch.bfloat16, enabled=self.autocast):
                return model.cross_entropy(self.module(input_ids), labels)

        self.loss = torch.compile(loss, mode=mode) if mode != "eager" else loss

    def step(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        self.last = self.loss(**self.batch)
        self.last.backward()
        self.optimizer.step()


def peak_bytes(peer: Peer) -> int:
    """Returns the peak bytes of live tensors in one step of `peer`, by PyTorch's profiler."""
    with torch.profiler.profile(profile_memory=True, record_shapes=False) as profile:
        peer.step()
    live = sum(
        t.numel() * t.element_size()
        for group in (peer.module.parameters(), peer.batch.values())
        for t in group
    ) + sum(
        t.numel() * t.element_size()
        for state in peer.optimizer.state.values()
        for t in state.values()
    )
    peak = now = live
    for event in profile.profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            peak = max(peak, now)
    return peak


def load_batch() -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    tokens = generator.integers(0, 94, (8, 257))
    return {
        "input_ids": np.ascontiguousarray(tokens[:, :-1]),
        "labels": np.ascontiguousarray(tokens[:, 1:]),
    }


def measure_policy(
    policy: str, folder: pathlib.Path, arguments: argparse.Namespace
) -> Program:
    batch = load_batch()
    bundle = compile_step(
        EXAMPLE / "char-gpt.onnx",
        folder / f"{policy}.bnd",
        "--policy",
        policy,
        *OPTIONS,
    )
    program = Program(bundle)
    for name, array in batch.items():
        program["batch", name][...] = array
    for mode in [None] + (["max-autotune"] if arguments.autotune else []):
        peer = Peer(program, batch, policy, mode)
        name = f"torch.compile{f'({mode})' if mode else ''} {policy}"
        first = float(program["parameter", "head.weight"].sum())
        ratio = compare(
            (f"binade {policy}", program.run), (name, peer.step), arguments.pairs
        )
        assert first != float(program["parameter", "head.weight"].sum())
        loss = float(program["metric", "loss"])
        print(f"  {ratio}")
        print(f"  losses after as many steps: {loss:.4f}, {peer.last.item():.4f}")
    plan = json.loads(
        subprocess.run(
            [BUILD / "bin" / "binade", "inspect", bundle, "--json"],
            check=True, capture_output=True,
        ).stdout
    )  # fmt: skip
    peak = peak_bytes(peer)
    print(
        f"  peak of live tensors: binade {plan['arena_bytes'] / 2**20:.1f} MiB, "
        f"{name} {peak / 2**20:.1f} MiB, ratio {plan['arena_bytes'] / peak:.3f}"
    )
    return program


def measure(arguments: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        programs = {
            policy: measure_policy(policy, pathlib.Path(folder), arguments)
            for policy in ("fp32", "bf16-amp")
        }
    ratio = compare(
        ("binade bf16-amp", programs["bf16-amp"].run),
        ("binade fp32", programs["fp32"].run),
        arguments.pairs,
    )
    print(f"  {ratio}")
