"""``binade.torch``'s optimizers update parameters of each type and layout in place.

Expected values are those of PyTorch's AdamW in f32, rounded to the parameter's type.
"""

import warnings

import binade.torch
import numpy as np
import pytest
import torch
from binade.errors import UsageError
from support.torch_parameters import make_gradients, make_parameters, train

NARROW = [torch.bfloat16, torch.float16]
SETTINGS = {"lr": 0.01, "weight_decay": 0.1}


def train_in_f32(dtype, rounds, steps=4):
    """Trains parameters that start as those of ``make_parameters(dtype)``, with the same
    gradients, by PyTorch; `rounds` says whether each update is rounded to the type."""
    parameters = [
        torch.nn.Parameter(p.detach().float()) for p in make_parameters(dtype)
    ]
    optimizer = torch.optim.AdamW(parameters, **SETTINGS, foreach=False)
    for step in range(steps):
        for p, gradient in zip(
            parameters, make_gradients(make_parameters(dtype), step)
        ):
            p.grad = gradient.float()
        optimizer.step()
        if rounds:
            with torch.no_grad():
                for p in parameters:
                    p.copy_(p.to(dtype).float())
    return parameters


def assert_nearly_all_equal(found, expected):
    """Asserts that the values differ by one unit in the last place at most, in few elements:
    the update in f32 may differ by a unit in its last place, which may change the rounding."""
    found = torch.cat([p.detach().flatten() for p in found])
    expected = torch.cat([p.detach().flatten() for p in expected]).to(found.dtype)
    torch.testing.assert_close(
        found, expected, rtol=2 * torch.finfo(found.dtype).eps, atol=1e-7
    )
    assert (found != expected).float().mean() < 0.01


@pytest.mark.parametrize("dtype", NARROW)
def test_updates_of_16_bit_parameters_are_rounded(dtype):
    parameters = make_parameters(dtype)
    places = [p.data_ptr() for p in parameters]
    train(parameters, binade.torch.AdamW(parameters, master="none", **SETTINGS))
    assert [p.data_ptr() for p in parameters] == places
    assert_nearly_all_equal(parameters, train_in_f32(dtype, rounds=True))


@pytest.mark.parametrize("dtype", NARROW)
def test_master_weights_are_those_of_training_in_f32(dtype):
    parameters = make_parameters(dtype)
    optimizer = binade.torch.AdamW(parameters, master="f32", **SETTINGS)
    train(parameters, optimizer)
    for parameter, expected in zip(parameters, train_in_f32(dtype, rounds=False)):
        if not parameter.numel():
            continue
        master = optimizer.state[parameter]["master"]
        torch.testing.assert_close(master, expected.detach(), rtol=2e-7, atol=1e-7)
        assert torch.equal(parameter, master.to(dtype))


@pytest.mark.parametrize(
    "master", ["split_round", "split_trunc", "split_8bit", "kahan", "residual"]
)
def test_other_masters_stay_close_to_training_in_f32(master):
    parameters = make_parameters(torch.bfloat16)
    train(parameters, binade.torch.AdamW(parameters, master=master, **SETTINGS), 40)
    expected = train_in_f32(torch.bfloat16, rounds=False, steps=40)
    for parameter, value in zip(parameters, expected):
        torch.testing.assert_close(parameter.float(), value, rtol=2e-2, atol=2e-2)
    if master.startswith("split"):
        exact = torch.cat([p.detach().flatten() for p in expected]).bfloat16()
        found = torch.cat([p.detach().flatten() for p in parameters])
        torch.testing.assert_close(found, exact, rtol=2**-7, atol=1e-7)


def test_parameters_of_several_types_train_together():
    types = (torch.float32, *NARROW)
    alone = []
    for dtype in types:
        parameters = make_parameters(dtype)
        train(parameters, binade.torch.AdamW(parameters, master="f32", **SETTINGS))
        alone += parameters
    together = [p for dtype in types for p in make_parameters(dtype)]
    optimizer = binade.torch.AdamW(together, master="f32", **SETTINGS)
    for step in range(4):
        each = [make_gradients(make_parameters(dtype), step) for dtype in types]
        for parameter, gradient in zip(together, sum(each, [])):
            parameter.grad = gradient
        optimizer.step()
    for parameter, expected in zip(together, alone, strict=True):
        assert torch.equal(parameter, expected)


def make_strided(dtype):
    """The parameters of ``make_parameters``, with other strides and offsets."""
    parameters = []
    for value in (p.detach() for p in make_parameters(dtype)):
        if value.dim() == 4:
            strided = value.to(memory_format=torch.channels_last)
        elif value.dim() == 2:
            strided = value.t().contiguous().t()
        else:  # In the middle of another tensor, at an odd element.
            strided = torch.zeros(value.numel() + 2, dtype=dtype)[1:-1]
            strided = strided.view(value.shape).copy_(value)
        parameters.append(torch.nn.Parameter(strided))
    return parameters


