"""Modules compiled by binade.torch.capture train as in PyTorch, and modules that it cannot
compile are rejected."""

import binade
import binade.torch
import pytest
import torch
from binade.errors import RejectedError, UsageError
from support.torch_training import train
from torch import nn

CRITERION = nn.CrossEntropyLoss()
TOKENS, WIDTH = 30, 16


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        # No bias: before a norm its gradient is 0 or noise, which AdamW amplifies.
        self.first = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.norm, self.second = nn.BatchNorm2d(8), nn.Conv2d(8, 8, 3, stride=2)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = nn.functional.max_pool2d(self.norm(self.first(x)).relu(), 2)
        return self.head(self.second(x).relu().mean((2, 3)))


class Text(nn.Module):
    """An embedding, a body that preserves the shape, and a layer for logits of tokens."""

    def __init__(self, body):
        super().__init__()
        self.table, self.body = nn.Embedding(TOKENS, WIDTH), body
        self.head = nn.Linear(WIDTH, TOKENS)

    def forward(self, x):
        x = self.body(self.table(x))
        return self.head(x[0] if isinstance(x, tuple) else x).transpose(1, 2)


class Attention(nn.MultiheadAttention):
    def forward(self, x):
        return super().forward(x, x, x, need_weights=False)[0]


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(TOKENS, WIDTH)
        self.head = nn.Linear(WIDTH, TOKENS, bias=False)
        self.head.weight = self.table.weight

    def forward(self, x):
        return self.head(self.table(x).tanh()).transpose(1, 2)


