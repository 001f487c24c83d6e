"""The shared models as PyTorch modules; names of parameters are those of their files."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class DigitsMLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(64, 128)
        self.fc2 = nn.Linear(128, 64)
        self.fc3 = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc3(F.gelu(self.fc2(F.relu(self.fc1(x)))))


class Projection(nn.Module):
    """A linear layer whose weight is [in, out], as GPT-2 stores it."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.empty(outputs))

    def forward(self, x: Tensor) -> Tensor:
        flat = torch.addmm(self.bias, x.reshape(-1, x.shape[-1]), self.weight)
        return flat.view(*x.shape[:-1], -1)


class GPT2Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.c_attn = Projection(width, 3 * width)
        self.c_proj = Projection(width, width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        batch, time, width = x.shape
        query, key, value = (
            part.view(batch, time, self.heads, -1).transpose(1, 2)
            for part in self.c_attn(x).split(width, dim=2)
        )
        scores = torch.matmul(query, key.transpose(-1, -2)) * query.shape[-1] ** -0.5
        weights = F.softmax(scores + mask, dim=-1).type(value.dtype)
        y = torch.matmul(weights, value).transpose(1, 2).reshape(batch, time, width)
        return self.c_proj(y)


class GPT2MLP(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.c_fc = Projection(width, 4 * width)
        self.c_proj = Projection(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        x = self.c_fc(x)
        inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))
        return self.c_proj(0.5 * x * (1.0 + torch.tanh(inner)))


class GPT2Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = GPT2Attention(width, heads)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = GPT2MLP(width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        x = self.attn(self.ln_1(x), mask) + x
        return x + self.mlp(self.ln_2(x))


class GPT2(nn.Module):
    """GPT-2 with tied embeddings; names as in the shared file, less its prefix."""

    PREFIX = "m.transformer."

    def __init__(
        self,
        vocabulary: int = 256,
        width: int = 64,
        heads: int = 4,
        layers: int = 2,
        context: int = 64,
    ) -> None:
        super().__init__()
        self.wte = nn.Embedding(vocabulary, width)
        self.wpe = nn.Embedding(context, width)
        self.h = nn.ModuleList(GPT2Block(width, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, input_ids: Tensor) -> Tensor:
        time = input_ids.shape[1]
        x = self.wte(input_ids) + self.wpe(torch.arange(time)[None])
        after = torch.ones(time, time, dtype=torch.bool).triu(1)
        mask = torch.zeros(time, time).masked_fill(after, torch.finfo(x.dtype).min)
        for block in self.h:
            x = block(x, mask)
        return F.linear(self.ln_f(x), self.wte.weight)


class BasicBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                nn.BatchNorm2d(outputs),
            )

    def forward(self, x: Tensor) -> Tensor:
        skip = x if self.downsample is None else self.downsample(x)
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + skip)


class ResNet18(nn.Module):
    """ResNet-18 for 32 x 32 images: a 3 x 3 stem and no pooling before layer 1."""

    def __init__(self, width: int = 8, classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        for layer in range(4):
            inputs, outputs = width << max(layer - 1, 0), width << layer
            setattr(
                self,
                f"layer{layer + 1}",
                nn.Sequential(
                    BasicBlock(inputs, outputs, 2 if layer else 1),
                    BasicBlock(outputs, outputs, 1),
                ),
            )
        self.fc = nn.Linear(width << 3, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(x)))
        for layer in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = layer(x)
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


class RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))

    def forward(self, x: Tensor) -> Tensor:
        variance = x.float().pow(2).mean(-1, keepdim=True)
        return self.weight * (x * torch.rsqrt(variance + 1e-6)).to(x.dtype)


def rotate(x: Tensor, angles: Tensor) -> Tensor:
    """Rotary embedding: the two halves of the last axis are the parts of numbers."""
    first, second = x.chunk(2, dim=-1)
    return x * angles.cos() + torch.cat((-second, first), dim=-1) * angles.sin()


