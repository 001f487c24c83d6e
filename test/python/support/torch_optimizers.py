"""Small parameters, and loops that train them with given gradients."""

import binade.torch
import torch

SETTINGS = {"lr": 0.05, "weight_decay": 0.1}


def make_parameters(count=2):
    torch.manual_seed(1)
    return [torch.nn.Parameter(torch.randn(5, 4)) for _ in range(count)]


def train(parameters, optimizer, steps=3, begin=0, given=None):
    """Runs steps with gradients that do not depend on the parameters."""
    for step in range(begin, begin + steps):
        generator = torch.Generator().manual_seed(step)
        for index, parameter in enumerate(parameters):
            gradient = torch.randn(5, 4, generator=generator)
            parameter.grad = gradient if given is None or index in given else None
        optimizer.step()


def assert_close(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def make_pair(**settings):
    """The same parameters with Binade's AdamW and with PyTorch's."""
    ours, theirs = make_parameters(), make_parameters()
    settings = SETTINGS | settings
    return (ours, binade.torch.AdamW(ours, **settings)), (
        theirs, torch.optim.AdamW(theirs, **settings))  # fmt: skip
