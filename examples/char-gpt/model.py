"""A minimal character-level GPT.

Token and position embeddings, pre-norm blocks of causal attention and a GELU MLP, a
linear head (Vaswani et al., 2017; Radford et al., 2019). Two sizes: ``char-gpt``
(10.8 million parameters) and ``mini`` for experiments that train many models.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from prepare import load_text, vocabulary
from torch import Tensor, nn


@dataclass(frozen=True)
class Config:
    """Sizes of a model and of the batch that it is exported for."""

    layers: int
    width: int
    heads: int
    context: int
    batch: int
    dropout: float = 0.0
    tied: bool = False
    vocabulary: int = len(vocabulary(load_text()))


CHAR_GPT = Config(layers=6, width=384, heads=6, context=256, batch=8)
MINI = Config(layers=4, width=128, heads=4, context=128, batch=16)


class Attention(nn.Module):
    """Every position looks at itself and at what came before."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads = config.heads
        self.dropout = config.dropout
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.proj = nn.Linear(config.width, config.width)

    def forward(self, x: Tensor) -> Tensor:
        batch, time, width = x.shape
        query, key, value = (
            part.view(batch, time, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(x).split(width, dim=-1)
        )
        y = F.scaled_dot_product_attention(
            query,
            key,
            value,
            is_causal=True,
            dropout_p=self.dropout if self.training else 0.0,
        )
        return self.proj(y.transpose(1, 2).reshape(batch, time, width))


class Block(nn.Module):
    """Attention and MLP, each added to the residual stream."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(config.width)
        self.attention = Attention(config)
        self.norm2 = nn.LayerNorm(config.width)
        self.mlp = nn.Sequential(
            nn.Linear(config.width, 4 * config.width),
            nn.GELU(),
            nn.Linear(4 * config.width, config.width),
        )
        self.dropout = nn.Dropout(config.dropout) if config.dropout else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.mlp(self.norm2(x)))


class CharGPT(nn.Module):
    """Characters in [batch, time] -> scores [batch, time, vocabulary] of the next."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.token = nn.Embedding(config.vocabulary, config.width)
        self.position = nn.Embedding(config.context, config.width)
        self.blocks = nn.Sequential(*(Block(config) for _ in range(config.layers)))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        self.initialize(config)
        if config.tied:
            self.head.weight = self.token.weight

    def initialize(self, config: Config) -> None:
        """GPT-2's: what ends in the residual stream starts smaller, by depth."""
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif parameter.dim() == 2:
                residual = name.endswith(("proj.weight", "mlp.2.weight"))
                scale = (2 * config.layers) ** -0.5 if residual else 1.0
                nn.init.normal_(parameter, std=0.02 * scale)

    def forward(self, input_ids: Tensor) -> Tensor:
        positions = torch.arange(input_ids.shape[1], device=input_ids.device)
        x = self.token(input_ids) + self.position(positions)
        return self.head(self.norm(self.blocks(x)))


def cross_entropy(prediction: Tensor, labels: Tensor) -> Tensor:
    """Mean over all positions of -log of the probability of the next character."""
    return F.cross_entropy(prediction.flatten(0, 1), labels.flatten())


def make_model() -> nn.Module:
    return CharGPT(CHAR_GPT)


def make_batch() -> dict[str, Tensor]:
    return _batch(CHAR_GPT)


def make_mini() -> nn.Module:
    return CharGPT(MINI)


def make_mini_batch() -> dict[str, Tensor]:
    return _batch(MINI)


def _batch(config: Config) -> dict[str, Tensor]:
    ids = torch.zeros(config.batch, config.context, dtype=torch.int64)
    return {"input_ids": ids, "labels": ids.clone()}
