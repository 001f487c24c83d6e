"""Measures what `binade.torch.monitor` adds to the steps of an ordinary PyTorch loop, on one
thread."""

from __future__ import annotations

import argparse
import sys
import time

import binade.torch
import torch
from pairs import compare
from runtime import ROOT

sys.path.insert(0, str(ROOT / "examples" / "char-gpt"))

NEVER = 1_000_000
REQUESTS = {
    "nothing due": {"statistics": "*:norm", "every": NEVER},
    "gradient,weight:norm,absmax": {"statistics": "gradient,weight:norm,absmax"},
    "gradient,output,output_gradient:norm,absmax,zeros,underflow(f16)": {
        "statistics": "gradient,output,output_gradient:norm,absmax,zeros,underflow(f16)"
    },
    "weight:lost,update_ratio": {"statistics": "weight:lost,update_ratio"},
    "*:norm,absmax,zeros,exponents": {"statistics": "*:norm,absmax,zeros,exponents"},
}
# Rules of alarms watch statistics in each tenth step, some in each hundredth.
ALARMS = {"alarms off": "off", "alarms by default": (), "alarms all": "all"}


class Loop:
    """A loop over the smaller char-GPT (0.8 million parameters) in eager mode."""

    def __init__(self) -> None:
        import model

        torch.manual_seed(0)
        self.loss = model.cross_entropy
        self.module = model.make_mini()
        self.optimizer = torch.optim.AdamW(
            self.module.parameters(), lr=1e-4, fused=True
        )
        self.batch = {
            name: torch.randint(0, 90, ids.shape)
            for name, ids in model.make_mini_batch().items()
        }

    def run(self, steps: int = 1) -> None:
        for _ in range(steps):
            self.optimizer.zero_grad(set_to_none=True)
            loss = self.loss(self.module(self.batch["input_ids"]), self.batch["labels"])
            loss.backward()
            self.optimizer.step()


def measure(arguments: argparse.Namespace) -> None:
    """Processor time: other processes take the rest."""
    torch.set_num_threads(1)
    for request, options in REQUESTS.items():
        report(request, arguments.pairs, 1, alarms="off", **options)
    for name, alarms in ALARMS.items():
        report(f"ten steps, {name}", arguments.pairs, 10, alarms=alarms)


def report(name: str, pairs: int, steps: int, **options: object) -> None:
    """Compares steps with a monitor that has these options against those without it."""
    plain, watched = Loop(), Loop()
    watch = binade.torch.monitor(watched.module, watched.optimizer, **options)
    begin = time.perf_counter()
    watched.run(steps)  # Compiles the kernels.
    first = time.perf_counter() - begin
    plain.run(steps)
    result = compare(
        (name, lambda: watched.run(steps)), ("plain", lambda: plain.run(steps)),
        pairs, warmup=1, clock=time.process_time,
    )  # fmt: skip
    print(f"  {result}", flush=True)
    print(f"    {len(watch.statistics)} statistics, first {first:.1f} s", flush=True)
    watch.close()
    if not all(
        torch.equal(a, b)
        for a, b in zip(plain.module.parameters(), watched.module.parameters())
    ):
        raise RuntimeError(f"{name} changes the training")
