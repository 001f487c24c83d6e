"""Peers that kernels and steps are compared with, if installed: PyTorch and others."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
from collections.abc import Callable, Iterator

import numpy as np
from cases import (
    BITSANDBYTES,
    COMPILED,
    FUSED,
    PASSES,
    TORCHAO,
    TWICE,
    UNSCALED,
    Quantizer,
)

try:
    import torch

    HAS_DEVICE = torch.cuda.is_available()
except ImportError:
    HAS_DEVICE = False

Call = Callable[[], object]
DEVICE = "cuda"
LARGEST = 448.0  # Of E4M3.


@functools.cache
def side_stream():
    """The stream of all captures. A backward pass runs on the stream of its forward pass, so
    both have to use it."""
    return torch.cuda.Stream()


def synchronized(call: Call) -> Call:
    def run() -> None:
        call()
        torch.cuda.synchronize()

    return run


@dataclasses.dataclass
class Replay:
    """A graph, and the call that was captured: the graph reads the call's tensors, which
    live as long as this does."""

    call: Call
    graph: object

    def __call__(self) -> None:
        self.graph.replay()
        torch.cuda.synchronize()


@contextlib.contextmanager
def on_side_stream() -> Iterator[None]:
    """Runs PyTorch's ops on the side stream, after all others and before all others."""
    torch.cuda.synchronize()
    with torch.cuda.stream(side_stream()):
        yield
    torch.cuda.synchronize()


def warm_up(call: Call) -> None:
    """Calls `call` on the side stream, as PyTorch requires before a capture."""
    with on_side_stream():
        for _ in range(3):
            call()


def capture(call: Call):
    """Returns a CUDA graph of one call. Raises RuntimeError if it cannot be captured."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side_stream()):
        call()
    return graph


def captured(call: Call) -> Call:
    """Returns a replay of `call` as a CUDA graph, which is how Binade runs steps; a plain
    call if it cannot be captured."""
    warm_up(call)
    try:
        graph = capture(call)
    except RuntimeError as error:
        print(f"  launched one by one: {str(error)[:200]}", flush=True)
        torch.cuda.synchronize()
        return synchronized(call)
    return Replay(call, graph)


def make_parameters(values: dict[str, tuple[np.ndarray, np.ndarray]]) -> list:
    made = []
    for value, gradient in values.values():
        parameter = torch.nn.Parameter(torch.from_numpy(value.copy()).cuda())
        parameter.grad = torch.from_numpy(gradient.copy()).cuda()
        made.append(parameter)
    return made


def fused(values: dict) -> Call:
    optimizer = torch.optim.AdamW(
        make_parameters(values), lr=1e-3, weight_decay=0.01, fused=True, capturable=True
    )
    return captured(optimizer.step)


def fused_eagerly(values: dict) -> Call:
    optimizer = torch.optim.AdamW(
        make_parameters(values), lr=1e-3, weight_decay=0.01, fused=True
    )
    return synchronized(optimizer.step)


def unscaled(values: dict) -> Call:
    """What GradScaler, clipping and the optimizer do, one after the other."""
    parameters = make_parameters(values)
    optimizer = torch.optim.AdamW(
        parameters, lr=1e-3, weight_decay=0.01, fused=True, capturable=True
    )
    gradients = [parameter.grad for parameter in parameters]
    found, scale = torch.zeros((), device="cuda"), torch.ones((), device="cuda")

    def step() -> None:
        torch._amp_foreach_non_finite_check_and_unscale_(gradients, found, scale)
        torch.nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True)
        optimizer.step()

    return captured(step)


def optimizer_of(module: str, name: str) -> Callable[[dict], Call]:
    """An optimizer of another package, launched by the host as it does."""

    def make(values: dict) -> Call:
        kind = getattr(importlib.import_module(module), name)
        return synchronized(kind(make_parameters(values), lr=1e-3).step)

    return make


UPDATES = {
    FUSED: fused,
    UNSCALED: unscaled,
    BITSANDBYTES: optimizer_of("bitsandbytes.optim", "AdamW8bit"),
    TORCHAO: optimizer_of("torchao.optim", "AdamWFp8"),
}


def encode(x, amax):
    scale = torch.where(amax > 0, amax, 1.0) / LARGEST
    codes = (x.float() / scale).clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn)
    return codes, scale


def row(x, weight, old):
    return encode(x, x.float().abs().amax(1, keepdim=True))


def group(x, weight, old):
    groups = x.view(x.shape[0], -1, 128)
    return encode(groups, groups.float().abs().amax(2, keepdim=True))


def delayed(x, weight, old):
    return *encode(x, old), x.float().abs().amax()


def turned(x, weight, old):
    codes, scale = encode(x, old)
    return codes, codes.t().contiguous(), scale, x.float().abs().amax()


def down(x, weight, old):
    groups = x.view(-1, 128, x.shape[1])
    return encode(groups, groups.float().abs().amax(1, keepdim=True))


def both(x, weight, old):
    return *group(x, weight, old), *down(x, weight, old)


def normalize(x, weight):
    wide = x.float()
    return wide * torch.rsqrt(wide.pow(2).mean(1, keepdim=True) + 1e-5) * weight


def norm(x, weight, old):
    y = normalize(x, weight)
    return encode(y, y.abs().amax(1, keepdim=True))


QUANTIZERS = {
    "row": row,
    "group": group,
    "delayed": delayed,
    "turned": turned,
    "both": both,
    "norm": norm,
}


def quantizer(case: Quantizer, peer: str, x: np.ndarray) -> Call:
    """`x` in f32."""
    wide = torch.from_numpy(x).cuda().bfloat16()
    weight = torch.ones(x.shape[1], device="cuda")
    old = torch.tensor(4.0, device="cuda")
    if peer == COMPILED:
        function = torch.compile(QUANTIZERS[case.name], dynamic=False)
        return captured(lambda: function(wide, weight, old))
    if peer == TWICE:
        along, across = (torch.compile(f, dynamic=False) for f in (group, down))
        return captured(lambda: (along(wide, weight, old), across(wide, weight, old)))
    assert peer == PASSES
    first = torch.compile(lambda x, w: normalize(x, w).bfloat16(), dynamic=False)
    second = torch.compile(
        lambda y: y.float().abs().amax(1, keepdim=True), dynamic=False
    )
    third = torch.compile(encode, dynamic=False)

    def passes() -> None:
        y = first(wide, weight)
        third(y, second(y))

    return captured(passes)


def copy(count: int) -> Call:
    """A copy of as many elements in f32, of which each moves 8 bytes."""
    source = torch.randn(count, device="cuda")
    target = torch.empty_like(source)
    return captured(lambda: target.copy_(source))
