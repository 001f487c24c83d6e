"""PyTorch models of the whole steps: models/make.sh exports them, and a peer trains them."""

from __future__ import annotations

import dataclasses
import pathlib
import sys

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples/char-gpt"))

from model import CharGPT, Config, cross_entropy  # noqa: E402

GPT2 = Config(layers=12, width=768, heads=12, context=1024, batch=32, tied=True,
              vocabulary=50304)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class LlamaConfig:
    layers: int = 16
    width: int = 2048
    hidden: int = 8192
    heads: int = 32
    groups: int = 8  # Heads of keys and values.
    context: int = 2048
    batch: int = 8
    vocabulary: int = 32000


LLAMA = LlamaConfig()

# The same graphs in sizes of which each record can be compared, but heads and blocks of
# 128 as they are.
SMALL_GPT2 = Config(layers=1, width=64, heads=1, context=32, batch=2, tied=True,
                    vocabulary=128)  # fmt: skip
SMALL_LLAMA = LlamaConfig(layers=1, width=128, hidden=128, heads=2, groups=1, context=32,
                          batch=2, vocabulary=128)  # fmt: skip


class RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        return (wide * scale).to(x.dtype) * self.weight


def make_angles(time: int, depth: int) -> Tensor:
    """Cosines and sines by position: [2, time, depth / 2]."""
    rates = 10000.0 ** (-torch.arange(0, depth, 2, dtype=torch.float32) / depth)
    angles = torch.arange(time, dtype=torch.float32)[:, None] * rates
    return torch.stack([angles.cos(), angles.sin()])


def rotate(x: Tensor, angles: Tensor) -> Tensor:
    """By position, as Su et al. (2021): the halves of each head are pairs."""
    cos, sin = angles.to(x.dtype)
    low, high = x.chunk(2, -1)
    return torch.cat([low * cos - high * sin, high * cos + low * sin], -1)


class LlamaBlock(nn.Module):
    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.config = config
        depth = config.width // config.heads
        shared = config.groups * depth
        self.norm1, self.norm2 = RMSNorm(config.width), RMSNorm(config.width)
        self.query = nn.Linear(config.width, config.width, bias=False)
        self.key = nn.Linear(config.width, shared, bias=False)
        self.value = nn.Linear(config.width, shared, bias=False)
        self.proj = nn.Linear(config.width, config.width, bias=False)
        self.gate = nn.Linear(config.width, config.hidden, bias=False)
        self.up = nn.Linear(config.width, config.hidden, bias=False)
        self.down = nn.Linear(config.hidden, config.width, bias=False)

    def attend(self, x: Tensor, angles: Tensor, mask: Tensor | None) -> Tensor:
        batch, time, width = x.shape
        config = self.config

        def split(y: Tensor, heads: int) -> Tensor:
            return y.view(batch, time, heads, -1).transpose(1, 2)

        query = rotate(split(self.query(x), config.heads), angles)
        key = rotate(split(self.key(x), config.groups), angles)
        value = split(self.value(x), config.groups)
        repeats = config.heads // config.groups
        key, value = (y.repeat_interleave(repeats, 1) for y in (key, value))
        y = F.scaled_dot_product_attention(
            query, key, value, mask, is_causal=mask is None
        )
        return self.proj(y.transpose(1, 2).reshape(batch, time, width))

    def forward(self, x: Tensor, angles: Tensor, mask: Tensor | None) -> Tensor:
        x = x + self.attend(self.norm1(x), angles, mask)
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """With one mask for all layers, if it is to be exported: each decomposed one
    takes a part of what is computed when a graph is imported. PyTorch is faster without."""

    def __init__(self, config: LlamaConfig, one_mask: bool = False) -> None:
        super().__init__()
        self.one_mask = one_mask
        self.token = nn.Embedding(config.vocabulary, config.width)
        self.blocks = nn.ModuleList(LlamaBlock(config) for _ in range(config.layers))
        depth = config.width // config.heads
        self.register_buffer("angles", make_angles(config.context, depth))
        self.norm = RMSNorm(config.width)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, input_ids: Tensor) -> Tensor:
        x, mask = self.token(input_ids), None
        if self.one_mask:
            time = input_ids.shape[1]
            visible = torch.ones(time, time, dtype=torch.bool).tril()
            mask = torch.where(visible, 0.0, -torch.inf)
        for block in self.blocks:
            x = block(x, self.angles, mask)
        return self.head(self.norm(x))


def make_batch(config: Config | LlamaConfig) -> dict[str, Tensor]:
    ids = torch.zeros(config.batch, config.context, dtype=torch.int64)
    return {"input_ids": ids, "labels": ids.clone()}


def make_gpt2() -> nn.Module:
    return CharGPT(GPT2)


def make_gpt2_batch() -> dict[str, Tensor]:
    return make_batch(GPT2)


def make_llama() -> nn.Module:
    return Llama(LLAMA, one_mask=True)


def make_llama_batch() -> dict[str, Tensor]:
    return make_batch(LLAMA)


def make_small_gpt2() -> nn.Module:
    return CharGPT(SMALL_GPT2)


def make_small_gpt2_batch() -> dict[str, Tensor]:
    return make_batch(SMALL_GPT2)


def make_small_llama() -> nn.Module:
    return Llama(SMALL_LLAMA, one_mask=True)


def make_small_llama_batch() -> dict[str, Tensor]:
    return make_batch(SMALL_LLAMA)


PEERS = {"gpt2": make_gpt2, "llama": lambda: Llama(LLAMA)}
__all__ = ["cross_entropy"]
