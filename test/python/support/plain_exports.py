"""Exports small modules by torch.onnx.export, and trains the files like PyTorch the modules."""

import numpy as np
import torch
from binade import trained
from torch.nn import functional as F

from support.exported_models import train


def export(module, path, **options):
    torch.manual_seed(5)
    model, batch = module(), torch.arange(12).reshape(3, 4) % 11
    torch.onnx.export(model, (batch,), str(path), verbose=False, **options)
    return model, batch


def check_training(model, batch, path, folder, *options, frozen=()):
    """Three steps of SGD; compares with PyTorch."""
    with torch.no_grad():
        labels = torch.arange(12).reshape(3, 4) % model(batch).shape[-1]
    done = train(
        path, {"tokens": batch.numpy()}, labels.numpy(), folder, *options, steps=3
    )
    assert done.returncode == 0, done.stderr
    learned = [v for k, v in model.named_parameters() if k not in frozen]
    optimizer = torch.optim.SGD(learned, lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        F.cross_entropy(model(batch).flatten(0, 1), labels.flatten()).backward()
        optimizer.step()
    state = trained.load_state(folder / "run")
    for key, value in model.state_dict().items():
        np.testing.assert_allclose(state[key], value, rtol=0, atol=1e-6, err_msg=key)
    return done
