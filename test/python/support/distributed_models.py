"""Models of which tests train one step on several processes."""

import dataclasses
import pathlib
import sys

import numpy as np
import torch
from support.paths import ROOT

from binade.export import export_onnx

BATCHES = 12  # Of a step of all ranks together: the micro-batches.


def import_char_gpt():
    """Returns the module of examples/char-gpt; other examples have modules of these names."""
    folder = str(ROOT / "examples" / "char-gpt")
    sys.path.insert(0, folder)
    for name in ("model", "prepare"):
        if name in sys.modules and folder not in (sys.modules[name].__file__ or ""):
            del sys.modules[name]
    import model

    return model


def make_char_gpt(**sizes):
    """Returns the small char-GPT with one short sample per batch, its loss and a batch."""
    model = import_char_gpt()
    config = dataclasses.replace(
        model.MINI, **{"batch": 1, "context": 32, "layers": 2, **sizes}
    )
    torch.manual_seed(0)
    module = model.CharGPT(config).train()
    ids = torch.zeros(config.batch, config.context, dtype=torch.int64)
    return module, model.cross_entropy, {"input_ids": ids, "labels": ids.clone()}


def export_char_gpt(folder, **sizes):
    """Exports what ``make_char_gpt`` returns; returns the path and the module."""
    module, loss, batch = make_char_gpt(**sizes)
    path = pathlib.Path(folder) / "gpt.onnx"
    export_onnx(module, batch, path, loss=loss)
    return path, module


def export_mlp(folder, batch=8, width=40, layers=1):
    """Exports a model whose input may be infinite."""
    torch.manual_seed(0)
    inner = [torch.nn.Linear(width, width) for _ in range(layers - 1)]
    module = torch.nn.Sequential(
        torch.nn.Linear(16, width), *inner, torch.nn.GELU(), torch.nn.Linear(width, 5)
    )
    path = pathlib.Path(folder) / "mlp.onnx"
    example = {
        "x": torch.zeros(batch, 16),
        "labels": torch.zeros(batch, dtype=torch.int64),
    }
    export_onnx(Named(module), example, path, loss=get_loss)
    return path


class Named(torch.nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = layers

    def forward(self, x):
        return self.layers(x)


def get_loss(prediction, labels):
    return torch.nn.functional.cross_entropy(prediction, labels)


def make_batch(inputs, number, seed=0):
    """Returns batch `number` of a run, for inputs with these shapes and types."""
    random = np.random.default_rng((seed, number))
    return {
        name: random.standard_normal(like.shape, np.float32)
        if like.dtype == np.float32
        else random.integers(0, 5, like.shape)
        for name, like in inputs.items()
    }
