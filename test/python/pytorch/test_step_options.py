"""Options of compiled steps and of optimizers for PyTorch: each has the documented effect,
compared with PyTorch, or is rejected by name."""

import copy

import binade
import binade.torch
import numpy as np
import pytest
import torch
from binade import _core, train_step
from binade.errors import RejectedError, UsageError
from torch import nn

MSE = nn.MSELoss()
RATE = 0.5


def make_module():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))


def make_wide():
    """A module with a weight that is large enough for 8-bit states."""
    width = 4096
    return nn.Sequential(
        nn.Linear(4, width), nn.LayerNorm(width), nn.GELU(), nn.Linear(width, 2)
    )


def make_batch(seed=0, scale=1.0):
    draw = torch.Generator().manual_seed(seed)
    return {
        "input": scale * torch.randn(3, 4, generator=draw),
        "target": torch.randn(3, 2, generator=draw),
    }


def capture(module=None, **options):
    options = {"optimizer": "sgd", "settings": {"lr": RATE}} | options
    return binade.torch.capture(module or make_module(), MSE, make_batch(), **options)


def step_in_torch(module, *batches, clip=None, **settings):
    """Runs one SGD step with the mean of the batches' gradients, and returns it."""
    optimizer = torch.optim.SGD(module.parameters(), **({"lr": RATE} | settings))
    for batch in batches:
        (MSE(module(batch["input"]), batch["target"]) / len(batches)).backward()
    gradients = {n: p.grad.clone() for n, p in module.named_parameters()}
    if clip:
        nn.utils.clip_grad_norm_(module.parameters(), clip)
    optimizer.step()
    return gradients


def expect(step, module):
    for name, parameter in module.named_parameters():
        np.testing.assert_allclose(
            step.parameters[name], parameter.detach(), rtol=1e-5, atol=1e-6
        )


def test_every_option_of_the_compiler_is_documented():
    names = {
        name
        for kind in (_core.ImportOptions, _core.CompileOptions)
        for name, member in vars(kind).items()
        if isinstance(member, property)
    }
    assert len(names) > 25
    text = train_step.compile.__doc__
    assert [
        n for n in sorted(names) if f"``{n}``" not in text and f"{n}:" not in text
    ] == []


@pytest.mark.parametrize("name", ["set_dims", "__class__", "polcy", "batches"])
def test_unknown_options_are_rejected(name):
    with pytest.raises(UsageError, match=f"there is no option '{name}'"):
        capture(**{name: 3})


def test_an_unknown_option_has_a_suggestion():
    with pytest.raises(UsageError, match="'polcy'; did you mean 'policy'"):
        capture(polcy="fp32")


@pytest.mark.parametrize("name", ["allow_links", "dims", "directory", "loss_output"])
def test_options_about_files_are_rejected_for_modules(name):
    with pytest.raises(UsageError, match=f"capture has no option '{name}'"):
        capture(**{name: "x"})
    with pytest.raises(UsageError, match="the loss is a function"):
        binade.torch.capture(make_module(), "mse(prediction, target)", make_batch())


@pytest.mark.parametrize("more", [{}, {"accumulate_in_momentum": True}])
def test_accumulation_uses_the_mean_gradient(more):
    module = make_module()
    step = capture(copy.deepcopy(module), accumulate=4,
                   settings={"lr": RATE, "momentum": 0.9}, **more)  # fmt: skip
    batches = [make_batch(seed) for seed in range(4)]
    metrics = step(batches)
    with torch.no_grad():
        losses = [MSE(module(b["input"]), b["target"]).item() for b in batches]
    assert metrics.loss == pytest.approx(np.mean(losses), rel=1e-5)
    step_in_torch(module, *batches, momentum=0.9)
    expect(step, module)
    with pytest.raises(UsageError, match="a step takes 4 batches, got 1"):
        step(batches[0])
    with pytest.raises(UsageError, match="a step takes 4 batches, and run"):
        step.run()
    assert step.updates == 1


