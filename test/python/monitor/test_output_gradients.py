"""Gradients of what nodes compute, watched in a step, against those that PyTorch keeps for the
outputs of modules; and statistics and schedules of steps that Python calls."""

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import binade  # noqa: E402
import binade.torch  # noqa: E402
from binade.errors import RejectedError, UsageError  # noqa: E402
from torch import nn  # noqa: E402

CROSS = nn.CrossEntropyLoss()
WIDTH = 16
STATS = ["output_gradient,scaled_output_gradient:norm,absmax,mean", "output:norm"]


class Block(nn.Module):
    """Its output is a sum, which hands its gradient on."""

    def __init__(self):
        super().__init__()
        self.norm, self.up = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH)
        self.act, self.down = nn.GELU(), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(self.act(self.up(self.norm(x))))


class Branches(nn.Module):
    """An output that three others read, a product of two, and one that nothing reads."""

    def __init__(self):
        super().__init__()
        self.trunk, self.gate = nn.Linear(4, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.value, self.sigmoid = nn.Linear(WIDTH, WIDTH), nn.Sigmoid()
        self.tanh, self.head = nn.Tanh(), nn.Linear(WIDTH, 3)

    def forward(self, x):
        x = self.trunk(x)
        return self.head(self.sigmoid(self.gate(x)) * self.value(x) + self.tanh(x))


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = (
            nn.Conv2d(2, 4, 3, padding=1, bias=False),
            nn.BatchNorm2d(4),
        )
        self.act, self.pool = nn.ReLU(), nn.MaxPool2d(2)
        self.second, self.head = nn.Conv2d(4, 6, 3), nn.Linear(6, 3)

    def forward(self, x):
        x = self.pool(self.act(self.norm(self.first(x))))
        return self.head(self.second(x).mean((2, 3)))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(11, WIDTH)
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.out, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 3)

    def forward(self, x):
        x = self.table(x)
        split = [m(x).unflatten(-1, (2, 8)).transpose(1, 2)
                 for m in (self.query, self.key, self.value)]  # fmt: skip
        x = nn.functional.scaled_dot_product_attention(*split)
        return self.head(self.out(x.transpose(1, 2).flatten(2)).mean(1))


def sequence():
    return nn.Sequential(nn.Linear(4, WIDTH), Block(), Block(), nn.LayerNorm(WIDTH),
                         nn.Linear(WIDTH, 3))  # fmt: skip


# A module, its inputs, and how many outputs are to be compared at least.
MODULES = {
    "blocks": (sequence, lambda draw: torch.randn(8, 4, generator=draw), 13),
    "branches": (Branches, lambda draw: torch.randn(8, 4, generator=draw), 6),
    "images": (Images, lambda draw: torch.randn(3, 2, 10, 10, generator=draw), 6),
    "attention": (
        Attention, lambda draw: torch.randint(0, 11, (3, 7), generator=draw), 5,
    ),
}  # fmt: skip
# Of the gradients under a policy, beside those of f32, by their norm.
POLICIES = {"fp32": 2e-5, "bf16-amp": 0.05, "fp16-amp": 0.02, "fp8-current": 0.3}


def make(name, seed=0):
    torch.manual_seed(seed)
    build, draw_input, least = MODULES[name]
    draw = torch.Generator().manual_seed(seed + 1)
    x = draw_input(draw)
    target = torch.randint(0, 3, (len(x),), generator=draw)
    return build(), {"input" if name == "blocks" else "x": x, "target": target}, least


def keep_gradients(module, batch):
    """The gradients of the outputs of all modules inside, by name."""
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
    """Statistics by module: of the node that alone has its name."""
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
def test_gradients_of_outputs_are_pytorchs(name, policy):
    module, batch, least = make(name)
    step = binade.torch.capture(
        copy.deepcopy(module), CROSS, batch, policy=policy, stats=STATS
    )
    metrics = step(batch)
    expected = keep_gradients(module, batch)
    found = match(step.statistics, "output_gradient", expected)
    stored = match(step.statistics, "scaled_output_gradient", expected)
    outputs = match(step.statistics, "output", expected)
    assert len(found) >= least and found.keys() == stored.keys()
    assert (metrics.scale > 1) == (policy == "fp16-amp")
    for layer, one in found.items():
        (values, output), bound = expected[layer], POLICIES[policy]
        assert outputs[layer]["norm"] == pytest.approx(output, rel=bound), layer
        norm = np.linalg.norm(values)
        assert one["norm"] == pytest.approx(norm, rel=bound), layer
        assert one["absmax"] == pytest.approx(np.abs(values).max(), rel=2 * bound), (
            layer
        )
        # The mean is small beside what is summed.
        assert abs(one["mean"] - values.mean()) <= bound * norm / np.sqrt(values.size)
        for statistic, value in one.items():
            assert stored[layer][statistic] == pytest.approx(
                value * metrics.scale, rel=1e-6
            )


def test_gradients_are_those_of_the_last_batch_and_its_loss():
    """Without the mean over the batches, which is none of theirs."""
    module, batch, least = make("blocks")
    _, other, _ = make("blocks", seed=5)
    step = binade.torch.capture(copy.deepcopy(module), CROSS, batch, policy="fp16-amp",
                                accumulate=2, stats=STATS)  # fmt: skip
    step([other, batch])
    expected = keep_gradients(module, batch)
    found = match(step.statistics, "output_gradient", expected)
    assert len(found) >= least
    for layer, one in found.items():
        assert one["norm"] == pytest.approx(
            np.linalg.norm(expected[layer][0]), rel=0.02
        )


