"""Clipping by a percentile of the last norms, and elements without gradient that are left
alone: ``percentile_clipping`` and ``skip_zeros`` of bitsandbytes.

NumPy and PyTorch's optimizers give the expected values.
"""

import binade.torch
import numpy as np
import pytest
import torch
from binade.errors import RejectedError, UsageError

SHAPES = (4, 64), (33,)


def make(dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    return [
        torch.nn.Parameter(torch.randn(shape, generator=generator).to(dtype))
        for shape in SHAPES
    ]


def find_factor(history, square, step, percentile):
    """The definition of bitsandbytes 0.43, whose norms are squared and in f32."""
    if step == 1:
        history[:] = square
    else:
        history[step % 100] = square
    most = np.sqrt(np.sort(history)[percentile])
    return most / np.sqrt(square) if np.sqrt(square) > most else 1.0


@pytest.mark.parametrize("percentile", [1, 5, 50, 99])
def test_percentile_clipping(percentile):
    ours, theirs = make(), make()
    mine = binade.torch.AdamW(ours, lr=0.01, percentile_clipping=percentile)
    other = torch.optim.AdamW(theirs, lr=0.01)
    histories = [np.zeros(100, np.float32) for _ in SHAPES]
    draw = np.random.default_rng(0)
    factors = []
    for step in range(1, 121):
        for a, b, history in zip(ours, theirs, histories):
            size = draw.uniform(0.5, 2.0) * (10 if step % 7 == 0 else 1)
            gradient = draw.standard_normal(a.shape).astype(np.float32) * np.float32(
                size
            )
            square = np.float32((gradient.astype(np.float64) ** 2).sum())
            factors.append(find_factor(history, square, step, percentile))
            a.grad = torch.from_numpy(gradient)
            b.grad = a.grad * float(factors[-1])
        mine.step()
        other.step()
        for a, b in zip(ours, theirs):
            torch.testing.assert_close(a, b, rtol=2e-5, atol=2e-6)
    # No norm is larger than the largest of the last 100.
    assert sum(factor < 1 for factor in factors) > (20 if percentile < 99 else -1)
    for parameter, history in zip(ours, histories):
        norms = mine.state[parameter]["gnorm_vec"].numpy()
        np.testing.assert_allclose(norms, history, rtol=1e-6)


def test_percentiles_with_a_scaler_and_missing_gradients():
    """The norms are those of unscaled gradients. A parameter without a gradient, and one
    whose gradient is not finite, keep their history."""
    (a, b), plain = make(), make()
    groups = [{"params": [a], "percentile_clipping": 10}, {"params": [b]}]
    optimizer = binade.torch.SGD(groups, lr=0.1)
    assert "gnorm_vec" not in optimizer.state[b]
    optimizer.grad_scale, optimizer.found_inf = torch.tensor(8.0), torch.tensor(0.0)
    b.grad = torch.ones_like(b)
    optimizer.step()
    assert torch.equal(optimizer.state[a]["gnorm_vec"], torch.zeros(100))
    a.grad = torch.full_like(a, 8.0)
    optimizer.step()
    norms = optimizer.state[a]["gnorm_vec"].clone()
    assert torch.equal(norms, torch.full((100,), float(a.numel())))
    torch.testing.assert_close(a, plain[0] - 0.1)
    a.grad = torch.full_like(a, float("inf"))
    optimizer.found_inf = torch.tensor(1.0)
    optimizer.step()
    assert torch.equal(optimizer.state[a]["gnorm_vec"], norms)
    a.grad = torch.full_like(a, 80.0)  # Ten times the others.
    optimizer.found_inf = torch.tensor(0.0)
    optimizer.step()
    torch.testing.assert_close(a, plain[0] - 0.2)


def test_histories_of_norms_are_in_checkpoints():
    def run(parameters, optimizer, steps):
        for step in steps:
            generator = torch.Generator().manual_seed(step)
            for parameter in parameters:
                parameter.grad = torch.randn(parameter.shape, generator=generator) * (
                    1 + step % 3
                )
            optimizer.step()

    whole, part, again = make(), make(), make()
    expected = binade.torch.AdamW(whole, lr=0.01, percentile_clipping=20)
    run(whole, expected, range(8))
    before = binade.torch.AdamW(part, lr=0.01, percentile_clipping=20)
    run(part, before, range(4))
    after = binade.torch.AdamW(again, lr=0.01, percentile_clipping=20)
    with torch.no_grad():
        for parameter, value in zip(again, part):
            parameter.copy_(value)
    after.load_state_dict(before.state_dict())
    run(again, after, range(4, 8))
    for a, b in zip(again, whole):
        assert torch.equal(a, b)


@pytest.mark.parametrize("rule", ["AdamW", "SGD", "Lion", "Adagrad", "RMSprop"])
@pytest.mark.parametrize("states", ["f32", "dyn8"])
def test_elements_without_gradient_are_left_alone(rule, states):
    """Decay and momentum would change them."""
    found, plain = make(), make()
    more = {"momentum": 0.9} if rule == "SGD" else {}
    settings = {"lr": 0.01, "weight_decay": 0.1, **more}
    if rule == "Adagrad":
        del settings["weight_decay"]
    skips = getattr(binade.torch, rule)(
        found, states=states, skip_zeros=True, **settings
    )
    usual = getattr(binade.torch, rule)(plain, states=states, **settings)
    for step in range(3):
        isZero = torch.zeros(SHAPES[0], dtype=torch.bool)
        isZero[:, ::3] = step > 0
        before = [parameter.detach().clone() for parameter in found]
        states_before = {
            key: state.clone() for key, state in skips.state[found[0]].items()
        }
        for a, b in zip(found, plain):
            generator = torch.Generator().manual_seed(step)
            a.grad = torch.randn(a.shape, generator=generator)
            b.grad = a.grad.clone()
        found[0].grad[isZero] = plain[0].grad[isZero] = 0
        with torch.no_grad():
            for a, b in zip(found, plain):
                b.copy_(a)
            for key, state in usual.state[plain[0]].items():
                state.copy_(states_before[key])
        skips.step()
        usual.step()
        assert torch.equal(found[0][isZero], before[0][isZero])
        assert torch.equal(found[0][~isZero], plain[0][~isZero])
        if states == "f32":
            for key, state in skips.state[found[0]].items():
                if key != "step":
                    assert torch.equal(state[isZero], states_before[key][isZero])
    assert not torch.equal(plain[0][isZero], before[0][isZero]) or rule in ("Adagrad",)


def test_what_does_not_fit():
    with pytest.raises(UsageError, match="a whole number from 1 to 100, got 0"):
        binade.torch.AdamW(make(), percentile_clipping=0)
    with pytest.raises(UsageError, match="got 5.0"):
        binade.torch.AdamW(make(), percentile_clipping=5.0)
    with pytest.raises(RejectedError, match="'skip_zeros' leaves single elements"):
        binade.torch.LAMB(make(), skip_zeros=True)
    off = binade.torch.AdamW(make(), percentile_clipping=100, skip_zeros=False)
    assert "gnorm_vec" not in off.state[off.param_groups[0]["params"][0]]


def test_skipped_steps_are_not_remembered():
    a, b = make()
    optimizer = binade.torch.SGD([a, b], lr=0.1, percentile_clipping=50)
    a.grad, b.grad = torch.full_like(a, 100.0), torch.full_like(b, torch.nan)
    optimizer.step()
    assert optimizer.skipped
    assert not optimizer.state[a]["gnorm_vec"].any()
    a.grad, b.grad = torch.ones_like(a), torch.ones_like(b)
    optimizer.step()
    assert torch.equal(
        optimizer.state[a]["gnorm_vec"], torch.full((100,), float(a.numel()))
    )


def test_settings_that_a_group_gets_later():
    """They are compiled into the kernel, which is compiled again."""
    (a, b), plain = make(), make()
    optimizer = binade.torch.AdamW([a, b], lr=0.1, weight_decay=0.5)
    optimizer.param_groups[0]["skip_zeros"] = True
    a.grad, b.grad = torch.zeros_like(a), torch.ones_like(b)
    optimizer.step()
    assert torch.equal(a, plain[0])
    assert not torch.equal(b, plain[1])
    optimizer.param_groups[0]["percentile_clipping"] = 10
    optimizer.step()
    assert optimizer.state[a]["gnorm_vec"].shape == (100,)
    groups = [{"params": [a], "max_unorm": 0.1, "skip_zeros": False}]
    made = binade.torch.SGD(groups, lr=0.1).param_groups[0]
    assert made["max_update_norm"] == 0.1
    assert "skip_zeros" not in made


def test_checkpoints_without_norms_are_loaded():
    before, after = make(), make()
    saved = binade.torch.AdamW(before).state_dict()
    optimizer = binade.torch.AdamW(after, percentile_clipping=5)
    optimizer.load_state_dict(saved)
    assert not optimizer.state[after[0]]["gnorm_vec"].any()
