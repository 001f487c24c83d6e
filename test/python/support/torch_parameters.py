"""Parameters of each type, and a loop that trains them with given gradients."""

import torch

SHAPES = [(5, 4), (3,), (2, 3, 2, 2), (), (0, 4), (64, 80)]


def make_parameters(dtype, shapes=SHAPES):
    torch.manual_seed(1)
    return [torch.nn.Parameter(torch.randn(shape).to(dtype)) for shape in shapes]


def make_gradients(parameters, step):
    generator = torch.Generator().manual_seed(step)
    return [torch.randn(p.shape, generator=generator).to(p.dtype) for p in parameters]


def train(parameters, optimizer, steps=4):
    for step in range(steps):
        for parameter, gradient in zip(parameters, make_gradients(parameters, step)):
            parameter.grad = gradient
        optimizer.step()