def test_clip_matches_pytorch():
    module = make_module()
    step = capture(copy.deepcopy(module), clip=0.01)
    metrics = step(make_batch())
    gradients = step_in_torch(module, make_batch(), clip=0.01)
    norm = torch.linalg.norm(torch.cat([g.flatten() for g in gradients.values()]))
    assert metrics.grad_norm == pytest.approx(norm.item(), rel=1e-5) and norm > 0.1
    expect(step, module)


def test_kept_gradients_and_outputs_match_pytorch():
    module = make_module()
    step = capture(copy.deepcopy(module), keep_gradients=True, keep_outputs=True)
    batch = make_batch()
    expected = module(batch["input"]).detach()
    step(batch)
    for name, gradient in step_in_torch(module, batch).items():
        np.testing.assert_allclose(step.gradients[name], gradient, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(
        step.outputs["prediction"], expected, rtol=1e-5, atol=1e-6
    )


def test_freeze_fold_and_train_choose_the_parameters():
    names = list(dict(make_module().named_parameters()))
    assert list(capture().parameters) == names
    frozen = capture(freeze=["0.*"])
    assert list(frozen.parameters) == names[2:] and list(frozen.buffers) == names[:2]
    folded = capture(fold="0.*")
    assert list(folded.parameters) == names[2:] and not len(folded.buffers)
    module = make_module()
    module[0].requires_grad_(False)
    assert list(capture(module).parameters) == names[2:]
    assert set(capture(module, train=["0.*"]).parameters) == set(names[:2])


def test_groups_states_and_settings():
    module = make_wide()
    step = capture(module, optimizer="adamw", groups={"*.bias": {"weight_decay": 0}},
                   states="dyn8", settings={"lr": 0.25})  # fmt: skip
    assert step.settings["lr"] == 0.25 and step.settings["weight_decay@1"] == 0
    assert step.states["exp_avg/0.weight"].dtype.itemsize == 1
    with pytest.raises(RejectedError, match="unknown optimizer"):
        capture(optimizer="adamv")


def test_on_nonfinite_skips_or_applies_updates():
    batch = make_batch()
    batch["target"][0] = float("inf")
    for answer, is_kept in {"skip": True, "continue": False}.items():
        step = capture(on_nonfinite=answer)
        before = step.parameters["2.bias"].copy()
        step(batch)
        after = step.parameters["2.bias"]
        assert np.array_equal(before, after) == is_kept
        assert np.all(np.isfinite(after)) == is_kept
    with pytest.raises(RejectedError, match="skip, continue or shrink"):
        capture(on_nonfinite="stop")


def test_nonfinite_weights_budgets_targets_and_strict():
    module = make_module()
    with torch.no_grad():
        module[0].weight[0, 0] = float("nan")
    with pytest.raises(RejectedError, match="not finite"):
        capture(module, fail_on_nonfinite=True)
    module = make_wide()
    whole = capture(module, stats="saved:absmax")
    less = capture(module, stats="saved:absmax", activation_memory="70%")
    assert whole(make_batch()).loss == less(make_batch()).loss
    assert whole.plan() != less.plan()
    with pytest.raises(RejectedError):
        capture(activation_memory="1B")
    with pytest.raises(RejectedError, match="sm_1"):
        capture(target="cuda:sm_1")
    with pytest.raises(RejectedError):
        capture(policy="fp8-current", strict=True)
    assert capture(policy="fp8-current", strict=False)(make_batch()).loss > 0


def test_the_stable_embedding():
    module = nn.Sequential(nn.Embedding(5, 4), nn.Flatten(), nn.Linear(8, 2))
    batch = {"input": torch.zeros(3, 2, dtype=torch.int64), "target": torch.zeros(3, 2)}
    step = binade.torch.capture(module, MSE, batch, stable_embedding=True)
    assert "0.norm.weight" in step.parameters
    with pytest.raises(RejectedError):
        capture(stable_embedding=True)


@pytest.mark.parametrize("options", [
    {"accumulate": 0}, {"accumulate": -1}, {"accumulate": 2.5}, {"clip": -1.0},
    {"clip": "1"}, {"threads": -1}, {"strict": "no"}, {"freeze": 3}, {"activation_memory": 24},
    {"activation_memory": "much"}, {"recompute_matmuls": True}, {"stats": "weight:mood"}, {"stats": 3}, {"steps": 0},
    {"steps": True}, {"schedule": {"lr": 1.0}}, {"schedule": "lr"}, {"warmup": "x"},
    {"decay": "norms"},
    {"alarms": "no-such-alarm"}, {"alarms": 3}, {"on_alarm": 3}, {"on_alarm": "ring"},
])  # fmt: skip
def test_invalid_values_of_options_are_rejected(options):
    with pytest.raises((UsageError, RejectedError)) as caught:
        capture(**options)
    assert caught.value.exit_code in (2, 3)


# --- Optimizers -------------------------------------------------------------------------


def optimize(module=None, rule="SGD", **options):
    module = module or make_module()
    made = getattr(binade.torch, rule)
    return made(module.parameters(), lr=RATE, options=options)


@pytest.mark.parametrize("name", [
    "accumulate", "accumulate_in_momentum", "activation_memory", "alarms", "allow_links", "decay",
    "device", "dims", "directory", "exchange", "fail_on_nonfinite", "fold", "freeze", "groups",
    "keep_gradients", "keep_outputs", "loss", "loss_output", "metric", "on_alarm", "optimizer",
    "polcy", "ranges", "recompute_matmuls", "release_gradients", "schedule", "seed", "settings", "stable_embedding", "states",
    "stats", "steps", "strict", "target", "train", "warmup",
])  # fmt: skip
def test_an_optimizer_rejects_options_of_whole_steps(name):
    with pytest.raises(UsageError, match=f"an optimizer has no option '{name}': "):
        optimize(**{name: 4})


def test_every_compiler_option_is_accepted_or_rejected_by_optimizers():
    """The list above contains every option except the five that an optimizer accepts."""
    (mark,) = [m for m in test_an_optimizer_rejects_options_of_whole_steps.pytestmark]
    names = {
        name
        for kind in (_core.ImportOptions, _core.CompileOptions)
        for name, member in vars(kind).items()
        if isinstance(member, property)
    }
    assert names - set(mark.args[1]) == {
        "clip", "on_nonfinite", "policy", "save_kernels", "threads",
    }  # fmt: skip


@pytest.mark.parametrize("options, error", [
    ({"policy": "fp16-amp"}, "the policy scales the loss, but .* torch.amp.GradScaler"),
    ({"policy": {"name": "s", "extends": "fp32", "loss_scale": {"static": 1024.0}}},
     "the policy scales the loss"),
    ({"threads": "all"}, "option 'threads' cannot be 'all'"),
    ("clip", "options are a dictionary"),
])  # fmt: skip
def test_invalid_options_of_an_optimizer_are_rejected(options, error):
    with pytest.raises((UsageError, RejectedError), match=error):
        binade.torch.SGD(make_module().parameters(), lr=RATE, options=options)


def test_options_of_an_optimizer():
    module, theirs = make_module(), make_module()
    optimizer = optimize(module, clip=0.01, threads=1)
    batch = make_batch()
    MSE(module(batch["input"]), batch["target"]).backward()
    optimizer.step()
    step_in_torch(theirs, batch, clip=0.01)
    for mine, other in zip(module.parameters(), theirs.parameters()):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)
    for answer, is_kept in {"skip": True, "continue": False}.items():
        module = make_module()
        optimizer = optimize(module, on_nonfinite=answer)
        for parameter in module.parameters():
            parameter.grad = torch.full_like(parameter, float("inf"))
        optimizer.step()
        kept = all(torch.isfinite(p).all() for p in module.parameters())
        assert kept == is_kept
    narrow = optimize(make_wide(), rule="AdamW", policy="8bit-optimizer")
    states = narrow.state_dict()["state"][0]
    assert states["exp_avg"].dtype.itemsize == 1


def test_gradients_of_several_backward_calls_are_added():
    """An optimizer has no option `accumulate`; PyTorch accumulates instead."""
    module, theirs = make_module(), make_module()
    optimizer = optimize(module)
    batches = [make_batch(seed) for seed in range(4)]
    for batch in batches:
        (MSE(module(batch["input"]), batch["target"]) / 4).backward()
    optimizer.step()
    step_in_torch(theirs, *batches)
    for mine, other in zip(module.parameters(), theirs.parameters()):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)
