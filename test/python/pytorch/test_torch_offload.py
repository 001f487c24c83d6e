"""Updates on the host (``offload=True``) have the bits of those where the parameters are, and
copy each gradient once, during the backward pass.

Here all parameters are on the CPU; a CUDA device differs in pinned memory and streams.
"""

import copy

import binade.torch
import pytest
import torch
from binade.errors import UsageError
from binade.torch.offload import HostCopies
from support.torch_loops import make_batch, make_module

RATE = 0.01


def backward(module, step, scale=1.0):
    x, y = make_batch(step)
    x = x.to(next(module.parameters()).dtype)
    loss = torch.nn.functional.cross_entropy(module(x).float(), y)
    (loss * scale).backward()


@pytest.mark.parametrize("settings, dtype", [
    ({}, torch.float32),
    ({"states": "dyn8:stochastic"}, torch.float32),
    ({"master": "f32", "states": "e4m3x"}, torch.bfloat16),
    ({"percentile_clipping": 10, "options": {"clip": 0.5}}, torch.float32),
])  # fmt: skip
def test_updates_on_the_host(settings, dtype):
    modules = make_module(dtype, width=256), make_module(dtype, width=256)
    optimizers = [
        binade.torch.AdamW(module.parameters(), lr=RATE, offload=offload, **settings)
        for module, offload in zip(modules, (True, False))
    ]
    for step in range(4):
        for module, optimizer in zip(modules, optimizers):
            optimizer.zero_grad()
            backward(module, step)
            if step == 1:
                torch.nn.utils.clip_grad_norm_(module.parameters(), 0.01)
            if step == 2:  # As Module.load_state_dict does.
                with torch.no_grad():
                    module[0].weight.mul_(0.5)
                module[0].bias.grad = None
            optimizer.step()
        for a, b in zip(*(module.parameters() for module in modules)):
            assert torch.equal(a, b)
            for key, state in optimizers[0].state[a].items():
                assert torch.equal(
                    state.view(torch.uint8) if state.dim() else state,
                    optimizers[1].state[b][key].view(torch.uint8)
                    if state.dim() else optimizers[1].state[b][key],
                ), key  # fmt: skip


def test_gradients_are_copied_once_in_the_backward_pass(monkeypatch):
    module = make_module()
    optimizer = binade.torch.AdamW(module.parameters(), lr=RATE, offload=True)
    started = []
    start = HostCopies.start

    def count(self, name, *arguments):
        started.append(name)
        start(self, name, *arguments)

    monkeypatch.setattr(HostCopies, "start", count)
    names = sorted(optimizer._names.values())
    backward(module, 0)
    assert sorted(started) == names
    optimizer.step()
    assert sorted(started) == names
    # Gradients that have changed, and new ones, are copied again.
    started.clear()
    optimizer.zero_grad()
    backward(module, 1)
    module[0].weight.grad.mul_(0.5)
    module[0].bias.grad = torch.zeros_like(module[0].bias)
    optimizer.step()
    assert sorted(started) == sorted([*names, "0.0", "0.1"])


@pytest.mark.parametrize("overflow", [False, True])
def test_gradient_scalers(overflow):
    modules = make_module(), make_module()
    scales = []
    for module, offload in zip(modules, (True, False)):
        optimizer = binade.torch.AdamW(module.parameters(), lr=RATE, offload=offload)
        scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
        for step in range(3):
            optimizer.zero_grad()
            backward(module, step, scale=float(scaler.scale(torch.ones(()))))
            if overflow and step == 1:
                module[0].weight.grad[0, 0] = torch.inf
            scaler.step(optimizer)
            scaler.update()
        scales.append(scaler.get_scale())
    assert scales[0] == scales[1] == (32.0 if overflow else 64.0)
    for a, b in zip(*(module.parameters() for module in modules)):
        assert torch.equal(a, b)


def test_copies_and_checkpoints():
    module, plain = make_module(), make_module()
    optimizer = binade.torch.AdamW(module.parameters(), lr=RATE, offload=True)
    other = binade.torch.AdamW(plain.parameters(), lr=RATE)
    for one, its in ((module, optimizer), (plain, other)):
        backward(one, 0)
        its.step()
    other.load_state_dict(optimizer.state_dict())
    pair = copy.deepcopy((module, optimizer))
    for one, its in ((module, optimizer), (plain, other), pair):
        its.zero_grad()
        backward(one, 1)
        its.step()
    for a, b, c in zip(*(one.parameters() for one in (module, plain, pair[0]))):
        assert torch.equal(a, b)
        assert torch.equal(a, c)


def test_the_hooks_follow_the_parameters():
    module = make_module()
    optimizer = binade.torch.AdamW(module[0].parameters(), lr=RATE, offload=True)
    assert len(optimizer._hooks) == 2
    optimizer.add_param_group({"params": list(module[2].parameters())})
    assert len(optimizer._hooks) == 4
    assert [len(p._post_accumulate_grad_hooks) for p in module.parameters()] == [1] * 4
    with pytest.raises(UsageError, match="offload=True keeps states"):
        binade.torch.AdamW(module.parameters(), is_paged=True)
