"""``binade.torch``'s optimizers implement the interface of ``torch.optim.Optimizer``:
checkpoints, parameter groups, schedulers, copies, gradient scalers and closures.

PyTorch's optimizers give the expected values.
"""

import copy
import io
import pickle

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from support import reference  # noqa: E402

if not (reference.BUILD / "python" / "binade").exists():
    pytest.skip("the extension is not built", allow_module_level=True)

import binade.torch  # noqa: E402
from binade.errors import BinadeError, UsageError  # noqa: E402

SETTINGS = {"lr": 0.05, "weight_decay": 0.1}
Schedules = torch.optim.lr_scheduler


def make_parameters(count=2):
    torch.manual_seed(1)
    return [torch.nn.Parameter(torch.randn(5, 4)) for _ in range(count)]


def train(parameters, optimizer, steps=3, begin=0, given=None):
    """Runs steps with gradients that do not depend on the parameters."""
    for step in range(begin, begin + steps):
        generator = torch.Generator().manual_seed(step)
        for index, parameter in enumerate(parameters):
            gradient = torch.randn(5, 4, generator=generator)
            parameter.grad = gradient if given is None or index in given else None
        optimizer.step()


def assert_close(ours, theirs):
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def make_pair(**settings):
    """The same parameters with Binade's AdamW and with PyTorch's."""
    ours, theirs = make_parameters(), make_parameters()
    settings = SETTINGS | settings
    return (ours, binade.torch.AdamW(ours, **settings)), (
        theirs, torch.optim.AdamW(theirs, **settings))  # fmt: skip


def test_checkpoints_are_exchanged_with_pytorch():
    (ours, mine), (theirs, other) = make_pair(betas=(0.8, 0.9))
    train(ours, mine)
    train(theirs, other)
    file = io.BytesIO()
    torch.save(mine.state_dict(), file)
    file.seek(0)
    from_ours = torch.optim.AdamW(theirs, lr=1.0)
    from_theirs = binade.torch.AdamW(ours, lr=1.0)
    from_theirs.load_state_dict(copy.deepcopy(other.state_dict()))
    from_ours.load_state_dict(torch.load(file, weights_only=True))
    assert from_theirs.param_groups[0]["betas"] == (0.8, 0.9)
    train(ours, from_theirs, begin=3)
    train(theirs, from_ours, begin=3)
    assert_close(ours, theirs)
    assert from_theirs.state[ours[0]]["step"] == 6


def test_momentum_without_a_count_is_not_a_first_step():
    settings = {"lr": 0.05, "momentum": 0.9, "dampening": 0.5}
    ours, theirs = make_parameters(), make_parameters()
    other = torch.optim.SGD(theirs, **settings)
    mine = binade.torch.SGD(ours, **settings)
    train(theirs, other)
    mine.load_state_dict(other.state_dict())
    with torch.no_grad():
        for a, b in zip(ours, theirs):
            a.copy_(b)
    train(ours, mine, begin=3)
    train(theirs, other, begin=3)
    assert_close(ours, theirs)


def test_states_that_do_not_fit_change_nothing():
    parameters = make_parameters()
    mine = binade.torch.AdamW(parameters, lr=0.05)
    train(parameters, mine)
    before = copy.deepcopy(mine.state_dict())
    other = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
    train(parameters, other)
    with pytest.raises(UsageError, match="another rule.*parameter 0.0 has .*exp_avg"):
        mine.load_state_dict(other.state_dict())
    uneven = copy.deepcopy(before)
    uneven["state"][0]["step"] = torch.tensor(7)
    with pytest.raises(UsageError, match=r"updated \[3, 7\] times"):
        mine.load_state_dict(uneven)
    after = mine.state_dict()
    assert after["param_groups"] == before["param_groups"]
    for name, value in before["state"][1].items():
        assert torch.equal(after["state"][1][name], value)


def test_a_late_error_when_loading_changes_nothing():
    """The errors are in the state of the last parameter and the settings of the last group."""

    def make():
        parameters = make_parameters()
        parameters[1].requires_grad_(False)
        groups = [{"params": [p], "lr": 0.05} for p in parameters]
        mine = binade.torch.AdamW(groups)
        train(parameters, mine, given={0})
        return parameters, mine

    (ours, mine), (theirs, other) = make(), make()
    before = copy.deepcopy(mine.state_dict())
    late = make_parameters()
    trained = binade.torch.AdamW([{"params": [p], "lr": 0.1} for p in late])
    train(late, trained)
    good = trained.state_dict()
    misnamed, maximized, reversed_ = (copy.deepcopy(good) for _ in range(3))
    misnamed["state"][1]["misnamed"] = misnamed["state"][1].pop("exp_avg")
    maximized["param_groups"][1]["maximize"] = True
    reversed_["param_groups"][1]["betas"] = (0.9, 1.5)
    for state, message in (
        (misnamed, "another rule.*parameter 1.0"), (maximized, "maximize"),
        (reversed_, "beta2"),
    ):  # fmt: skip
        with pytest.raises(BinadeError, match=message):
            mine.load_state_dict(state)
        after = mine.state_dict()
        assert after["param_groups"] == before["param_groups"]
        assert after["state"].keys() == before["state"].keys() == {0}
        for name, value in before["state"][0].items():
            assert torch.equal(after["state"][0][name], value)
    train(ours, mine, begin=3, given={0})
    train(theirs, other, begin=3, given={0})
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs))


