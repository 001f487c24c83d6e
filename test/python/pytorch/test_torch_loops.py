"""``binade.torch``'s optimizers replace PyTorch's in the loops that people use:
``torch.amp.GradScaler``, distributed checkpoints, compiled models.

The same loop with PyTorch's AdamW gives the expected values.
"""

import pytest
import torch
from support.torch_loops import (
    OURS,
    RATE,
    THEIRS,
    make_batch,
    make_module,
    train,
)


def train_scaled(module, optimizer, *, clips=False, overflows=()):
    """The loop with a gradient scaler. Returns losses and scales."""
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=2)
    seen = []
    for step in range(6):
        x, y = make_batch(step)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(module(x), y)
        scaler.scale(loss).backward()
        if step in overflows:
            module[0].weight.grad[0, 0] = float("inf")
        if clips:
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(module.parameters(), 0.1)
        scaler.step(optimizer)
        scaler.update()
        seen.append((loss.item(), scaler.get_scale()))
    return seen


@pytest.mark.parametrize("overflows", [(), (2,), (0, 1, 4)])
@pytest.mark.parametrize("clips", [False, True])
def test_gradient_scalers(clips, overflows):
    ours, theirs = make_module(), make_module()
    mine = OURS(ours.parameters(), lr=RATE)
    other = THEIRS(theirs.parameters(), lr=RATE, fused=True)
    found = train_scaled(ours, mine, clips=clips, overflows=overflows)
    expected = train_scaled(theirs, other, clips=clips, overflows=overflows)
    assert [scale for _, scale in found] == [scale for _, scale in expected]
    assert [loss for loss, _ in found] == pytest.approx(
        [loss for loss, _ in expected], rel=1e-5
    )
    assert int(mine.state[ours[0].weight]["step"]) == 6 - len(overflows)
    for a, b in zip(ours.parameters(), theirs.parameters()):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_states_are_kept_when_a_scaler_begins(dtype):
    """The update is compiled again then."""
    plain, scaled = make_module(dtype, width=1024), make_module(dtype, width=1024)
    given = {"lr": RATE, "states": "dyn8:stochastic", "master": "none"}
    one, other = (OURS(module.parameters(), **given) for module in (plain, scaled))
    for step in range(4):
        for module, optimizer in ((plain, one), (scaled, other)):
            generator = torch.Generator().manual_seed(step)
            for p in module.parameters():
                p.grad = torch.randn(p.shape, generator=generator).to(dtype)
        if step >= 2:
            other.grad_scale, other.found_inf = torch.tensor(4.0), torch.tensor(0.0)
            for p in scaled.parameters():
                p.grad *= 4
        one.step()
        other.step()
    for a, b in zip(plain.parameters(), scaled.parameters()):
        assert torch.equal(a, b)
        for name, state in one.state[a].items():
            assert torch.equal(state, other.state[b][name]), name


@pytest.mark.parametrize("on_nonfinite", ["skip", "continue"])
def test_the_scaler_decides_about_steps(on_nonfinite):
    """It may have found an overflow that the gradients do not show, on another rank."""
    module = make_module()
    options = {"on_nonfinite": on_nonfinite}
    optimizer = OURS(module.parameters(), lr=RATE, options=options)
    for parameter in module.parameters():
        parameter.grad = torch.ones_like(parameter)

    def list_tensors():
        return [*module.parameters(), *optimizer.state[module[0].weight].values()]

    before = [tensor.clone() for tensor in list_tensors()]
    optimizer.grad_scale, optimizer.found_inf = torch.tensor(2.0), torch.tensor(1.0)
    optimizer.step()
    assert optimizer.skipped
    for tensor, value in zip(list_tensors(), before, strict=True):
        assert torch.equal(tensor, value)
    optimizer.found_inf = torch.tensor([0.0])
    optimizer.step()
    assert not optimizer.skipped
    assert optimizer.state[module[0].weight]["exp_avg"].unique().item() == (
        pytest.approx(0.05)
    )


@pytest.mark.parametrize("states", [(), "dyn8:stochastic", "e4m3"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_distributed_checkpoints(states, dtype, tmp_path):
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    def make(rate):
        module = make_module(dtype, width=1024)
        given = {"states": states, "master": "f32"}
        optimizer = OURS(module.parameters(), lr=rate, **given)
        isWide = optimizer.state[module[0].weight]["exp_avg"].dtype == torch.float32
        assert isWide == (not states)
        return module, optimizer

    module, optimizer = make(RATE)
    train(module, optimizer)
    model, optim = get_state_dict(module, optimizer)
    assert set(optim["state"]) == {"0.weight", "0.bias", "2.weight", "2.bias"}
    dcp.save({"model": model, "optim": optim}, checkpoint_id=tmp_path, no_dist=True)
    again, other = make(1.0)
    model, optim = get_state_dict(again, other)
    dcp.load({"model": model, "optim": optim}, checkpoint_id=tmp_path, no_dist=True)
    set_state_dict(again, other, model_state_dict=model, optim_state_dict=optim)
    assert other.param_groups[0]["lr"] == RATE
    assert train(again, other) == train(module, optimizer)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_compiled_models(dtype):
    pytest.importorskip("torch._inductor")
    plain, compiled = make_module(dtype), make_module(dtype)
    expected = train(plain, OURS(plain.parameters(), lr=RATE, master="kahan"))
    optimizer = OURS(compiled.parameters(), lr=RATE, master="kahan")
    found = train(compiled, optimizer, compute=torch.compile(compiled))
    assert found == pytest.approx(
        expected, rel=1e-2 if dtype != torch.float32 else 1e-5
    )


@pytest.mark.parametrize("states", ["f32", "dyn8:stochastic"])
def test_compiled_steps(states):
    """``torch.compile`` of the step has one graph, in which the update is one operator. It
    follows schedulers, and gradients that come and go."""
    modules = make_module(), make_module()
    optimizers = [OURS(m.parameters(), lr=RATE, states=states) for m in modules]
    graphs = []

    def keep_graph(graph, _):
        graphs.append([node.target for node in graph.graph.nodes])
        return graph

    compiled = torch.compile(
        lambda: optimizers[0].step(), fullgraph=True, backend=keep_graph
    )
    inductor = torch.compile(lambda: optimizers[0].step(), fullgraph=True)
    steps = [compiled, optimizers[1].step], [inductor, optimizers[1].step]
    for number in range(4):
        x, y = make_batch(number)
        for module, optimizer, step in zip(modules, optimizers, steps[number % 2]):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(module(x), y).backward()
            if number > 1:
                module[0].bias.grad = None
            optimizer.param_groups[0]["lr"] = RATE / (number + 1)
            step()
        for a, b in zip(*(module.parameters() for module in modules)):
            assert torch.equal(a, b)
    assert torch.ops.binade.step in [getattr(target, "overloadpacket", target) for target in graphs[0]]  # fmt: skip