def test_scales_of_layers_leave_only_what_is_stored():
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
def test_who_looks_changes_nothing(name, policy):
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


# --- Statistics of calls ----------------------------------------------------------------


def capture(**options):
    module, batch, _ = make("blocks")
    options = {"optimizer": "sgd", "settings": {"lr": 0.25}} | options
    return binade.torch.capture(module, CROSS, batch, **options), batch


def test_statistics_come_when_they_are_due(tmp_path):
    requests = ["weight/0.weight:norm,exponents", "gradient/0.bias:absmax@every=3"]
    step, batch = capture(stats=requests, keep_gradients=True)
    assert step.statistics == {}
    seen = []
    for call in range(1, 7):
        weight = step.parameters["0.weight"].astype(np.float64)
        step(batch)
        seen.append("gradient/0.bias/absmax" in step.statistics)
        norm = step.statistics["weight/0.weight/norm"]
        assert norm == pytest.approx(np.linalg.norm(weight), rel=1e-12)
        counts = dict(zip(*np.unique(np.floor(np.log2(np.abs(weight))),
                                     return_counts=True)))  # fmt: skip
        assert step.statistics["weight/0.weight/exponents"] == counts
        if seen[-1]:
            expected = np.abs(step.gradients["0.bias"]).max()
            assert step.statistics["gradient/0.bias/absmax"] == expected
        assert step.calls == call
    assert seen == [False, False, True] * 2
    # A bundle has them; the number of calls is whoever goes on to say.
    step.write(tmp_path / "s.bnd")
    other = binade.load(tmp_path / "s.bnd")
    other.calls = 2
    other(batch)
    assert "gradient/0.bias/absmax" in other.statistics and other.calls == 3
    with pytest.raises(UsageError, match="calls is a whole number"):
        other.calls = -1


@pytest.mark.parametrize("stats, error", [
    ("weight", UsageError), ("weigth:norm", UsageError), ("weight:norn", UsageError),
    ("weight/absent*:norm", RejectedError), ("output_gradient/absent:norm", RejectedError),
    ("weight:norm;gradient:norm", UsageError),
])  # fmt: skip
def test_requests_that_are_none(stats, error):
    with pytest.raises(error):
        capture(stats=stats)


# --- Schedules of calls -----------------------------------------------------------------


def test_a_schedule_is_pytorchs(tmp_path):
    """And a bundle's, and that of a loop which goes on."""
    module, batch, _ = make("blocks")
    schedule = {"lr": "base * warmup(step, 3) * cosine(step - 3, steps - 3)"}
    step, _ = capture(schedule=schedule, steps=9)
    step.write(tmp_path / "s.bnd")
    optimizer = torch.optim.SGD(module.parameters(), lr=0.25)
    rates, losses = [], []
    for done in range(9):
        factor = min((done + 1) / 3, 1) * (1 + np.cos(np.pi * max(done - 3, 0) / 6)) / 2
        rates.append(0.25 * factor)
        optimizer.param_groups[0]["lr"] = rates[-1]
        optimizer.zero_grad()
        loss = CROSS(module(batch["input"]), batch["target"])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    found = []
    for done in range(9):
        assert step(batch).loss == pytest.approx(losses[done], rel=1e-4)
        found.append(step.settings["lr"])
    assert found == pytest.approx(rates, rel=1e-12)
    other = binade.load(tmp_path / "s.bnd", schedule=schedule, steps=9)
    other.calls = 4
    other(batch)
    assert other.settings["lr"] == pytest.approx(rates[4], rel=1e-12)


def test_groups_keep_their_own_base():
    groups = {"*.bias": {"lr": 1.0}}
    step, batch = capture(groups=groups, schedule={"lr": "base / (step + 1)"})
    for call in range(1, 4):
        step(batch)
        assert (
            step.settings["lr"] == 0.25 / call and step.settings["lr@1"] == 1.0 / call
        )


def test_an_expression_in_a_file(tmp_path):
    path = tmp_path / "rate.txt"
    path.write_text("base *  # as before\n0.5\n")
    step, batch = capture(schedule={"lr": f"@{path}"})
    step(batch)
    assert step.settings["lr"] == 0.125


@pytest.mark.parametrize("options, words", [
    ({"schedule": {"lv": "1"}}, "no hyper-parameter 'lv'; did you mean 'lr'"),
    ({"schedule": {"lr": "base *"}}, "lr"),
    ({"schedule": {"lr": "base * cosine(step, steps)"}}, r"reads 'steps'.*\n.*steps=N"),
    ({"schedule": {"lr": "1 - step"}, "steps": 9}, "for step 3, lr must be at least 0"),
    ({"schedule": {"lr": ""}}, "NAME=EXPRESSION"),
    ({"schedule": ["lr=1"]}, "a schedule is a dictionary"),
    ({"steps": 1.5}, "steps is a whole number from 1 on"),
])  # fmt: skip
def test_schedules_that_are_none(options, words):
    with pytest.raises(UsageError, match=words):
        capture(**options)


def test_a_value_that_a_setting_cannot_have_ends_the_call():
    step, batch = capture(schedule={"lr": "1 - step"})
    step(batch), step(batch)
    before = step.parameters["0.weight"].copy()
    with pytest.raises(UsageError, match="for step 3, lr must be at least 0, got -1"):
        step(batch)
    assert np.array_equal(step.parameters["0.weight"], before)
