"""Watched gradients of the outputs of nodes equal those that PyTorch retains for the
outputs of modules."""

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import binade  # noqa: E402
import binade.torch  # noqa: E402
from binade.errors import RejectedError  # noqa: E402
from support.watched_modules import CROSS, MODULES, make  # noqa: E402

STATS = ["output_gradient,scaled_output_gradient:norm,absmax,mean", "output:norm"]
# Errors of gradients under each policy, relative to the norm of those in f32.
POLICIES = {"fp32": 2e-5, "bf16-amp": 0.05, "fp16-amp": 0.02, "fp8-current": 0.3}


def keep_gradients(module, batch):
    """Returns (gradient, norm of the output) for the output of each submodule."""
    outputs = {}

    def keep(name):
        def hook(_, __, output):
            output.retain_grad()
            outputs[name] = output

        return hook

    handles = [
        inner.register_forward_hook(keep(name))
        for name, inner in module.named_modules() if name
    ]  # fmt: skip
    x = next(value for key, value in batch.items() if key != "target")
    CROSS(module(x), batch["target"]).backward()
    for handle in handles:
        handle.remove()
    return {
        name: (output.grad.double().numpy(), output.detach().double().norm().item())
        for name, output in outputs.items()
    }


def match(statistics, kind, names):
    """Returns the statistics of each module that has exactly one node."""
    layers = {key.split("/", 1)[1].rsplit("/", 1)[0] for key in statistics
              if key.startswith(f"{kind}/")}  # fmt: skip
    found = {}
    for name in names:
        own = [layer for layer in layers if layer.rpartition("/")[0] == name]
        if len(own) == 1:
            found[name] = {
                key.rsplit("/", 1)[1]: value for key, value in statistics.items()
                if key.startswith(f"{kind}/{own[0]}/")
            }  # fmt: skip
    return found


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", MODULES)
def test_gradients_of_outputs_equal_those_of_pytorch(name, policy):
    module, batch, count = make(name)
    step = binade.torch.capture(
        copy.deepcopy(module), CROSS, batch, policy=policy, stats=STATS
    )
    metrics = step(batch)
    expected = keep_gradients(module, batch)
    found = match(step.statistics, "output_gradient", expected)
    stored = match(step.statistics, "scaled_output_gradient", expected)
    outputs = match(step.statistics, "output", expected)
    assert len(found) >= count and found.keys() == stored.keys()
    assert (metrics.scale > 1) == (policy == "fp16-amp")
    for layer, one in found.items():
        (values, output), bound = expected[layer], POLICIES[policy]
        assert outputs[layer]["norm"] == pytest.approx(output, rel=bound), layer
        norm = np.linalg.norm(values)
        assert one["norm"] == pytest.approx(norm, rel=bound), layer
        assert one["absmax"] == pytest.approx(np.abs(values).max(), rel=2 * bound), (
            layer
        )
        # The mean is small compared with the terms of its sum.
        assert abs(one["mean"] - values.mean()) <= bound * norm / np.sqrt(values.size)
        for statistic, value in one.items():
            assert stored[layer][statistic] == pytest.approx(
                value * metrics.scale, rel=1e-6
            )


def test_gradients_are_those_of_the_last_batch_and_its_loss():
    """They are not divided by the number of batches."""
    module, batch, count = make("blocks")
    _, other, _ = make("blocks", seed=5)
    step = binade.torch.capture(copy.deepcopy(module), CROSS, batch, policy="fp16-amp",
                                accumulate=2, stats=STATS)  # fmt: skip
    step([other, batch])
    expected = keep_gradients(module, batch)
    found = match(step.statistics, "output_gradient", expected)
    assert len(found) >= count
    for layer, one in found.items():
        assert one["norm"] == pytest.approx(
            np.linalg.norm(expected[layer][0]), rel=0.02
        )


def test_per_layer_scales_allow_only_scaled_gradients():
    module, batch, _ = make("blocks")
    policy = {"name": "layers", "extends": "fp16-amp",
              "loss_scale": {"static": 1.0, "per_layer": {}}}  # fmt: skip
    step = binade.torch.capture(module, CROSS, batch, policy=policy,
                                stats="scaled_output_gradient:norm")  # fmt: skip
    step(batch)
    assert any(key.startswith("scaled_output_gradient/") for key in step.statistics)
    with pytest.raises(RejectedError, match="matches no value of the step"):
        binade.torch.capture(module, CROSS, batch, policy=policy,
                             stats="output_gradient:norm")  # fmt: skip


@pytest.mark.parametrize("policy", ["fp32", "fp16-amp", "fp8-delayed", "coat",
                                    "grappler-bf16"])  # fmt: skip
@pytest.mark.parametrize("name", ["blocks", "images"])
def test_statistics_change_no_parameter(name, policy):
    ends = []
    for stats in ((), "*:absmax", "output_gradient:norm,zeros,exponents"):
        module, batch, _ = make(name)
        step = binade.torch.capture(module, CROSS, batch, policy=policy, stats=stats)
        for _ in range(3):
            step(batch)
        ends.append({name: array.copy() for name, array in step.parameters.items()})
    for other in ends[1:]:
        for parameter, array in ends[0].items():
            assert array.tobytes() == other[parameter].tobytes(), parameter
