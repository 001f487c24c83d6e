"""Exports preserve how PyTorch modifies gradients, or are rejected.

Padding rows of embeddings, ``detach``, ``no_grad`` and frozen parameters train as in PyTorch.
Hooks, custom backward passes and some settings of embeddings are rejected by name.
"""

import json

import numpy as np
import pytest
import torch

onnx = pytest.importorskip("onnx")

import binade.torch
from binade.errors import RejectedError
from binade.export import export_onnx
from torch import nn
from torch.nn import functional as F

TOKENS = {"x": torch.tensor([[1, 2, 3, 2], [2, 2, 6, 0]])}


class Padded(nn.Module):
    """An embedding with a padding row. If tied, the table is also the weight of the output
    layer, which gives the padding row a gradient."""

    def __init__(self, is_tied=False):
        super().__init__()
        self.table = nn.Embedding(7, 4, padding_idx=2)
        self.body, self.head = nn.Linear(4, 4), nn.Linear(4, 7, bias=False)
        if is_tied:
            self.head.weight = self.table.weight

    def forward(self, x):
        return self.head(self.body(self.table(x)).tanh()).square().mean()


class Functional(Padded):
    def forward(self, x):
        rows = F.embedding(x, self.table.weight, padding_idx=-5)
        return self.head(self.body(rows).tanh()).square().mean()


class StraightThrough(Padded):
    """Rounds in the forward pass; the gradient ignores the rounding."""

    def forward(self, x):
        y = self.body(self.table(x))
        y = y + (y.round() - y).detach()
        return self.head(y).square().mean()


class Taught(Padded):
    """The weights under no_grad require gradients but get none."""

    def forward(self, x):
        rows = self.table(x)
        with torch.no_grad():
            target = self.body(rows).sigmoid()
            target = target / target.sum(-1, keepdim=True)
        return (rows - target).square().mean() + self.head(rows).square().mean()


class PartlyTaught(Padded):
    def forward(self, x):
        return self._own(x) + (self._target(x) * self.body(self.table(x))).mean()

    def _own(self, x):
        return self.head(self.table(x)).square().mean()

    @torch.no_grad()
    def _target(self, x):
        return self.body(self.table(x)).tanh()


class Frozen(Padded):
    def __init__(self):
        super().__init__()
        self.body.weight.requires_grad_(False)


class Clamped(Padded):
    """Clamping functions, which the exporter maps to the same op but whose gradients at a
    bound differ."""

    def forward(self, x):
        y = torch.where(self.body(self.table(x)) > 0, 1.0, 0.0) + 0 * self.table(x)
        z = y * self.table(x).sum(-1, keepdim=True).sign().abs()
        out = F.hardtanh(z) + F.relu6(y) + y.clamp(0.0, 6.0) + y.clamp(-1.0, 1.0)
        out = out + torch.maximum(y, torch.ones(())) + y.max(-1, keepdim=True).values
        return (out * torch.arange(1.0, 5.0)).mean() + self.head(y).square().mean()


class Masked(Padded):
    """Attention with a query whose keys are all masked."""

    def forward(self, x):
        rows = self.body(self.table(x))
        sees = torch.tensor(
            [[True, False, True, True], [False] * 4, [True] * 4, [True] * 4]
        )
        y = F.scaled_dot_product_attention(rows, rows, rows, attn_mask=sees)
        return self.head(y + rows).square().mean()


MODULES = {
    "padded": Padded,
    "padded and tied": lambda: Padded(is_tied=True),
    "functional": Functional,
    "straight through": StraightThrough,
    "taught": Taught,
    "partly taught": PartlyTaught,
    "frozen": Frozen,
    "clamped": Clamped,
    "masked": Masked,
}


