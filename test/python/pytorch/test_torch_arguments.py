"""Arguments and parameter groups of ``binade.torch``'s optimizers: those of other libraries,
groups that are added later or frozen, checkpoints of earlier versions.
"""

import copy

import binade.torch
import pytest
import torch
from binade.errors import UsageError
from support.torch_optimizers import (
    SETTINGS,
    assert_close,
    make_pair,
    make_parameters,
    train,
)

Schedules = torch.optim.lr_scheduler


def test_states_whose_groups_cross_rows_are_loaded():
    """Earlier versions wrote groups of 256 elements, whatever the length of a row."""
    torch.manual_seed(1)
    values = [torch.randn(96, 96), torch.randn(64, 256)]

    def make(flat):
        parameters = [torch.nn.Parameter(value.clone()) for value in values]
        optimizer = binade.torch.AdamW(parameters, lr=0.05, states="dyn8")
        if flat:
            optimizer._flat = set(parameters)
            optimizer._compile()
        return parameters, optimizer

    def step(parameters, optimizer, number):
        for index, parameter in enumerate(parameters):
            generator = torch.Generator().manual_seed(10 * number + index)
            parameter.grad = torch.randn(parameter.shape, generator=generator)
        optimizer.step()

    old, before = make(flat=True)
    step(old, before, 0)
    saved = copy.deepcopy(before.state_dict())
    shapes = [tuple(saved["state"][i]["exp_avg.scale"].shape) for i in (0, 1)]
    assert shapes == [(36,), (64, 1)]
    saved["state"][1]["exp_avg.scale"] = saved["state"][1]["exp_avg.scale"].flatten()
    new, after = make(flat=False)
    assert after.state[new[0]]["exp_avg.scale"].shape == (96, 3)
    with torch.no_grad():
        for a, b in zip(new, old):
            a.copy_(b)
    after.load_state_dict(saved)
    for number in (1, 2):
        step(old, before, number)
        step(new, after, number)
    for a, b in zip(new, old):
        assert torch.equal(a, b)
        for name, state in before.state[b].items():
            assert torch.equal(after.state[a][name], state)
    again, third = make(flat=False)
    third.load_state_dict(copy.deepcopy(after.state_dict()))
    third.load_state_dict(copy.deepcopy(after.state_dict()))
    assert torch.equal(third.state[again[0]]["exp_avg"], after.state[new[0]]["exp_avg"])


def make_with(**arguments):
    parameter = torch.nn.Parameter(torch.ones(64, 32))
    return parameter, binade.torch.AdamW([parameter], **arguments)


@pytest.mark.parametrize("arguments, dtype", [
    ({"optim_bits": 8}, torch.float32),  # 2048 elements are few.
    ({"optim_bits": 8, "min_8bit_size": 2048}, torch.int8),
    ({"optim_bits": 8, "min_8bit_size": 2049}, torch.float32),
    ({"optim_bits": 32, "min_8bit_size": 1}, torch.float32),
    ({"states": "e4m3", "min_8bit_size": 1}, torch.float8_e4m3fn),
    ({"block_size": 2048, "min_8bit_size": 1}, torch.int8),
    ({"is_paged": False, "block_wise": True, "percentile_clipping": 100, "args": None},
     torch.float32),
])  # fmt: skip
def test_arguments_of_other_libraries_choose_formats(arguments, dtype):
    parameter, optimizer = make_with(**arguments)
    assert optimizer.state[parameter]["exp_avg"].dtype == dtype


def test_arguments_of_other_libraries_are_settings():
    _, optimizer = make_with(max_unorm=0.02)
    assert optimizer.param_groups[0]["max_update_norm"] == 0.02
    parameter = torch.nn.Parameter(torch.ones(1 << 12, dtype=torch.bfloat16))
    optimizer = binade.torch.SGD([parameter], lr=2.0**-9, bf16_stochastic_round=True)
    parameter.grad = -torch.ones_like(parameter)
    optimizer.step()
    assert len(parameter.unique()) == 2


@pytest.mark.parametrize("arguments, error", [
    ({"optim_bits": 4}, "optim_bits is 8 or 32, got 4"),
    ({"optim_bits": 8, "states": "e4m3"}, "optim_bits=8 contradicts states='e4m3'"),
    ({"is_paged": True}, "'is_paged' is False only: offload=True keeps states"),
    ({"bf16_stochastic_round": True, "master": "f32"}, "contradicts master='f32'"),
    ({"states": ["dyn8"], "min_8bit_size": 1}, "min_8bit_size needs states in one format"),
])  # fmt: skip
def test_arguments_of_other_libraries_that_do_not_fit(arguments, error):
    with pytest.raises(UsageError, match=error):
        make_with(**arguments)