def encoder():
    layer = nn.TransformerEncoderLayer(WIDTH, 2, 32, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


MODULES = {
    "images": Images,
    "attention": lambda: Text(Attention(WIDTH, 2, batch_first=True)),
    "lstm": lambda: Text(nn.LSTM(WIDTH, WIDTH, num_layers=2, batch_first=True)),
    "gru": lambda: Text(nn.GRU(WIDTH, WIDTH, batch_first=True)),
    "encoder": lambda: Text(encoder()),
    "tied": Tied,
}
# The relative difference of the losses under a policy from those of PyTorch in f32.
POLICIES = {"fp32": 2e-5, "bf16-amp": 2e-2, "fp16-amp": 2e-2}


def make(name):
    torch.manual_seed(3)
    return MODULES[name]()


def make_batch(name):
    draw = torch.Generator().manual_seed(5)
    if name == "images":
        x = torch.randn(4, 3, 12, 12, generator=draw)
        return {"x": x, "target": torch.randint(0, 5, (4,), generator=draw)}
    x, target = torch.randint(0, TOKENS, (2, 3, 7), generator=draw)
    return {"x": x, "target": target}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", MODULES)
def test_modules_train_as_in_pytorch(name, policy):
    module, theirs, batch = make(name), make(name), make_batch(name)
    step = binade.torch.capture(
        module, CRITERION, batch, policy=policy, settings={"lr": 0.01}
    )
    losses = [step(batch).loss for _ in range(10)]
    expected = train(
        theirs, lambda model: CRITERION(model(batch["x"]), batch["target"]), 10, 0.01
    )
    assert losses == pytest.approx(expected, rel=POLICIES[policy])
    assert expected[-1] < 0.95 * expected[0]
    binade.torch.load_parameters(module, step)
    module.eval(), theirs.eval()
    ours = CRITERION(module(batch["x"]), batch["target"]).item()
    other = CRITERION(theirs(batch["x"]), batch["target"]).item()
    assert ours == pytest.approx(other, rel=10 * POLICIES[policy])


def linear(**options):
    return nn.Sequential(nn.Linear(4, 3, **options))


LINEAR = {"input": torch.ones(2, 4), "target": torch.tensor([0, 2])}


def test_wrappers_of_modules_are_removed():
    plain, compiled = linear(), linear()
    compiled.load_state_dict(plain.state_dict())
    wrapped = nn.DataParallel(torch.compile(compiled))
    first = binade.torch.capture(plain, CRITERION, LINEAR)
    second = binade.torch.capture(wrapped, CRITERION, LINEAR)
    assert list(second.parameters) == ["0.weight", "0.bias"]
    assert first(LINEAR).loss == second(LINEAR).loss
    binade.torch.load_parameters(wrapped, second)
    binade.torch.load_parameters(plain, first)
    assert torch.equal(plain[0].weight, compiled[0].weight)
    assert plain[0].weight.grad is None


def test_frozen_parameters_do_not_change():
    module = linear()
    module[0].weight.requires_grad_(False)
    before = module[0].weight.clone()
    step = binade.torch.capture(module, CRITERION, LINEAR)
    step(LINEAR)
    binade.torch.load_parameters(module, step)
    assert list(step.parameters) == ["0.bias"]
    assert torch.equal(module[0].weight, before)


@pytest.mark.parametrize("module, loss, batch, words", [
    (linear(dtype=torch.float64), CRITERION, {"input": torch.ones(2, 4).double()},
     "parameter '0.weight' is 'f64', and updates are computed in f32"),
    (linear(), CRITERION, {"x": torch.ones(2, 4)},
     "forward takes 'input', which the batch lacks; its entries are target, x"),
    (linear(), CRITERION, {"other": torch.ones(2, 4)},
     "the batch has 'other', which the model's forward.. does not take, and neither does the loss"),
    (linear(), lambda y, labels: y.sum(), {}, "the loss takes 'labels', which the batch"),
    (linear(), None, {}, "has 'target', which the model's forward.. does not take; if the loss takes it"),
    (linear(), nn.CrossEntropyLoss(reduction="none"), {}, "reduce it, for example with"),
    (linear().requires_grad_(False), CRITERION, {}, "has no parameter to train"),
    (3, CRITERION, {}, "the model must be a torch.nn.Module, got int"),
])  # fmt: skip
def test_modules_that_cannot_be_captured_are_rejected(module, loss, batch, words):
    batch = LINEAR | batch
    if "x" in batch:
        del batch["input"]
    with pytest.raises(RejectedError, match=words):
        binade.torch.capture(module, loss, batch)


@pytest.mark.parametrize("value, words", [
    (torch.ones(2, 4, device="meta"), "batch 'input': no memory to read"),
    (torch.ones(2, 4).to_sparse(), "batch 'input': cannot be read as a dense array"),
    (torch.ones(2, 4, dtype=torch.complex64), "has type float32, got complex64"),
    ([["a"] * 4] * 2, "batch 'input': expected numbers, got list of <U1"),
    ([[1.0, 2.0], [3.0]], "batch 'input': no array of numbers"),
    (None, "batch 'input': expected numbers, got NoneType"),
    (torch.ones(2, 5), r"batch 'input' has shape \[2, 4\], got \[2, 5\]"),
])  # fmt: skip
def test_invalid_batches_are_rejected(value, words):
    step = binade.torch.capture(linear(), CRITERION, LINEAR)
    with pytest.raises(UsageError, match=words):
        step(LINEAR | {"input": value})
    assert step.updates == 0


def test_batches_of_other_types_are_converted():
    """Other types, other strides and tensors with a gradient graph give the same loss."""
    x = torch.arange(8.0).reshape(2, 4)
    step = binade.torch.capture(linear(), CRITERION, LINEAR, settings={"lr": 0.0})
    expected = step(LINEAR | {"input": x}).loss
    for other in (
        x.double(), x.bfloat16(), x.long(), x.T.contiguous().T, x.numpy(), x.tolist(),
        x.clone().requires_grad_(),
    ):  # fmt: skip
        assert step(LINEAR | {"input": other}).loss == expected
    for target in LINEAR["target"].to(torch.uint8), [0, 2], LINEAR["target"].int():
        assert step({"input": x, "target": target}).loss == expected
