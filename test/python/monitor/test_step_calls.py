"""Statistics and schedules of steps that are called from Python."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import binade  # noqa: E402
import binade.torch  # noqa: E402
from binade.errors import RejectedError, UsageError  # noqa: E402
from support.watched_modules import CROSS, make  # noqa: E402


def capture(**options):
    module, batch, _ = make("blocks")
    options = {"optimizer": "sgd", "settings": {"lr": 0.25}} | options
    return binade.torch.capture(module, CROSS, batch, **options), batch


def test_statistics_are_returned_when_they_are_due(tmp_path):
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
    # A bundle contains the requests. A caller that resumes sets the number of calls.
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
def test_invalid_requests(stats, error):
    with pytest.raises(error):
        capture(stats=stats)


def test_a_schedule_equals_that_of_pytorch(tmp_path):
    """Tests a captured step, and a loaded bundle that resumes after 4 calls."""
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


@pytest.mark.parametrize(
    "schedule", ["cosine:min_lr=0.01", {"lr": "cosine:min_lr=0.01"}]
)
@pytest.mark.parametrize("warmup", [3, "30%"])
def test_a_schedule_by_name(schedule, warmup, tmp_path):
    step, batch = capture(schedule=schedule, warmup=warmup, steps=10)
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.25)
    theirs = torch.optim.lr_scheduler.SequentialLR(
        optimizer,
        [
            torch.optim.lr_scheduler.LambdaLR(optimizer, lambda done: done / 3),
            torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 7, eta_min=0.01),
        ],
        [3],
    )
    step.write(tmp_path / "s.bnd")
    other = binade.load(tmp_path / "s.bnd", schedule=schedule, warmup=warmup, steps=10)
    for _ in range(10):
        step(batch), other(batch)
        rate = optimizer.param_groups[0]["lr"]
        assert step.settings["lr"] == pytest.approx(rate, rel=1e-12)
        assert other.settings["lr"] == pytest.approx(rate, rel=1e-12)
        optimizer.step(), theirs.step()


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
    ({"schedule": ["lr=1"]}, "a schedule is a name, such as 'cosine', or a dictionary"),
    ({"schedule": "cosin"}, "no schedule is called 'cosin'; did you mean 'cosine'"),
    ({"schedule": "cosine"}, r"reads 'steps'.*base \* cosine.*\n.*steps=N"),
    ({"warmup": "5%"}, r"reads 'steps'"),
    ({"warmup": 0.05}, "warmup is a number of steps or a percentage such as '5%'"),
    ({"warmup": "5 steps"}, "--warmup: error: expected a number of steps"),
    ({"steps": 1.5}, "steps is a whole number from 1 on"),
])  # fmt: skip
def test_invalid_schedules(options, words):
    with pytest.raises(UsageError, match=words):
        capture(**options)


def test_an_invalid_value_of_a_schedule_raises_before_the_step():
    step, batch = capture(schedule={"lr": "1 - step"})
    step(batch), step(batch)
    before = step.parameters["0.weight"].copy()
    with pytest.raises(UsageError, match="for step 3, lr must be at least 0, got -1"):
        step(batch)
    assert np.array_equal(step.parameters["0.weight"], before)
