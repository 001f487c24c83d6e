"""Steps of ``binade.torch``'s optimizers that fail, have no gradients, or follow others."""

import binade.torch
import pytest
import torch
from binade.torch.devices import Device
from binade.torch.groups import GroupSettings


def test_a_failed_step_leaves_nothing_bound_to_freed_memory(monkeypatch):
    """A parameter without a gradient is bound to copies for one step."""
    ours, theirs = (
        [torch.nn.Parameter(torch.ones(512)) for _ in range(2)] for _ in range(2)
    )
    mine = binade.torch.AdamW(ours, lr=0.1)
    other = binade.torch.AdamW(theirs, lr=0.1)
    run = Device.run

    def fail(self, program):
        raise KeyboardInterrupt

    for parameter in ours + theirs:
        parameter.grad = torch.ones_like(parameter)
    mine.step()
    other.step()
    gradient, ours[1].grad = ours[1].grad, None
    monkeypatch.setattr(Device, "run", fail)
    with pytest.raises(KeyboardInterrupt):
        mine.step()
    monkeypatch.setattr(Device, "run", run)
    ours[1].grad = gradient
    mine.step()
    other.step()
    for a, b in zip(ours, theirs):
        assert torch.equal(a, b)
        assert torch.equal(mine.state[a]["exp_avg"], other.state[b]["exp_avg"])


def test_a_step_without_gradients_skips_nothing():
    parameter = torch.nn.Parameter(torch.ones(4))
    optimizer = binade.torch.AdamW([parameter])
    assert not optimizer.skipped
    parameter.grad = torch.full_like(parameter, torch.nan)
    optimizer.step()
    assert optimizer.skipped
    parameter.grad = None
    optimizer.step()
    assert not optimizer.skipped


def test_muon_with_vectors_is_compiled_again():
    """Settings of its rule for vectors become those of a group."""
    parameters = [
        torch.nn.Parameter(torch.ones(4, 8)),
        torch.nn.Parameter(torch.ones(3)),
    ]
    optimizer = binade.torch.Muon(parameters, lr=0.01)
    before = optimizer.param_groups[0]["betas"]
    optimizer.load_state_dict(optimizer.state_dict())
    assert optimizer.param_groups[0]["betas"] == before
    optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(5, 2))]})
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    assert all((parameter < 1).all() for parameter in parameters)


@pytest.mark.parametrize("begins, flat", [(False, False), (True, False), (False, True)])
def test_a_state_is_loaded_with_one_compilation(begins, flat, monkeypatch):
    """Also one with more parameters, or of groups that cross rows (``flat``)."""
    parameters, others = (
        [torch.nn.Parameter(torch.ones(96, 96)) for _ in range(2)] for _ in range(2)
    )
    optimizer = binade.torch.AdamW(parameters, lr=0.1, states="dyn8")
    if flat:
        optimizer._flat = set(parameters)
        optimizer._compile()
    for parameter in parameters:
        parameter.grad = torch.randn(96, 96)
    optimizer.step()
    others[1].requires_grad_(not begins)
    other = binade.torch.AdamW(others, lr=0.2, states="dyn8")
    compiled = []
    make_update = binade.torch.optimizer.Update

    def count(*arguments, **options):
        compiled.append(options)
        return make_update(*arguments, **options)

    monkeypatch.setattr(binade.torch.optimizer, "Update", count)
    other.load_state_dict(optimizer.state_dict())
    assert len(compiled) == 1
    assert other.param_groups[0]["lr"] == 0.1
    for a, b in zip(parameters, others, strict=True):
        for name, state in optimizer.state[a].items():
            assert torch.equal(other.state[b][name], state), name


def test_learning_rates_on_a_device_are_written_in_each_step():
    """The host does not know their value, so a number afterwards is always written."""

    class Scalar:  # Of a tensor on a CUDA device, only this is used.
        is_cuda = True

    settings = {"lr": 1.0}
    group = {"params": [], "lr": 0.5}
    groups = GroupSettings(settings, [group])
    seen = []
    scalar = Scalar()
    for rate in (0.5, scalar, scalar, 0.5):
        group["lr"] = rate
        settings["lr"] = None
        groups.write()
        seen.append(settings["lr"])
    assert seen == [0.5, scalar, scalar, 0.5]


def make_pair(shape, settings):
    """Returns a parameter with Binade's optimizer, and one with PyTorch's."""
    torch.manual_seed(0)
    ours = torch.nn.Parameter(torch.randn(shape) * 0.02)
    theirs = torch.nn.Parameter(ours.detach().clone())
    other = torch.optim.AdamW([theirs], fused=True, **settings)
    return ours, binade.torch.AdamW([ours], **settings), theirs, other


def update_both(ours, mine, theirs, other):
    ours.grad = torch.randn(ours.shape) * 1e-3
    theirs.grad = ours.grad.clone()
    mine.step()
    other.step()


def measure_in_units(found, expected, least=0.0):
    size = expected.abs().clamp(min=least)
    unit = torch.nextafter(size, torch.full_like(size, torch.inf)) - size
    return ((found - expected).abs() / unit).max().item()


@pytest.mark.parametrize("settings", [
    {"weight_decay": 0.1}, {"betas": (0.95, 0.98), "weight_decay": 0.0, "eps": 1e-6},
], ids=["decay", "no decay"])  # fmt: skip
def test_adamw_has_the_bits_of_pytorchs_fused_kernel(settings):
    """On the CPU, over 100 steps with a schedule."""
    ours, mine, theirs, other = make_pair((256, 128), {"lr": 1e-3, **settings})
    decay = [torch.optim.lr_scheduler.StepLR(one, 30, 0.3) for one in (mine, other)]
    for _ in range(100):
        update_both(ours, mine, theirs, other)
        for one in decay:
            one.step()
    assert torch.equal(ours, theirs)
    for key in ("exp_avg", "exp_avg_sq"):
        assert torch.equal(mine.state[ours][key], other.state[theirs][key])


def test_adamw_is_pytorchs_to_a_unit_where_vectors_end():
    """PyTorch rounds the second moment of the last elements, which fill no vector, twice."""
    settings = {"lr": 1e-3, "weight_decay": 0.1}
    ours, mine, theirs, other = make_pair((7,), settings)
    for _ in range(100):
        update_both(ours, mine, theirs, other)
        a, b = mine.state[ours], other.state[theirs]
        assert torch.equal(a["exp_avg"], b["exp_avg"])
        assert measure_in_units(a["exp_avg_sq"], b["exp_avg_sq"]) <= 1
        assert measure_in_units(ours.detach(), theirs.detach(), settings["lr"]) <= 1
        with torch.no_grad():
            ours.copy_(theirs)
            a["exp_avg_sq"].copy_(b["exp_avg_sq"])
