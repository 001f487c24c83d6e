"""Statistics of the values of a PyTorch loop are those that numpy and PyTorch compute."""

import copy

import binade.torch
import pytest
import torch
from support.loop_values import (
    ALL,
    check,
    describe_in,
    loss_of,
    take_step,
    watching,
)
from support.torch_loops import make_batch, make_module

DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def make(dtype=torch.float32, **options):
    module = make_module(dtype)
    return module, torch.optim.SGD(module.parameters(), lr=0.5, **options)


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_of_a_step(dtype):
    module, optimizer = make(dtype)
    with torch.no_grad():
        module[0].weight[0, :3] = torch.tensor([0.0, -0.0, 2.0**-20]).to(dtype)
    kinds = "weight,gradient,output,input,output_gradient"
    watch = watching(module, optimizer, f"{kinds}:{ALL}")
    before = copy.deepcopy(module)
    x, y = make_batch(0, dtype)
    hidden = before[1](before[0](x))
    first = before[0](x)
    output = before[2](hidden)
    for tensor in (hidden, output):
        tensor.retain_grad()
    loss_of(output, y).backward()
    take_step(module, optimizer, x, y)
    found = watch.statistics
    for name, parameter in before.named_parameters():
        check(found, "weight", name, parameter)
        check(found, "gradient", name, parameter.grad)
    check(found, "input", "0", x)
    check(found, "input", "2", hidden)
    check(found, "output", "0", first)
    check(found, "output", "1", hidden)
    check(found, "output", "model", output)
    check(found, "output_gradient", "1", hidden.grad)
    check(found, "output_gradient", "2", output.grad)


@pytest.mark.parametrize("narrow, name", [
    (torch.float16, "f16"), (torch.bfloat16, "bf16"), (torch.float8_e5m2, "f8E5M2"),
])  # fmt: skip
def test_statistics_with_a_format(narrow, name):
    module, optimizer = make()
    with torch.no_grad():
        module[0].weight.mul_(2.0 ** torch.arange(-40, 88).reshape(16, 8))
    expected = describe_in(module[0].weight, narrow)
    wanted = ",".join(f"{one}({name})" for one in expected)
    watch = watching(module, optimizer, f"weight/0.weight:{wanted}")
    optimizer.step()
    for one, value in expected.items():
        found = watch.statistics[f"weight/0.weight/{one}({name})"]
        assert found == pytest.approx(value, rel=1e-6), one
    assert expected["underflow"] > 0 or narrow == torch.bfloat16


def test_a_statistic_without_a_format_has_that_of_the_value():
    module, optimizer = make(torch.float16)
    with torch.no_grad():
        module[2].bias[:] = torch.tensor([65504.0, -65504.0, 1.0])
    watch = watching(module, optimizer, "weight/2.bias:saturated")
    optimizer.step()
    assert watch.statistics == {"weight/2.bias/saturated": pytest.approx(2 / 3)}


@pytest.mark.parametrize("dtype", DTYPES[:2])
def test_updates(dtype):
    module, optimizer = make(dtype, weight_decay=0.0)
    optimizer.param_groups[0]["lr"] = 1e-3
    watch = watching(module, optimizer, "weight:lost,update_ratio,norm")
    before = {name: one.detach().clone() for name, one in module.named_parameters()}
    take_step(module, optimizer, *make_batch(0, dtype))
    for name, parameter in module.named_parameters():
        old, new = before[name].double(), parameter.detach().double()
        ratio = ((new - old).norm() / old.norm()).item()
        meant = parameter.grad != 0
        lost = ((old == new) & meant).sum() / meant.sum()
        found = watch.statistics
        assert found[f"weight/{name}/update_ratio"] == pytest.approx(ratio, rel=1e-6)
        assert found[f"weight/{name}/lost"] == pytest.approx(lost.item(), rel=1e-6)
        assert found[f"weight/{name}/norm"] == pytest.approx(
            old.norm().item(), rel=1e-6
        )
    if dtype == torch.bfloat16:
        assert watch.statistics["weight/0.weight/lost"] > 0.5


def test_values_that_are_not_contiguous():
    module = torch.nn.Linear(8, 3)
    module.weight = torch.nn.Parameter(torch.randn(8, 3).t())
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    watch = watching(module, optimizer, "weight,gradient,input:norm,exponents")
    before = module.weight.detach().clone()
    x = torch.randn(8, 32).t()
    module(x).square().sum().backward()
    optimizer.step()
    check(watch.statistics, "weight", "weight", before, ("norm", "exponents"))
    check(watch.statistics, "gradient", "weight", module.weight.grad, ("norm",))
    check(watch.statistics, "input", "model", x, ("norm", "exponents"))


def test_the_loss_is_given_or_what_the_model_returns():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = make_module()

        def forward(self, x, y):
            return {"logits": self.body(x), "loss": loss_of(self.body(x), y)}

    module = Model()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    watch = watching(module, optimizer, "loss:mean")
    loss = module(*make_batch(0))["loss"]
    loss.backward()
    optimizer.step()
    assert watch.statistics == {"loss/loss/mean": pytest.approx(loss.item())}
    module(*make_batch(1))
    given = torch.tensor(3.0, requires_grad=True)
    assert watch.loss(given) is given
    optimizer.step()
    assert watch.statistics == {"loss/loss/mean": 3.0}


def test_training_is_the_same():
    def train(isWatched):
        module = make_module()
        optimizer = binade.torch.AdamW(module.parameters(), lr=1e-2, states="dyn8")
        if isWatched:
            watching(module, optimizer, "*:norm,zeros", alarms="all")
        for step in range(4):
            take_step(module, optimizer, *make_batch(step))
        return module.state_dict()

    plain, watched = train(False), train(True)
    assert all(torch.equal(plain[name], watched[name]) for name in plain)


def test_values_of_many_sizes():
    """Texts of any length compile no program each: parts are combined."""
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(8, 8, bias=False), torch.nn.ReLU())
    optimizer = torch.optim.SGD(module.parameters(), lr=0.0)
    requests = f"output/model,output_gradient/model:{ALL},underflow(f16),saturated(f16)"
    watch = watching(module, optimizer, requests)
    counts = []
    for length in range(1, 60):
        output = module(torch.randn(length, 8) * 10.0 ** (length % 14 - 8))
        output.retain_grad()
        output.square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        counts.append(len(watch._programs._known))
        for kind, value in (("output", output), ("output_gradient", output.grad)):
            check(watch.statistics, kind, "model", value)
            for name, share in describe_in(value, torch.float16).items():
                if name == "overflow":
                    continue
                found = watch.statistics[f"{kind}/model/{name}(f16)"]
                assert found == pytest.approx(share, rel=1e-6), (length, name)
    assert counts[15] == 16 and counts[-1] < 27


def test_a_value_at_any_address():
    module, optimizer = make()
    watch = watching(module, optimizer, f"input:{ALL}", threads=2)
    x = torch.randn(32 * 8 + 1)[1:].view(32, 8)  # At no multiple of a vector's size.
    module(x)
    optimizer.step()
    check(watch.statistics, "input", "0", x)