class LlamaAttention(nn.Module):
    def __init__(self, width: int, heads: int, groups: int) -> None:
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.q_proj = nn.Linear(width, width, bias=False)
        self.k_proj = nn.Linear(width, groups * self.size, bias=False)
        self.v_proj = nn.Linear(width, groups * self.size, bias=False)
        self.o_proj = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, angles: Tensor, mask: Tensor) -> Tensor:
        query, key, value = (
            projection(x).view(*x.shape[:2], -1, self.size).transpose(1, 2)
            for projection in (self.q_proj, self.k_proj, self.v_proj)
        )
        query, key = rotate(query, angles), rotate(key, angles)
        copies = self.heads // self.groups
        key, value = (y.repeat_interleave(copies, dim=1) for y in (key, value))
        scores = torch.matmul(query, key.transpose(-1, -2)) * self.size**-0.5
        weights = F.softmax(scores + mask, dim=-1, dtype=torch.float32)
        y = torch.matmul(weights.to(query.dtype), value)
        return self.o_proj(y.transpose(1, 2).reshape(*x.shape))


class LlamaMLP(nn.Module):
    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(width, inner, bias=False)
        self.up_proj = nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class LlamaLayer(nn.Module):
    def __init__(self, width: int, inner: int, heads: int, groups: int) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(width)
        self.self_attn = LlamaAttention(width, heads, groups)
        self.post_attention_layernorm = RMSNorm(width)
        self.mlp = LlamaMLP(width, inner)

    def forward(self, x: Tensor, angles: Tensor, mask: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), angles, mask)
        return x + self.mlp(self.post_attention_layernorm(x))


class LlamaBody(nn.Module):
    def __init__(self, vocabulary: int, width: int, layers: int, size: int) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(
            LlamaLayer(width, 176, heads=4, groups=2) for _ in range(layers)
        )
        self.norm = RMSNorm(width)
        self.rotary_emb = nn.Module()
        for name in ("inv_freq", "original_inv_freq"):
            self.rotary_emb.register_buffer(name, torch.empty(size // 2))

    def forward(self, input_ids: Tensor) -> Tensor:
        time = input_ids.shape[1]
        x = self.embed_tokens(input_ids)
        angles = torch.arange(time).float()[:, None] * self.rotary_emb.inv_freq
        after = torch.ones(time, time, dtype=torch.bool).triu(1)
        mask = torch.zeros(time, time).masked_fill(after, torch.finfo(x.dtype).min)
        for layer in self.layers:
            x = layer(x, torch.cat((angles, angles), dim=-1), mask)
        return self.norm(x)


class Llama(nn.Module):
    """Llama of four heads that share two keys; names less the shared file's prefix."""

    PREFIX = "m."

    def __init__(self) -> None:
        super().__init__()
        self.model = LlamaBody(vocabulary=256, width=64, layers=2, size=16)
        self.lm_head = nn.Linear(64, 256, bias=False)

    def forward(self, input_ids: Tensor) -> Tensor:
        return self.lm_head(self.model(input_ids))


class LSTM(nn.Module):
    """Two layers, their cells op by op: autocast sees the products of each step."""

    def __init__(self, inputs: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.hidden, self.layers = hidden, layers
        for layer in range(layers):
            for kind in ("ih", "hh"):
                width = inputs if kind == "ih" and layer == 0 else hidden
                for name, shape in (("weight", (4 * hidden, width)),
                                    ("bias", (4 * hidden,))):  # fmt: skip
                    self.register_parameter(
                        f"{name}_{kind}_l{layer}", nn.Parameter(torch.empty(shape))
                    )

    def forward(self, x: Tensor) -> Tensor:
        steps = x.unbind(1)
        for layer in range(self.layers):
            h = c = torch.zeros(x.shape[0], self.hidden)
            outputs = []
            for step in steps:
                i, f, g, o = sum(
                    F.linear(
                        value,
                        getattr(self, f"weight_{kind}_l{layer}"),
                        getattr(self, f"bias_{kind}_l{layer}"),
                    )
                    for value, kind in ((step, "ih"), (h, "hh"))
                ).chunk(4, dim=1)
                c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
                h = torch.sigmoid(o) * torch.tanh(c)
                outputs.append(h)
            steps = outputs
        return torch.stack(steps, dim=1)


class CharLSTM(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.emb = nn.Embedding(256, 48)
        self.rnn = LSTM(48, 96, 2)
        self.out = nn.Linear(96, 256)

    def forward(self, input_ids: Tensor) -> Tensor:
        return self.out(self.rnn(self.emb(input_ids)))