def test_groups_added_later_have_the_defaults_of_the_rule():
    a, b, c = (torch.nn.Parameter(torch.ones(4)) for _ in range(3))
    made = {}
    for make in (binade.torch.AdamW, torch.optim.AdamW):
        first = {"params": [a], "weight_decay": 0.0, "betas": (0.5, 0.6), "eps": 1e-3}
        optimizer = make([first, {"params": [b]}])
        optimizer.add_param_group({"params": [c]})
        names = ("weight_decay", "betas", "eps", "lr")
        made[make] = [
            [group[name] for name in names] for group in optimizer.param_groups
        ]
    assert made[binade.torch.AdamW] == made[torch.optim.AdamW]


def test_groups_may_have_what_pytorch_stores_in_them():
    module = torch.nn.Linear(3, 2)
    named = binade.torch.AdamW(module.named_parameters())
    assert named.param_groups[0]["param_names"] == ["weight", "bias"]
    groups = [
        {"params": [module.weight], "initial_lr": 0.1, "name": "w", "foreach": None}
    ]
    optimizer = binade.torch.AdamW([*groups, {"params": [module.bias], "lr": 0.2}])
    Schedules.ExponentialLR(named, 0.5)
    assert optimizer.param_groups[0]["name"] == "w"


def test_a_group_that_cannot_be_added_changes_nothing():
    parameter, optimizer = make_with()
    other = torch.nn.Parameter(torch.ones(3))
    for wrong in ({"params": [torch.nn.Parameter(torch.ones(3).double())]},
                  {"params": [other], "maximize": True}):  # fmt: skip
        with pytest.raises(UsageError):
            optimizer.add_param_group(wrong)
        assert len(optimizer.param_groups) == 1
    optimizer.add_param_group({"params": [other], "lr": 1.0, "max_update_norm": 1e-4})
    other.grad = torch.ones(3)
    optimizer.step()
    assert (other - 1).norm().item() == pytest.approx(1e-4 * 3**0.5, rel=0.01)


def test_a_scaler_without_gradients():
    scaler = torch.amp.GradScaler("cpu")
    parameter, optimizer = make_with()
    (other,), second = [torch.nn.Parameter(torch.ones(3))], None
    second = binade.torch.AdamW([other])
    scaler.scale(parameter.sum()).backward()
    scaler.step(optimizer)
    scaler.step(second)
    scaler.update()
    assert torch.equal(other, torch.ones(3)) and not torch.equal(
        parameter, torch.ones(64, 32)
    )


def test_adam_with_decoupled_weight_decay():
    ours, theirs = make_parameters(), make_parameters()
    settings = SETTINGS | {"decoupled_weight_decay": True}
    train(ours, binade.torch.Adam(ours, **settings))
    train(theirs, torch.optim.Adam(theirs, **settings))
    assert_close(ours, theirs)


def test_a_shallow_copy_does_not_change_the_original():
    (ours, mine), _ = make_pair()
    train(ours, mine, steps=2)
    other = copy.copy(mine)
    train(ours, mine, steps=1, begin=2)
    assert int(mine.state[ours[0]]["step"]) == 3
    assert int(other.state[ours[0]]["step"]) == 2
    assert mine.state_dict()["state"][0]["step"] == 3


def test_a_frozen_group():
    frozen, trained = (
        torch.nn.Parameter(torch.ones(3), requires_grad=False),
        torch.nn.Parameter(torch.ones(3)),
    )
    optimizer = binade.torch.AdamW([{"params": [frozen]}, {"params": [trained]}])
    Schedules.OneCycleLR(optimizer, 0.1, total_steps=4)
    assert optimizer.state[frozen] == {}
    assert set(optimizer.state_dict()["state"]) == {1}


def test_a_gradient_of_another_shape_is_rejected():
    parameter, optimizer = make_with()
    parameter.data = torch.ones(6, 4)
    parameter.grad = torch.ones(6, 4)
    for _ in range(2):
        with pytest.raises(UsageError, match="has another shape than before"):
            optimizer.step()


@pytest.mark.parametrize("name, arguments", [
    ("Adam", {"amsgrad": False}), ("RMSprop", {"momentum": 0}),
    ("Adagrad", {"initial_accumulator_value": 0}),
    ("AdEMAMix", {"t_alpha": None, "t_beta3": None}),
    ("AdamW", {"amsgrad": False, "optim_bits": 32, "args": None}),
])  # fmt: skip
def test_neutral_arguments_of_other_libraries(name, arguments):
    make = getattr(binade.torch, name)
    ours, plain = make_parameters(), make_parameters()
    train(ours, make(ours, lr=0.01, **arguments))
    train(plain, make(plain, lr=0.01))
    for a, b in zip(ours, plain):
        assert torch.equal(a, b)


@pytest.mark.parametrize("name, arguments", [
    ("Adam", {"amsgrad": True}), ("RMSprop", {"momentum": 0.9}),
])  # fmt: skip
def test_arguments_that_a_rule_lacks(name, arguments):
    with pytest.raises(UsageError, match="'amsgrad' is False only|needs centered=True"):
        getattr(binade.torch, name)(make_parameters(), **arguments)
