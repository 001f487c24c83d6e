"""Parameters and states that are converted or replaced while a ``binade.torch`` optimizer has
them.
"""

import binade.torch
import pytest
import torch
from binade.errors import UsageError
from support.torch_parameters import make_gradients, make_parameters, train


def test_converted_modules_are_updated_in_their_new_type():
    """``Module.to`` replaces the data of parameters that the optimizer has."""
    torch.manual_seed(0)
    module = torch.nn.Linear(64, 80)
    optimizer = binade.torch.AdamW(module.parameters(), states="dyn8", master="none")
    for dtype in (torch.float32, torch.bfloat16, torch.float32):
        module.to(dtype)
        before = [p.detach().clone() for p in module.parameters()]
        for p in module.parameters():
            p.grad = torch.ones_like(p)
        optimizer.step()
        for p, value in zip(module.parameters(), before):
            assert p.dtype == dtype and not torch.equal(p, value)
            torch.testing.assert_close(p.detach(), value, rtol=2e-2, atol=5e-3)
    assert int(optimizer.state[module.weight]["step"]) == 3


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_the_default_type_does_not_matter(dtype):
    expected, found = make_parameters(torch.float32), make_parameters(torch.float32)
    train(expected, binade.torch.AdamW(expected, states="dyn8"))
    optimizer = binade.torch.AdamW(found, states="dyn8")
    gradients = [make_gradients(found, step) for step in range(4)]
    torch.set_default_dtype(dtype)
    try:
        for step in gradients:
            for p, gradient in zip(found, step):
                p.grad = gradient
            optimizer.step()
    finally:
        torch.set_default_dtype(torch.float32)
    for a, b in zip(found, expected):
        assert torch.equal(a, b)


def test_states_of_other_formats_are_rejected():
    def make(states):
        parameter = torch.nn.Parameter(torch.ones(64, 64))
        return binade.torch.AdamW([parameter], states=states)

    with pytest.raises(UsageError, match="of other formats"):
        make("e4m3").load_state_dict(make("dyn8").state_dict())
    make("dyn8").load_state_dict(make("dyn8:stochastic").state_dict())


def test_master_weights_follow_parameters_that_are_loaded():
    module = torch.nn.Linear(64, 80).bfloat16()
    optimizer = binade.torch.AdamW(module.parameters(), lr=1e-3, master="f32")
    module.load_state_dict(
        {k: torch.full_like(v, 5.0) for k, v in module.state_dict().items()}
    )
    for p in module.parameters():
        p.grad = torch.ones_like(p)
    optimizer.step()
    for p in module.parameters():
        master = optimizer.state[p]["master"]
        torch.testing.assert_close(
            master, torch.full_like(master, 4.999), atol=2e-4, rtol=0
        )


def test_a_policy_does_not_decide_about_16_bit_parameters():
    parameters = make_parameters(torch.bfloat16)
    with pytest.raises(
        UsageError, match="choose the formats of states by the argument"
    ):
        binade.torch.AdamW(
            parameters, master="none", options={"policy": "8bit-optimizer"}
        )
