"""Statistics of a PyTorch loop with a gradient scaler, and of skipped steps."""

import copy
import json
import pickle

import binade.torch
import pytest
import torch
from binade.errors import UsageError
from support.loop_values import check, loss_of, take_step, watching
from support.torch_loops import make_batch, make_module

SCALE = 1024.0
OPTIMIZERS = {
    "foreach": lambda p: torch.optim.AdamW(p, lr=1e-3),
    "fused": lambda p: torch.optim.AdamW(p, lr=1e-3, fused=True),
    "binade": lambda p: binade.torch.AdamW(p, lr=1e-3),
}


def make(name, **options):
    module = make_module()
    optimizer = OPTIMIZERS[name](module.parameters())
    return module, optimizer, torch.amp.GradScaler("cpu", init_scale=SCALE, **options)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("isUnscaled", [False, True])
def test_gradients_with_and_without_the_scale(name, isUnscaled):
    module, optimizer, scaler = make(name)
    requests = (
        "gradient,scaled_gradient,output_gradient,scaled_output_gradient,scale:norm"
    )
    watch = watching(module, optimizer, requests, scaler=scaler)
    x, y = make_batch(0)
    plain = make_module()
    output = plain(x)
    output.retain_grad()
    loss_of(output, y).backward()
    scaler.scale(loss_of(module(x), y)).backward()
    if isUnscaled:
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(module.parameters(), 1e-3)
    scaler.step(optimizer)
    scaler.update()
    found = watch.statistics
    assert watch.steps == 1 and found["scale/scale/norm"] == SCALE
    for key, one in plain.named_parameters():
        check(found, "gradient", key, one.grad, ("norm",))
        check(found, "scaled_gradient", key, SCALE * one.grad, ("norm",))
    check(found, "output_gradient", "2", output.grad, ("norm",))
    check(found, "scaled_output_gradient", "2", SCALE * output.grad, ("norm",))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_skipped_steps(tmp_path, name):
    module, optimizer, scaler = make(name, growth_interval=2)
    requests = ["weight:update_ratio,norm", "gradient:nonfinite", "scale:max"]
    watch = watching(module, optimizer, requests, scaler=scaler, out=tmp_path / "run")
    scales = []
    for step in range(4):
        x, y = make_batch(step)
        scales.append(scaler.get_scale())
        norm = module[0].weight.norm().item()
        take_step(
            module, optimizer, x * (torch.inf if step == 1 else 1), y, watch, scaler
        )
        found = watch.statistics
        ratio = found["weight/0.weight/update_ratio"]
        assert (ratio != ratio) == (step == 1)
        assert found["weight/0.weight/norm"] == pytest.approx(norm, rel=1e-6)
        assert (found["gradient/0.weight/nonfinite"] > 0) == (step == 1)
        assert found["scale/scale/max"] == scales[-1]
    watch.close()
    assert scales == [SCALE, SCALE, SCALE / 2, SCALE / 2]
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").open()]
    assert [line["skipped"] for line in lines] == [False, True, False, False]
    assert [line["loss_scale"] for line in lines] == scales
    assert [line["loss"] is None for line in lines] == [False, True, False, False]


def test_an_optimizer_that_skips_without_a_scaler():
    module = make_module()
    optimizer = binade.torch.AdamW(module.parameters(), lr=1e-3)
    watch = watching(module, optimizer, "weight:update_ratio")
    x, y = make_batch(0)
    take_step(module, optimizer, x * torch.inf, y)
    ratio = watch.statistics["weight/0.weight/update_ratio"]
    assert optimizer.skipped and ratio != ratio


def test_a_scaler_that_the_monitor_does_not_know():
    module, optimizer, scaler = make("foreach")
    watch = watching(module, optimizer, "gradient:norm")
    with pytest.raises(UsageError, match="pass it: binade.torch.monitor"):
        take_step(module, optimizer, *make_batch(0), scaler=scaler)
    watch.close()
    watch = watching(module, optimizer, "gradient:norm", every=10)
    with pytest.raises(UsageError, match="pass it"):  # In the first step already.
        take_step(module, optimizer, *make_batch(0), scaler=scaler)
    watch.close()
    off = torch.amp.GradScaler("cpu", enabled=False)
    for given in (None, off):
        watch = watching(module, optimizer, "gradient:norm", scaler=given)
        take_step(module, optimizer, *make_batch(0), scaler=off)
        check(watch.statistics, "gradient", "2.bias", module[2].bias.grad, ("norm",))
        watch.close()


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_two_monitors_of_a_loop(order):
    """Each counts skipped steps until it is closed, in any order."""
    module, optimizer, scaler = make("foreach")
    kinds = ("gradient", "weight")
    watches = [
        watching(module, optimizer, f"{kind}:norm", scaler=scaler) for kind in kinds
    ]
    x, y = make_batch(0)
    expected = [0, 0]
    for closed in (None, *order):
        if closed is not None:
            watches[closed].close()
        for factor in (torch.inf, 1):
            take_step(module, optimizer, x * factor, y, scaler=scaler)
            for i, watch in enumerate(watches):
                expected[i] += watch._isOpen
            assert [one.steps for one in watches] == expected
    assert "step" not in vars(scaler)


@pytest.mark.parametrize("isBefore", [True, False])
def test_a_method_that_someone_else_sets(isBefore):
    module, optimizer, scaler = make("foreach")
    calls = []

    def replace():
        original = scaler.step

        def step(*arguments, **named):
            calls.append(len(calls))
            return original(*arguments, **named)

        scaler.step = step
        return step

    own = replace() if isBefore else None
    watch = watching(module, optimizer, "gradient:norm", scaler=scaler)
    own = own or replace()
    x, y = make_batch(0)
    take_step(module, optimizer, x * torch.inf, y, scaler=scaler)
    assert watch.steps == 1 and len(calls) == 1
    watch.close()
    assert vars(scaler)["step"] is own
    take_step(module, optimizer, x * torch.inf, y, scaler=scaler)
    assert watch.steps == 1 and len(calls) == 2


def test_copies_of_a_scaler():
    module, optimizer, scaler = make("foreach")
    watch = watching(module, optimizer, "gradient:norm", scaler=scaler)
    x, y = make_batch(0)
    for other in (copy.deepcopy(scaler), pickle.loads(pickle.dumps(scaler))):
        before = other.get_scale()
        plain = make_module()
        update = torch.optim.SGD(plain.parameters(), lr=0.1)
        take_step(plain, update, x * torch.inf, y, scaler=other)
        assert other.get_scale() == before / 2
        assert scaler.get_scale() == before and watch.steps == 0


def test_closing_restores_the_scaler():
    module, optimizer, scaler = make("foreach")
    watch = watching(module, optimizer, "gradient:norm", scaler=scaler)
    assert "step" in vars(scaler)
    watch.close()
    assert "step" not in vars(scaler)
    take_step(module, optimizer, *make_batch(0), scaler=scaler)
    assert watch.steps == 0
