"""Steps of ``binade.torch``'s optimizers that fail, have no gradients, or follow others."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from support import reference  # noqa: E402

if not (reference.BUILD / "python" / "binade").exists():
    pytest.skip("the extension is not built", allow_module_level=True)

import binade.torch  # noqa: E402
from binade.torch.devices import Device  # noqa: E402
from binade.torch.groups import GroupSettings  # noqa: E402


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


def test_a_step_of_adamw_is_pytorchs_up_to_the_order_of_operations():
    """From the same state, in units in the last place of the larger of parameter and rate.
    PyTorch adds a share of the difference to a moment; Binade adds two products."""
    torch.manual_seed(0)
    ours = torch.nn.Parameter(torch.randn(512, 512) * 0.02)
    theirs = torch.nn.Parameter(ours.detach().clone())
    settings = {"lr": 1e-3, "weight_decay": 0.1}
    mine = binade.torch.AdamW([ours], **settings)
    other = torch.optim.AdamW([theirs], fused=True, **settings)
    for _ in range(6):
        ours.grad = torch.randn(512, 512) * 1e-3
        theirs.grad = ours.grad.clone()
        mine.step()
        other.step()
        size = theirs.detach().abs().clamp(min=settings["lr"])
        unit = torch.nextafter(size, torch.full_like(size, torch.inf)) - size
        apart = (ours.detach() - theirs.detach()).abs() / unit
        assert apart.max() <= 3
        assert (apart == 0).float().mean() > 0.95
        with torch.no_grad():
            ours.copy_(theirs)
            for key in ("exp_avg", "exp_avg_sq"):
                mine.state[ours][key].copy_(other.state[theirs][key])
