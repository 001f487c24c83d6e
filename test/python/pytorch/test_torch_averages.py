"""``binade.torch.ScheduleFreeAdamW`` sets parameters to their averages for evaluation, and
``AdamMini`` has second moments per head."""

import binade.torch
import numpy as np
import pytest
import torch
from binade.errors import RejectedError, UsageError
from support.schedule_free import Published
from support.torch_optimizers import make_parameters, train

SETTINGS = {"lr": 0.05, "betas": (0.8, 0.9), "weight_decay": 0.1, "warmup_steps": 2}


def test_averages_are_those_of_the_published_formulas():
    (parameter,) = parameters = make_parameters(1)
    published = Published(
        parameter.detach().numpy().copy(), 0.05, 0.8, 0.9, 1e-8, 0.1, 2, 0, 2
    )
    optimizer = binade.torch.ScheduleFreeAdamW(parameters, **SETTINGS)
    for step in range(4):
        train(parameters, optimizer, steps=1, begin=step)
        published.step(parameter.grad.numpy().astype(float))
        np.testing.assert_allclose(parameter.detach(), published.y, 1e-5, 1e-6)
        optimizer.eval()
        np.testing.assert_allclose(parameter.detach(), published.x, 1e-5, 1e-6)
        optimizer.eval()
        optimizer.train()
        np.testing.assert_allclose(parameter.detach(), published.y, 1e-5, 1e-6)


@pytest.mark.parametrize("dtype, more", [
    (torch.float32, {}), (torch.float32, {"states": "dyn8"}),
    (torch.bfloat16, {"master": "split_round"}), (torch.bfloat16, {"master": "f32"}),
])  # fmt: skip
def test_evaluation_changes_no_bit_of_a_run(dtype, more):
    runs = []
    for evaluates in (False, True):
        parameters = [p.detach().to(dtype).requires_grad_() for p in make_parameters()]
        optimizer = binade.torch.ScheduleFreeAdamW(parameters, **SETTINGS, **more)
        for step in range(4):
            for index, parameter in enumerate(parameters):
                generator = torch.Generator().manual_seed(10 * step + index)
                gradient = torch.randn(parameter.shape, generator=generator)
                parameter.grad = gradient.to(dtype)
            optimizer.step()
            if evaluates:
                before = [p.detach().clone() for p in parameters]
                optimizer.eval()
                differ = [not torch.equal(p, b) for p, b in zip(parameters, before)]
                assert step == 0 or any(differ)
                optimizer.train()
        runs.append(parameters)
        offset = optimizer.state[parameters[0]]["evaluation_offset"]
        assert offset.dtype == torch.float32
    for one, other in zip(*runs):
        assert torch.equal(one, other)


def test_averages_are_not_trained(tmp_path):
    parameters = make_parameters()
    optimizer = binade.torch.ScheduleFreeAdamW(parameters, **SETTINGS)
    train(parameters, optimizer)
    saved = optimizer.state_dict()
    optimizer.eval()
    with pytest.raises(UsageError, match=r"step\(\) after eval\(\): call train\(\)"):
        optimizer.step()
    with pytest.raises(UsageError, match=r"state_dict\(\) after eval\(\)"):
        optimizer.state_dict()
    with pytest.raises(UsageError, match=r"load_state_dict\(\) after eval\(\)"):
        optimizer.load_state_dict(saved)
    path, module = tmp_path / "state.safetensors", torch.nn.ParameterList(parameters)
    with pytest.raises(UsageError, match=r"save_state\(\) after eval\(\)"):
        binade.torch.save_state(path, module, optimizer)
    with pytest.raises(UsageError, match=r"load_state\(\) after eval\(\)"):
        binade.torch.load_state(path, module, optimizer)
    assert not path.exists()
    optimizer.train()
    train(parameters, optimizer, steps=1, begin=3)


def test_heads_of_a_group():
    whole, heads = make_parameters(1), make_parameters(1)
    given = [{"params": heads, "heads": 5}]
    for parameters, optimizer in (
        (whole, binade.torch.AdamMini(whole, lr=0.05)),
        (heads, binade.torch.AdamMini(given, lr=0.05)),
    ):
        train(parameters, optimizer)
    # Five rows.
    assert torch.equal(whole[0], heads[0])
    (one,) = made = make_parameters(1)
    optimizer = binade.torch.AdamMini([{"params": made, "heads": 1}], lr=0.05)
    train(made, optimizer)
    assert optimizer.state[one]["exp_avg_sq_mean"].shape == (1,)
    assert not torch.equal(whole[0], one)
    with pytest.raises(RejectedError, match="cannot be divided into 2 heads"):
        binade.torch.AdamMini([{"params": make_parameters(1), "heads": 2}])
