"""Part of run.py: updates of PyTorch's tensors, as a loop calls them, against peers.

They run on PyTorch's stream, one by one and in a CUDA graph. A call binds parameters and
gradients again, as an optimizer has to.
"""

from __future__ import annotations

import dataclasses
import pathlib
import sys

import numpy as np
import peers
import timing
from artifacts import read_manifest, sizes_of
from cases import BITSANDBYTES, FUSED, TORCHAO
from comparison import OURS, Comparison
from kernels import Inputs
from peers import torch
from rows import Rows
from runtime import BoundProgram, Program

ROUNDS = 25
ROLES = ("parameter", "buffer", "state", "step", "rng", "hyper")
KINDS = {
    "F32": "float32", "F64": "float64", "I64": "int64", "I8": "int8", "U8": "uint8",
    "F8_E4M3": "uint8", "F8_E5M2": "uint8",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Loop:
    """A bundle of the part `kernels`, and the goals against peers: launched by the host, and
    in a graph."""

    case: str
    title: str
    eager: dict[str, float | None]
    graph: dict[str, float | None]


LOOPS = [
    Loop("adamw", "AdamW, f32", {FUSED: 0.95}, {FUSED: 0.95}),
    Loop("e4m3", "AdamW, states in E4M3", {FUSED: None, TORCHAO: None}, {FUSED: None}),
    Loop("dyn8", "AdamW, states in dynamic 8 bits", {FUSED: None, BITSANDBYTES: 0.60},
         {FUSED: None}),
]  # fmt: skip


class Update:
    """An update of PyTorch's tensors on `device`, `cpu` or `cuda:0`."""

    def __init__(self, bundle: pathlib.Path, device: str, values: dict):
        self.device = device
        self.program = BoundProgram(bundle, device, ROLES)
        self.tensors = {
            (port.role, port.name): torch.zeros(
                port.shape, dtype=getattr(torch, KINDS[port.dtype]), device=device
            )
            for port in self.program.ports
        }
        for name, (value, gradient) in values.items():
            self.tensors["parameter", name].copy_(torch.from_numpy(value))
            given = self.tensors["buffer", f"gradient/{name}"]
            given.copy_(torch.from_numpy(np.ascontiguousarray(gradient)))
        self.changing = [
            p for p in self.program.ports if p.role in ("parameter", "buffer")
        ]
        self.bind(self.program.ports)
        self.synchronize()
        self.program.initialize()

    def bind(self, ports: list) -> None:
        for port in ports:
            tensor = self.tensors[port.role, port.name]
            self.program.bind(port.index, tensor.data_ptr())

    def synchronize(self) -> None:
        if self.device != "cpu":
            torch.cuda.synchronize()

    def __call__(self) -> None:
        self.bind(self.changing)
        if self.device == "cpu":
            return self.program.run()
        self.program.enqueue(torch.cuda.current_stream().cuda_stream)


def count_differences(update: Update, bundle: pathlib.Path, values: dict) -> int:
    """Returns in how many parameters and states a step differs from that of a program with
    memory of its own."""
    program = Program(bundle)
    for name, (value, gradient) in values.items():
        program["parameter", name][...] = value
        program["buffer", f"gradient/{name}"][...] = gradient
    update()
    update.synchronize()
    program.run()
    count = 0
    for (role, name), tensor in update.tensors.items():
        if role in ("parameter", "state"):
            own = tensor.cpu().numpy()
            count += own.tobytes() != program[role, name].tobytes()
    return count


def measure(loop: Loop, bundle: pathlib.Path, inputs: Inputs) -> list[dict]:
    values, rows = inputs.values(), []
    update = Update(bundle, "cuda:0", values)
    differences = count_differences(update, bundle, values)
    calls = {"": peers.synchronized(update), "-graph": peers.captured(update)}
    for suffix, call in calls.items():
        goals = loop.graph if suffix else loop.eager
        comparison = Comparison(f"loop-{loop.case}{suffix}")
        comparison.sides[OURS] = call
        for peer in goals:
            make = (
                peers.UPDATES[peer] if suffix or peer != FUSED else peers.fused_eagerly
            )
            comparison.add(peer, lambda make=make: make(values))
        comparison.measure(ROUNDS)
        rows.append({
            "part": "loop", "name": comparison.row,
            "title": loop.title + (" in a graph" if suffix else ""),
            "ms": round(timing.median(comparison.times[OURS]), 4),
            "differences": differences, **comparison.describe(goals),
        })  # fmt: skip
    return rows


def main(folder: pathlib.Path, out: pathlib.Path) -> None:
    inputs, rows = Inputs(sizes_of(read_manifest(folder))), Rows(out)
    if not peers.HAS_DEVICE:
        rows.note(unavailable="PyTorch is not installed or sees no device")
        return
    for loop in LOOPS:
        bundle = folder / "kernels" / f"{loop.case}.bnd"
        if bundle.exists():
            for row in measure(loop, bundle, inputs):
                rows.add(row)
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:]))