@pytest.mark.parametrize(
    "duplicate", [copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))]
)
def test_copies_train_independently(duplicate):
    parameters = make_parameters()
    mine = binade.torch.Lion(parameters, lr=0.05, states="e5m2")
    schedule = Schedules.LinearLR(mine)  # It replaces the optimizer's `step`.
    train(parameters, mine)
    schedule.step()
    others, copied = duplicate((parameters, mine))
    train(parameters, mine, begin=3)
    kept = [p.detach().clone() for p in parameters]
    train(others, copied, begin=3)
    assert all(map(torch.equal, others, kept)) and all(
        map(torch.equal, parameters, kept)
    )


def test_parameters_without_gradients_keep_value_and_states():
    (ours, mine), (theirs, other) = make_pair()
    for parameters, optimizer in ((ours, mine), (theirs, other)):
        train(parameters, optimizer)
        train(parameters, optimizer, given=[1], begin=3)
    kept = [o.state[p[0]]["exp_avg"] for o, p in ((mine, ours), (other, theirs))]
    assert_close(kept[:1], kept[1:])
    assert_close(ours, theirs)
    before = ours[0].detach().clone()
    train(ours, mine, given=[])
    assert torch.equal(ours[0], before)


def test_frozen_parameters_have_no_states_until_they_train():
    ours, theirs = make_parameters(3), make_parameters(3)
    for parameters in (ours, theirs):
        parameters[0].requires_grad_(False)
    mine = binade.torch.AdamW(ours[:2], **SETTINGS)
    other = torch.optim.AdamW(theirs[:2], **SETTINGS)
    assert ours[0] not in mine.state
    for parameters, optimizer in ((ours, mine), (theirs, other)):
        train(parameters[1:2], optimizer)
        optimizer.add_param_group({"params": parameters[2:], "lr": 0.5})
        parameters[0].requires_grad_(True)
        train(parameters[1:], optimizer, begin=3)
    assert_close(ours[:2], theirs[:2])  # The third's step count differs from PyTorch's.
    assert not torch.equal(ours[2], make_parameters(3)[2])
    train(ours, mine, begin=6)
    assert not torch.equal(ours[0], theirs[0])


def test_groups_with_equal_first_settings_are_distinguished():
    pairs = []
    for make in (binade.torch.AdamW, torch.optim.AdamW):
        parameters = make_parameters()
        optimizer = make([{"params": [p]} for p in parameters], **SETTINGS)
        schedule = Schedules.LambdaLR(optimizer, [lambda n: 1.0, lambda n: 0.1**n])
        train(parameters, optimizer, 1)
        schedule.step()
        train(parameters, optimizer, 3, begin=1)
        pairs.append(parameters)
    assert_close(*pairs)


def test_schedulers_can_cycle_betas():
    pairs = []
    for make in (
        lambda p, **s: binade.torch.Optimizer(p, "adamw", **s),
        torch.optim.AdamW,
    ):
        parameters = make_parameters()
        optimizer = make(parameters, **SETTINGS)
        schedule = Schedules.OneCycleLR(optimizer, 0.1, total_steps=6)
        for step in range(6):
            train(parameters, optimizer, 1, begin=step)
            schedule.step()
        pairs.append(parameters)
    assert_close(*pairs)


def test_muon_trains_matrices_and_adamw_the_rest():
    """Groups times two rules: the index of a group of settings differs from that of a group of
    parameters."""
    matrices = make_parameters()
    theirs, vector = make_parameters(), torch.nn.Parameter(torch.ones(3))
    mine = binade.torch.Muon(
        [{"params": [matrices[0], vector]}, {"params": matrices[1:], "lr": 0.3}],
        lr=0.02,
    )
    other = torch.optim.Muon(
        [{"params": theirs[:1]}, {"params": theirs[1:], "lr": 0.3}], lr=0.02
    )
    vector.grad = torch.ones(3)
    train(matrices, mine, 1)
    train(theirs, other, 1)
    # PyTorch runs the Newton-Schulz iteration in bf16.
    for a, b in zip(matrices, theirs):
        torch.testing.assert_close(a, b, rtol=0.02, atol=0.005)
    torch.testing.assert_close(vector, torch.full((3,), 0.998 * 1 - 0.02))


def test_gradient_scaler_and_closure():
    (ours, mine), (theirs, other) = make_pair()
    for parameters, optimizer in ((ours, mine), (theirs, other)):
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        for scale in (1.0, float("inf"), 2.0):
            optimizer.zero_grad()
            loss = sum((p * p).sum() for p in parameters) * scale
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            scaler.step(optimizer)
            scaler.update()
        assert scaler.get_scale() == 2.0

        def closure(parameters=parameters, optimizer=optimizer):
            optimizer.zero_grad()
            loss = sum((p * p).sum() for p in parameters)
            loss.backward()
            return loss

        assert optimizer.step(closure).requires_grad
    assert_close(ours, theirs)
    ours[0].grad.fill_(float("nan"))
    mine.step()
    assert mine.skipped
    assert_close(ours, theirs)


def test_replaced_parameter_memory_is_updated():
    """``module.to`` and ``torch.nn.utils.vector_to_parameters`` replace it in the same way."""
    (ours, mine), (theirs, other) = make_pair()
    for parameters, optimizer in ((ours, mine), (theirs, other)):
        train(parameters, optimizer)
        parameters[0].data = torch.ones(5, 4)
        train(parameters, optimizer, begin=3)
    assert_close(ours, theirs)


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
    ({"is_paged": True}, "'is_paged' is False only: states are in the memory"),
    ({"percentile_clipping": 5}, "'percentile_clipping' is 100 only: clip with"),
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
