"""``binade.torch``'s optimizers implement the interface of ``torch.optim.Optimizer``:
checkpoints, parameter groups, schedulers, copies, gradient scalers and closures.

PyTorch's optimizers give the expected values.
"""

import copy
import io
import pickle

import binade.torch
import pytest
import torch
from binade.errors import BinadeError, UsageError
from support.torch_optimizers import (
    SETTINGS,
    assert_close,
    make_pair,
    make_parameters,
    train,
)

Schedules = torch.optim.lr_scheduler


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


def test_codes_of_one_format_are_not_loaded_as_those_of_another():
    """Both have the type int8."""

    def make(states):
        parameter = torch.nn.Parameter(torch.ones(64, 256))
        return binade.torch.AdamW([parameter], states=states)

    saved = make("dyn8").state_dict()
    assert (
        saved["param_groups"][0]["state_formats"] == "dynamic-signed, dynamic-unsigned"
    )
    make("dyn8").load_state_dict(saved)
    optimizer = make("linear8")
    with pytest.raises(
        UsageError, match="expected linear.*, got dynamic-signed, dynamic-"
    ):
        optimizer.load_state_dict(saved)
    del saved["param_groups"][0]["state_formats"]  # As version 0.1.0 writes it.
    optimizer.load_state_dict(saved)
