"""A small module, and the plain loop that trains it."""

import binade.torch
import torch

RATE = 1e-2
OURS, THEIRS = binade.torch.AdamW, torch.optim.AdamW


def make_module(dtype=torch.float32, width=16):
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(8, width), torch.nn.GELU(), torch.nn.Linear(width, 3)
    ).to(dtype)


def make_batch(step, dtype=torch.float32):
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(32, 8, generator=generator).to(dtype)
    return x, torch.randint(0, 3, (32,), generator=generator)


def train(module, optimizer, steps=4, compute=None):
    """The plain loop."""
    losses = []
    for step in range(steps):
        x, y = make_batch(step, next(module.parameters()).dtype)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy((compute or module)(x).float(), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
