"""``binade.torch``: its optimizers in a PyTorch loop match those of PyTorch, and captured
modules train as in PyTorch.
"""

import copy
import inspect
import subprocess

import binade.torch
import pytest
import torch
from binade.errors import RejectedError, UsageError
from support import reference


def make_module():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 3)
    )


def make_batch(step=0):
    generator = torch.Generator().manual_seed(step)
    return (
        torch.randn(32, 8, generator=generator),
        torch.randint(0, 3, (32,), generator=generator),
    )


def split(module):
    biases = [p for p in module.parameters() if p.dim() == 1]
    weights = [p for p in module.parameters() if p.dim() > 1]
    return [{"params": weights}, {"params": biases, "weight_decay": 0.0, "lr": 0.02}]


def train(module, optimizer, steps=5, schedule=None):
    losses = []
    for step in range(steps):
        x, y = make_batch(step)
        loss = torch.nn.functional.cross_entropy(module(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if schedule:
            schedule.step()
        losses.append(loss.item())
    return losses


RULES = {
    "AdamW": {"lr": 0.01, "betas": (0.8, 0.99), "weight_decay": 0.1},
    "Adam": {"lr": 0.01, "weight_decay": 0.01},
    "SGD": {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01, "nesterov": True},
    "Adagrad": {"lr": 0.05},
    "RMSprop": {"centered": True, "lr": 0.01},
    "Adafactor": {"lr": 0.01},
}


@pytest.mark.parametrize("rule", RULES)
def test_optimizers_with_f32_states_match_pytorch(rule):
    settings = RULES[rule]
    ours, theirs = make_module(), make_module()
    mine = getattr(binade.torch, rule)(split(ours), **settings)
    other = getattr(torch.optim, rule)(split(theirs), **settings)
    halve = [torch.optim.lr_scheduler.StepLR(o, 2, 0.5) for o in (mine, other)]
    assert train(ours, mine, schedule=halve[0]) == pytest.approx(
        train(theirs, other, schedule=halve[1]), rel=1e-5
    )
    for a, b in zip(ours.parameters(), theirs.parameters()):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("rule", RULES)
def test_the_default_learning_rate_matches_pytorch(rule):
    mine = getattr(binade.torch, rule)(make_module().parameters())
    expected = inspect.signature(getattr(torch.optim, rule)).parameters["lr"].default
    assert mine.param_groups[0]["lr"] == expected


def test_the_default_learning_rate_needs_no_extra_compilation(monkeypatch):
    compiled = []
    make_update = binade.torch.optimizer.Update

    def count(parameters, device, **options):
        compiled.append(list(parameters))
        return make_update(parameters, device, **options)

    monkeypatch.setattr(binade.torch.optimizer, "Update", count)
    optimizer = binade.torch.Optimizer([torch.zeros(3, requires_grad=True)], "lion")
    assert optimizer.param_groups[0]["lr"] == 1e-4
    assert compiled == [["0.0"]]
    made = binade.torch.Optimizer([torch.zeros(3, requires_grad=True)], "tiger:cv")
    assert (made.defaults["lr"], made.defaults["beta"]) == (1e-3, 0.945)


def test_each_rule_has_a_class():
    text = subprocess.run(
        [reference.BUILD / "bin/binade", "list", "optimizers"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    listed = {line.split()[0] for line in text.splitlines()}
    classes = [getattr(binade.torch, name) for name in binade.torch.__all__]
    rules = {getattr(made, "rule", None) for made in classes} - {None}
    # Variants that classes select: by an argument, or for parameters with one axis. The rules
    # adam_onnx and adamw_hf of other libraries, and adamw, which rounds more often than
    # adamw_fused, have no class.
    forms = {"adamw_amsgrad", "rmsprop_centered", "adafactor_vector"}
    assert rules | forms | {"adam_onnx", "adamw", "adamw_hf"} == listed


def test_8_bit_states_train_and_use_a_quarter_of_the_memory():
    def make():
        torch.manual_seed(0)
        return torch.nn.Sequential(
            torch.nn.Linear(8, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 3)
        )

    module, exact = make(), make()
    optimizer = binade.torch.Optimizer(module.parameters(), states="dyn8", lr=0.001)
    losses = train(module, optimizer, 20)
    expected = train(exact, torch.optim.AdamW(exact.parameters(), lr=0.001), 20)
    assert losses[-1] == pytest.approx(expected[-1], rel=0.05)
    assert losses != expected
    states = optimizer.state_dict()["state"][0]
    taken = sum(tensor.nbytes for name, tensor in states.items() if name != "step")
    # A byte per element of both moments, and an f32 scale per 256 elements.
    assert taken == 2 * 8192 * (1 + 4 / 256)


@pytest.mark.parametrize("states", [(), "dyn8:stochastic", "e4m3"])
def test_a_restored_optimizer_gives_the_same_losses(states):
    module = make_module()
    optimizer = binade.torch.Optimizer(module.parameters(), states=states, lr=0.01)
    train(module, optimizer, 3)
    kept = copy.deepcopy((module.state_dict(), optimizer.state_dict()))
    expected = train(module, optimizer, 3)
    module = make_module()
    module.load_state_dict(kept[0])
    optimizer = binade.torch.Optimizer(module.parameters(), states=states, lr=0.5)
    optimizer.load_state_dict(kept[1])
    assert train(module, optimizer, 3) == expected
    other = binade.torch.Optimizer(make_module().parameters(), "lion")
    with pytest.raises(UsageError, match="another rule"):
        other.load_state_dict(kept[1])


def test_a_step_with_infinite_gradients_changes_nothing():
    module = make_module()
    optimizer = binade.torch.Optimizer(module.parameters(), lr=0.01)
    before = [p.detach().clone() for p in module.parameters()]
    for parameter in module.parameters():
        parameter.grad = torch.full_like(parameter, float("inf"))
    optimizer.step()
    for parameter, value in zip(module.parameters(), before):
        assert torch.equal(parameter, value)


def test_unsupported_parameters_are_rejected():
    module = make_module()
    optimizer = binade.torch.Optimizer(module.parameters())
    module[0].weight.grad = torch.zeros(16, 8).to_sparse()
    with pytest.raises(UsageError, match="gradient of parameter 0.0 is sparse"):
        optimizer.step()
    with pytest.raises(RejectedError, match="has no setting 'momentun'"):
        binade.torch.Optimizer(module.parameters(), "sgd", momentun=0.9)
    with pytest.raises(UsageError, match="no rule has 'maximize'"):
        binade.torch.Optimizer(module.parameters(), maximize=True)
    with pytest.raises(RejectedError, match="unknown optimizer 'adamv'"):
        binade.torch.Optimizer(module.parameters(), "adamv")
    with pytest.raises(RejectedError, match="no variant 'cw'; did you mean 'cv'"):
        binade.torch.Optimizer(module.parameters(), "tiger:cw")
    with pytest.raises(
        UsageError, match="torch.float64; expected one of torch.float32"
    ):
        binade.torch.Optimizer(make_module().double().parameters())
    with pytest.raises(UsageError, match="on meta; expected the CPU or a CUDA device"):
        binade.torch.Optimizer(make_module().to("meta").parameters())


def test_a_captured_module_trains_as_pytorch_does():
    module, theirs = make_module(), make_module()
    x, target = make_batch()
    step = binade.torch.capture(
        module, torch.nn.CrossEntropyLoss(), {"input": x, "target": target},
        optimizer="adamw", settings={"lr": 0.01, "weight_decay": 0.01},
    )  # fmt: skip
    losses = []
    for number in range(5):
        x, target = make_batch(number)
        losses.append(step({"input": x, "target": target}).loss)
    expected = train(theirs, torch.optim.AdamW(theirs.parameters(), lr=0.01))
    assert losses == pytest.approx(expected, rel=1e-5)
    binade.torch.load_parameters(module, step)
    for a, b in zip(module.parameters(), theirs.parameters()):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


def test_the_stable_embedding_is_an_embedding_with_a_norm():
    embedding = binade.torch.StableEmbedding(11, 6, padding_idx=2)
    indices = torch.tensor([[1, 2, 10]])
    expected = torch.nn.functional.layer_norm(embedding.weight[indices], (6,))
    assert torch.equal(embedding(indices), expected)
    assert embedding.weight[2].abs().sum() == 0
    bound = (6 / (11 + 6)) ** 0.5
    assert 0 < embedding.weight.abs().max() <= bound