@pytest.mark.parametrize("rule", ["AdamW", "Tiger", "Muon"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_strides_do_not_matter(rule, dtype):
    def make(parameters):
        made = getattr(binade.torch, rule)
        return made(parameters, lr=0.01, states="dyn8", master="none")

    dense, strided = make_parameters(dtype), make_strided(dtype)
    assert not all(p.is_contiguous() for p in strided)
    places = [p.data_ptr() for p in strided]
    train(dense, make(dense))
    optimizer = make(strided)
    for step in range(4):
        for p, gradient in zip(strided, make_gradients(strided, step)):
            p.grad = torch.empty_like(p).copy_(gradient)  # As autograd does.
        optimizer.step()
    for a, b in zip(dense, strided):
        assert torch.equal(a, b)
    assert [p.data_ptr() for p in strided] == places


def test_parameters_may_move_between_steps():
    fixed, moved = make_parameters(torch.float32), make_parameters(torch.float32)
    train(fixed, binade.torch.AdamW(fixed, **SETTINGS))
    optimizer = binade.torch.AdamW(moved, **SETTINGS)
    for step in range(4):
        for p, gradient in zip(moved, make_gradients(moved, step)):
            p.data = p.data.clone()
            p.grad = gradient
        optimizer.step()
    for a, b in zip(fixed, moved):
        assert torch.equal(a, b)


def test_groups_have_their_own_formats():
    parameters = make_parameters(torch.bfloat16, [(64, 80), (64, 80), (3,)])
    optimizer = binade.torch.AdamW(
        [
            {"params": parameters[:1], "states": "dyn8", "master": "f32"},
            {"params": parameters[1:2], "states": "e4m3", "master": "kahan"},
            {"params": parameters[2:]},
        ],
        states="bf16", master="none",
    )  # fmt: skip
    train(parameters, optimizer)
    states = [optimizer.state[p] for p in parameters]
    assert states[0]["exp_avg"].dtype == torch.int8
    assert states[0]["master"].dtype == torch.float32
    assert states[1]["exp_avg"].dtype == torch.float8_e4m3fn
    assert states[1]["compensation"].dtype == torch.bfloat16
    assert states[2]["exp_avg"].dtype == torch.bfloat16
    assert not {"master", "compensation"} & set(states[2])
    with pytest.raises(UsageError, match="master is one of none, f32.*, got 'f64'"):
        binade.torch.AdamW(parameters, master="f64")


@pytest.mark.parametrize("master", [None, "none", "f32"])
def test_a_warning_says_that_updates_are_lost(master):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        parameters = make_parameters(torch.bfloat16)
        given = {} if master is None else {"master": master}
        train(parameters, binade.torch.AdamW(parameters, **given))
        wide = make_parameters(torch.float32)
        train(wide, binade.torch.AdamW(wide, master=master))
    texts = [str(one.message) for one in found]
    expected = ["parameters in torch.bfloat16 lose updates"] if master is None else []
    assert [text[:41] for text in texts] == expected


def test_states_of_16_bit_parameters_are_loaded_in_their_own_type():
    def make():
        parameters = make_parameters(torch.bfloat16)
        return parameters, binade.torch.AdamW(parameters, master="f32", **SETTINGS)

    parameters, optimizer = make()
    train(parameters, optimizer)
    again, other = make()
    with torch.no_grad():
        for a, b in zip(again, parameters):
            a.copy_(b)
    other.load_state_dict(optimizer.state_dict())
    for a, b in zip(again, parameters):
        for name, state in optimizer.state[b].items():
            assert torch.equal(state, other.state[a][name]), name
    train(parameters, optimizer)
    train(again, other)
    for a, b in zip(again, parameters):
        assert torch.equal(a, b)


def test_narrow_states_of_pytorch_are_loaded():
    """PyTorch's states have the type of the parameter."""
    theirs, ours = make_parameters(torch.bfloat16), make_parameters(torch.bfloat16)
    other = torch.optim.AdamW(theirs, **SETTINGS)
    train(theirs, other)
    mine = binade.torch.AdamW(ours, master="none", **SETTINGS)
    mine.load_state_dict(other.state_dict())
    for a, b in zip(ours, theirs):
        assert mine.state[a]["exp_avg"].dtype == torch.float32
        assert torch.equal(mine.state[a]["exp_avg"], other.state[b]["exp_avg"].float())
        assert int(mine.state[a]["step"]) == 4


@pytest.mark.parametrize("states", [(), "dyn8"])
def test_parameters_without_gradients_keep_their_states(states):
    some, all_of_them = make_parameters(torch.bfloat16), make_parameters(torch.bfloat16)
    optimizer = binade.torch.AdamW(some, states=states, master="kahan")
    expected = binade.torch.AdamW(all_of_them, states=states, master="kahan")
    train(some, optimizer, 2)
    train(all_of_them, expected, 2)
    for step, left_out in ((2, 0), (3, None), (4, 5), (5, None)):
        gradients = make_gradients(some, step)
        for index, p in enumerate(some):
            p.grad = None if index == left_out else gradients[index]
        if left_out is not None:
            p = some[left_out]
            own = {k: v for k, v in optimizer.state[p].items() if k != "step"}
            before = [t.clone() for t in (p, *own.values())]
            optimizer.step()
            for tensor, value in zip((p, *own.values()), before, strict=True):
                assert torch.equal(tensor, value)
            continue
        optimizer.step()
    assert int(optimizer.state[some[0]]["step"]) == 6
    # Those that were never left out are as if the others had had gradients.
    for step in range(2, 6):
        for p, gradient in zip(all_of_them, make_gradients(all_of_them, step)):
            p.grad = gradient
        expected.step()
    for index in (1, 2, 3):
        assert torch.equal(some[index], all_of_them[index])


def test_stochastic_rounding_has_the_mean_of_the_exact_update():
    """An update of 2^-10 of a weight of 1 is a quarter of its distance to the next bf16."""
    parameter = torch.nn.Parameter(torch.ones(1 << 16, dtype=torch.bfloat16))
    optimizer = binade.torch.SGD([parameter], lr=2.0**-9, master="stochastic")
    parameter.grad = -torch.ones_like(parameter)
    optimizer.step()
    values, counts = np.unique(parameter.detach().float().numpy(), return_counts=True)
    assert values.tolist() == [1.0, 1 + 2.0**-7]
    assert counts[1] / counts.sum() == pytest.approx(0.25, abs=0.01)
