"""Modules of PyTorch whose outputs have gradients to watch."""

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

CROSS = nn.CrossEntropyLoss()
WIDTH = 16


class Block(nn.Module):
    """A module whose output is a sum, which passes its gradient on unchanged."""

    def __init__(self):
        super().__init__()
        self.norm, self.up = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH)
        self.act, self.down = nn.GELU(), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(self.act(self.up(self.norm(x))))


class Branches(nn.Module):
    """An output with three users, an elementwise product of two, and one without users."""

    def __init__(self):
        super().__init__()
        self.trunk, self.gate = nn.Linear(4, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.value, self.sigmoid = nn.Linear(WIDTH, WIDTH), nn.Sigmoid()
        self.tanh, self.head = nn.Tanh(), nn.Linear(WIDTH, 3)

    def forward(self, x):
        x = self.trunk(x)
        return self.head(self.sigmoid(self.gate(x)) * self.value(x) + self.tanh(x))


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = (
            nn.Conv2d(2, 4, 3, padding=1, bias=False),
            nn.BatchNorm2d(4),
        )
        self.act, self.pool = nn.ReLU(), nn.MaxPool2d(2)
        self.second, self.head = nn.Conv2d(4, 6, 3), nn.Linear(6, 3)

    def forward(self, x):
        x = self.pool(self.act(self.norm(self.first(x))))
        return self.head(self.second(x).mean((2, 3)))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(11, WIDTH)
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.out, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 3)

    def forward(self, x):
        x = self.table(x)
        split = [m(x).unflatten(-1, (2, 8)).transpose(1, 2)
                 for m in (self.query, self.key, self.value)]  # fmt: skip
        x = nn.functional.scaled_dot_product_attention(*split)
        return self.head(self.out(x.transpose(1, 2).flatten(2)).mean(1))


def sequence():
    return nn.Sequential(nn.Linear(4, WIDTH), Block(), Block(), nn.LayerNorm(WIDTH),
                         nn.Linear(WIDTH, 3))  # fmt: skip


# A module, its inputs, and how many outputs are to be compared at least.
MODULES = {
    "blocks": (sequence, lambda draw: torch.randn(8, 4, generator=draw), 13),
    "branches": (Branches, lambda draw: torch.randn(8, 4, generator=draw), 6),
    "images": (Images, lambda draw: torch.randn(3, 2, 10, 10, generator=draw), 6),
    "attention": (
        Attention, lambda draw: torch.randint(0, 11, (3, 7), generator=draw), 5,
    ),
}  # fmt: skip


def make(name, seed=0):
    torch.manual_seed(seed)
    build, draw_input, least = MODULES[name]
    draw = torch.Generator().manual_seed(seed + 1)
    x = draw_input(draw)
    target = torch.randint(0, 3, (len(x),), generator=draw)
    return build(), {"input" if name == "blocks" else "x": x, "target": target}, least