@pytest.mark.parametrize("name", MODULES)
def test_parameters_move_as_in_pytorch(name):
    modules = []
    for _ in range(2):
        torch.manual_seed(1)
        modules.append(MODULES[name]())
    ours, theirs = modules
    step = binade.torch.capture(
        ours, None, TOKENS, optimizer="sgd", settings={"lr": 0.5}
    )
    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.5)
    for _ in range(4):
        optimizer.zero_grad()
        loss = theirs(**TOKENS)
        loss.backward()
        optimizer.step()
        assert step(TOKENS).loss == pytest.approx(loss.item(), rel=1e-5)
    binade.torch.load_parameters(ours, step)
    for key, value in theirs.state_dict().items():
        np.testing.assert_allclose(ours.state_dict()[key], value, rtol=1e-4, atol=1e-6)


def test_metadata_describes_gradients(tmp_path):
    """Metadata describes gradients that ONNX cannot express, only where they matter."""
    proto = export_onnx(Taught(), TOKENS, tmp_path / "m.onnx")
    written = {
        (node.op_type, entry.key, entry.value)
        for node in proto.graph.node
        for entry in node.metadata_props
    }
    assert ("Gather", "binade.padding_idx", "2") in written
    # Only a result of the no_grad part that is used outside of it is marked.
    assert [one for one in written if one[0] == "Identity"]
    metadata = {p.key: json.loads(p.value) for p in proto.metadata_props}
    assert metadata["binade.trainable"] == ["table.weight", "head.weight"]
    assert metadata["binade.frozen"] == ["body.weight", "body.bias"]


class Lookup(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.table = nn.Embedding(7, 4, **options)

    def forward(self, x):
        return self.table(x).mean()


class FunctionalLookup(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.weight, self.options = nn.Parameter(torch.ones(7, 4)), options

    def forward(self, x):
        return F.embedding(x, self.weight, **self.options).mean()


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.EmbeddingBag(7, 4, padding_idx=1)

    def forward(self, x):
        return self.table(x).mean()


def hooked(add):
    module = Lookup()
    add(module)
    return module


class HooksValue(Lookup):
    def forward(self, x):
        y = self.table(x)
        y.register_hook(lambda gradient: 0 * gradient)
        return y.mean()


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return -gradient


class Reversed(Lookup):
    def forward(self, x):
        return Reverse.apply(self.table(x)).mean()


REFUSED = {
    "max_norm": (lambda: Lookup(max_norm=1.0), "Embedding 'table' with max_norm"),
    "frequency": (lambda: Lookup(scale_grad_by_freq=True),
                  "Embedding 'table' has scale_grad_by_freq"),
    "sparse": (lambda: Lookup(sparse=True), "Embedding 'table' has sparse gradients"),
    "functional max_norm": (lambda: FunctionalLookup(max_norm=1.0),
                            "embedding with max_norm"),
    "functional frequency": (lambda: FunctionalLookup(scale_grad_by_freq=True),
                             "embedding of 'weight' has scale_grad_by_freq"),
    "functional sparse": (lambda: FunctionalLookup(sparse=True),
                          "embedding of 'weight' has sparse gradients"),
    "bag": (Bag, "EmbeddingBag 'table' has padding_idx"),
    "hook of a parameter": (
        lambda: hooked(lambda m: m.table.weight.register_hook(lambda g: g)),
        "parameter 'table.weight' has a hook"),
    "hook after accumulation": (
        lambda: hooked(lambda m: m.table.weight.register_post_accumulate_grad_hook(
            lambda p: None)),
        "parameter 'table.weight' has a hook"),
    "hook of a module": (
        lambda: hooked(lambda m: m.table.register_full_backward_hook(lambda *a: None)),
        "module 'table' has a backward hook"),
    "hook before a module": (
        lambda: hooked(lambda m: m.table.register_full_backward_pre_hook(
            lambda *a: None)),
        "module 'table' has a backward hook"),
    "hook of a value": (HooksValue, "the model calls register_hook"),
    "backward part": (Reversed, "autograd.Function '.*Reverse' has a backward pass of its own"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_gradients_that_no_graph_can_express_are_rejected(name, tmp_path):
    make, words = REFUSED[name]
    with pytest.raises(RejectedError, match=words):
        export_onnx(make(), TOKENS, tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())
