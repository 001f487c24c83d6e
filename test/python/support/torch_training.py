"""Training by PyTorch, with which tests compare Binade's training."""

import torch


def train(model, loss_of, steps, rate):
    """The losses of the given number of AdamW steps; `loss_of` is called with the model."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
