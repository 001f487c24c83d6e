"""Statistics of the states of optimizers, quantized ones after dequantization by numpy."""

import binade.torch
import numpy as np
import pytest
import torch
from support.codec import formats
from support.loop_values import check, take_step, watching
from support.torch_loops import make_batch, make_module

PARTS = ("", ".scale", ".power", ".centre")


@pytest.mark.parametrize("make", [
    lambda p: torch.optim.AdamW(p, lr=1e-3),
    lambda p: torch.optim.AdamW(p, lr=1e-3, fused=True),
    lambda p: binade.torch.AdamW(p, lr=1e-3),
])  # fmt: skip
def test_float_states_are_those_before_the_update(make):
    module = make_module()
    optimizer = make(module.parameters())
    watch = watching(module, optimizer, "state:norm,absmax@every=3")
    for step in range(2):
        take_step(module, optimizer, *make_batch(step))
    before = {
        (state, name): optimizer.state[parameter][state].clone()
        for name, parameter in module.named_parameters()
        for state in ("exp_avg", "exp_avg_sq")
    }
    take_step(module, optimizer, *make_batch(2))
    assert len(watch.statistics) == 2 * len(before)
    for (state, name), value in before.items():
        check(watch.statistics, "state", f"{state}/{name}", value, ("norm", "absmax"))


@pytest.mark.parametrize(
    "name", ["dyn8", "e4m3", "dyn4", "e4m3x", "f16-scaled", "softsign8"]
)
def test_quantized_states_are_dequantized(name):
    torch.manual_seed(0)
    module = torch.nn.Linear(256, 20, bias=False)
    optimizer = binade.torch.AdamW(module.parameters(), lr=1e-3, states=name)
    watch = watching(module, optimizer, "state:absmax,zeros,norm")
    states = optimizer.state[module.weight]
    for _ in range(3):
        before = {key: value.clone() for key, value in states.items()}
        module(torch.randn(8, 256)).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    for state in ("exp_avg", "exp_avg_sq"):
        codec = formats(state == "exp_avg")[name]
        parts = [as_array(before[state + p]) for p in PARTS if state + p in before]
        x = codec.decode(parts, module.weight.numel())
        found = {
            key: watch.statistics[f"state/{state}/weight/{key}"]
            for key in ("absmax", "zeros", "norm")
        }
        # Range expansion computes a power, whose last bits may differ.
        rtol = 1e-5 if codec.expand else 1e-9
        np.testing.assert_allclose(found["absmax"], np.abs(x).max(), rtol=rtol)
        np.testing.assert_allclose(
            found["norm"], np.linalg.norm(x.astype(np.float64)), rtol=rtol
        )
        assert found["zeros"] == np.mean(x == 0)
        for part in PARTS[1 : len(parts)]:
            largest = watch.statistics[f"state/{state}/weight{part}/absmax"]
            assert largest == before[state + part].abs().max()


def as_array(tensor):
    """Codes as numpy has them."""
    if tensor.dtype == torch.float8_e4m3fn:
        import ml_dtypes

        return tensor.view(torch.int8).numpy().view(ml_dtypes.float8_e4m3fn).ravel()
    return tensor.numpy().ravel()


@pytest.mark.parametrize("master", ["none", "f32", "split_round", "kahan"])
def test_lost_updates_of_16_bit_weights(master):
    """An update is lost if neither the weight nor what preserves small updates changes."""
    torch.manual_seed(0)
    module = torch.nn.Linear(64, 32, bias=False).to(torch.bfloat16)
    optimizer = binade.torch.AdamW(module.parameters(), lr=1e-6, master=master)
    watch = watching(module, optimizer, "weight,narrow_weight:lost")
    companion = {"f32": "master", "split_round": "remainder", "kahan": "compensation"}
    states = optimizer.state[module.weight]
    for _ in range(2):
        kept = states.get(companion.get(master))
        before = module.weight.detach().clone(), None if kept is None else kept.clone()
        module(torch.randn(8, 64).bfloat16()).float().square().sum().backward()
        optimizer.step()
        meant = module.weight.grad != 0
        lost = (before[0] == module.weight) & meant
        if kept is not None:
            lost &= before[1] == kept
        expected = (lost.sum() / meant.sum()).item()
        found = watch.statistics["weight/weight/lost"]
        assert found == pytest.approx(expected, rel=1e-6)
        narrow = watch.statistics.get("narrow_weight/weight/lost")
        assert narrow == (found if master == "none" else None)
        optimizer.zero_grad()
    assert (expected > 0.9) == (master == "none")
