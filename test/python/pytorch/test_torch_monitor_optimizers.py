"""Updates of a PyTorch loop that `binade.torch.monitor` records: several optimizers, and steps
that fail."""

import json

import binade.torch
import pytest
import torch
from support.loop_values import check, loss_of, take_step, watching
from support.torch_loops import make_batch, make_module


def make(dtype=torch.float32, lr=0.1):
    module = make_module(dtype)
    return module, torch.optim.SGD(module.parameters(), lr=lr)


def make_halves(module):
    """An optimizer for each linear layer."""
    return [torch.optim.SGD(module[i].parameters(), lr=0.5) for i in (0, 2)]


def test_an_optimizer_updates_its_own_parameters():
    module = make_module(torch.bfloat16)
    optimizers = make_halves(module)
    watches = [
        binade.torch.monitor(module, one, statistics="weight,narrow_weight:lost,norm")
        for one in optimizers
    ]
    for step in range(1, 41):
        x, y = make_batch(step, torch.bfloat16)
        loss_of(module(x), y).backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    for watch, own, other in zip(watches, ("0", "2"), ("2", "0")):
        assert not watch.alarms and watch.steps == 40
        for kind in ("weight", "narrow_weight"):
            assert watch.statistics[f"{kind}/{own}.weight/lost"] < 0.9
            assert f"{kind}/{other}.weight/lost" not in watch.statistics
        assert f"weight/{other}.weight/norm" in watch.statistics
        assert f"narrow_weight/{other}.weight/norm" not in watch.statistics


def test_a_closure_that_raises_leaves_no_values():
    module, optimizer = make()
    watch = watching(module, optimizer, "weight:norm,update_ratio")

    def fail():
        raise RuntimeError("in the closure")

    with pytest.raises(RuntimeError, match="in the closure"):
        optimizer.step(fail)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(100)
    before = module[0].weight.detach().clone()
    take_step(module, optimizer, *make_batch(0))
    assert watch.steps == 1
    check(watch.statistics, "weight", "0.weight", before, ("norm",))
    ratio = ((module[0].weight - before).norm() / before.norm()).item()
    found = watch.statistics["weight/0.weight/update_ratio"]
    assert found == pytest.approx(ratio, rel=1e-4)


class _Full:
    """A recorder whose disk is full in one step."""

    def __init__(self, recorder):
        self.recorder = recorder
        self.isFull = True

    def __getattr__(self, name):
        return getattr(self.recorder, name)

    def finish(self, *arguments):
        if self.isFull:
            self.isFull = False
            raise OSError("no space left")
        return self.recorder.finish(*arguments)


def test_a_step_after_one_that_was_not_written():
    module, optimizer = make()
    watch = watching(module, optimizer, "weight:norm,update_ratio")
    watch._recorder = _Full(watch._recorder)
    with pytest.raises(OSError, match="no space left"):
        take_step(module, optimizer, *make_batch(0), watch)
    before = module[0].weight.detach().clone()
    take_step(module, optimizer, *make_batch(1), watch)
    assert watch.steps == 2
    check(watch.statistics, "weight", "0.weight", before, ("norm",))
    ratio = ((module[0].weight - before).norm() / before.norm()).item()
    found = watch.statistics["weight/0.weight/update_ratio"]
    assert found == pytest.approx(ratio, rel=1e-4)


def test_a_step_that_calls_that_of_its_base_class():
    class Twice(torch.optim.SGD):
        def step(self, closure=None):
            return super().step(closure)

    module, _ = make()  # PyTorch replaces `step` of classes that have an instance.
    optimizer = Twice(module.parameters(), lr=0.1)
    watch = watching(module, optimizer, "weight:update_ratio")
    before = module[0].weight.detach().clone()
    take_step(module, optimizer, *make_batch(0))
    assert watch.steps == 1
    ratio = ((module[0].weight - before).norm() / before.norm()).item()
    found = watch.statistics["weight/0.weight/update_ratio"]
    assert found == pytest.approx(ratio, rel=1e-4)


def test_the_norm_of_all_gradients_with_an_empty_parameter(tmp_path):
    module = make_module()
    module.empty = torch.nn.Parameter(torch.zeros(0))
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    watch = watching(module, optimizer, "gradient:norm", out=tmp_path)
    x, y = make_batch(0)
    output = module[2](module[1](module[0](x)))
    (loss_of(output, y) + module.empty.sum()).backward()
    optimizer.step()
    watch.close()
    norm = sum(one.grad.norm() ** 2 for one in module.parameters()) ** 0.5
    (line,) = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert json.loads(line)["grad_norm"] == pytest.approx(norm.item(), rel=1e-6)
