"""What statistics of tensors are, from numpy, and a loop whose values are known."""

import binade.torch
import numpy as np
import torch


def describe(tensor):
    """The statistics of `binade list stats` that need no format or update."""
    x = tensor.detach().double().numpy().ravel()
    with np.errstate(divide="ignore"):
        exponents = np.frexp(np.abs(x))[1] - 1
    exponents = np.where(x == 0, -127, np.where(np.isfinite(x), exponents, 128))
    exponents = np.maximum(exponents, -127)
    bins, counts = np.unique(exponents, return_counts=True)
    return {
        "norm": np.sqrt(np.sum(x * x)),
        "min": x.min(),
        "max": x.max(),
        "absmax": np.abs(x).max(),
        "absmean": np.abs(x).mean(),
        "mean": x.mean(),
        "std": x.std(ddof=1),
        "zeros": np.mean(x == 0),
        "nonfinite": np.mean(~np.isfinite(x)),
        "exponents": dict(zip(bins.tolist(), counts.tolist())),
    }


def describe_in(tensor, dtype):
    """Statistics with a format, by PyTorch's casts to it."""
    x = tensor.detach().float()
    largest = torch.finfo(dtype).max
    rounded = x.to(dtype).float()
    nonzero = (x != 0).sum().item()
    return {
        "underflow": ((x != 0) & (rounded == 0)).sum().item() / nonzero,
        "overflow": rounded.isinf().float().mean().item(),
        "saturated": (x.abs() >= largest).float().mean().item(),
    }


ALL = "norm,min,max,absmax,absmean,mean,std,zeros,nonfinite,exponents"


def check(found, kind, layer, tensor, statistics=None):
    """Compares what was recorded of a value with numpy."""
    for name, expected in describe(tensor).items():
        if statistics is not None and name not in statistics:
            continue
        got = found[f"{kind}/{layer}/{name}"]
        if name == "exponents":
            assert got == expected, (kind, layer)
        else:
            # Means are sums of terms of either sign.
            np.testing.assert_allclose(
                got, expected, rtol=1e-6, atol=1e-8, err_msg=f"{kind} {layer} {name}"
            )


def loss_of(output, y):
    return torch.nn.functional.cross_entropy(output.float(), y)


def take_step(module, optimizer, x, y, watch=None, scaler=None):
    """One step of the plain loop; leaves the gradients."""
    optimizer.zero_grad()
    loss = loss_of(module(x), y)
    if watch is not None:
        watch.loss(loss)
    (scaler.scale(loss) if scaler else loss).backward()
    if scaler:
        scaler.step(optimizer)
        scaler.update()
    else:
        optimizer.step()
    return loss


def watching(module, optimizer=None, statistics=(), **options):
    """A monitor without alarms."""
    options = {"alarms": "off"} | options
    return binade.torch.monitor(module, optimizer, statistics=statistics, **options)
