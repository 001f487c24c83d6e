"""Models, losses and batches that the tests of the exporter use."""

import torch
import torch.nn.functional as F
from torch import nn


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(6, 8)
        self.fc2 = nn.Linear(8, 8)
        self.out = nn.Linear(8, 3)
        for layer in (self.fc1, self.fc2, self.out):
            nn.init.zeros_(layer.bias)
        # Equal initial values, which a pass that deduplicates constants would merge.
        self.fc2.weight = nn.Parameter(torch.eye(8))
        self.scale = nn.Parameter(torch.ones(8))
        self.shift = nn.Parameter(torch.ones(8))

    def forward(self, x):
        x = F.relu(self.fc1(x)) * self.scale
        return self.out(F.gelu(self.fc2(x)) + self.shift)


class MiniGPT(nn.Module):
    def __init__(self, width=16, heads=2, vocabulary=11, context=8):
        super().__init__()
        self.heads = heads
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(context, width)
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 32), nn.GELU("tanh"), nn.Linear(32, width)
        )
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.token.weight

    def forward(self, input_ids):
        batch, time = input_ids.shape
        x = self.token(input_ids) + self.position(torch.arange(time))
        query, key, value = (
            part.view(batch, time, self.heads, -1).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).split(x.shape[-1], dim=-1)
        )
        y = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(x.shape))
        return self.head(x + self.mlp(self.norm2(x)))


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3, stride=2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(4, momentum=0.3, eps=1e-3)
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        x = F.relu(self.norm(self.conv(x)))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Dropping(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 3)
        self.dropout = nn.Dropout(0.25)

    def forward(self, x):
        return self.dropout(self.fc(x))


class OwnLoss(nn.Module):
    """Returns its loss in a mapping, as transformers' models do."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 3)

    def forward(self, x, labels):
        logits = self.fc(x)
        return {"loss": F.cross_entropy(logits, labels), "logits": logits}


class Constants(nn.Module):
    """Small constants and a buffer, all of which affect the result."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.full((6,), 1e-8))
        self.frozen = nn.Parameter(torch.ones(6), requires_grad=False)
        self.register_buffer("frequency", torch.arange(6.0))

    def forward(self, x):
        scaled = x * self.weight + 1e-8
        return scaled * (1 - 1e-6) * self.frozen + torch.cos(self.frequency)


def cross_entropy(prediction, labels):
    return F.cross_entropy(prediction.flatten(0, -2), labels.flatten())


def mean(prediction):
    return prediction.mean()


def vectors():
    torch.manual_seed(1)
    return {"x": torch.randn(5, 6), "labels": torch.tensor([0, 2, 1, 1, 2])}


def tokens():
    torch.manual_seed(1)
    ids = torch.randint(0, 11, (3, 9))
    return {"input_ids": ids[:, :-1], "labels": ids[:, 1:]}


def images():
    torch.manual_seed(1)
    return {"x": torch.randn(4, 2, 6, 6) + 0.5, "labels": torch.tensor([0, 2, 1, 1])}


def features():
    torch.manual_seed(1)
    return {"x": torch.randn(5, 6), "y": torch.randn(5, 6)}


def distance(prediction, y):
    return F.mse_loss(prediction, y)


def wrong_batch():
    return {**vectors(), "extra": torch.zeros(1)}


def no_reduction(prediction, labels):
    return F.cross_entropy(prediction, labels, reduction="none")
