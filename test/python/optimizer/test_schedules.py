"""Learning-rate schedules equal PyTorch's schedulers.

The gradient of the loss is constant, so that each step of SGD lowers the loss in
proportion to the learning rate. The series of losses thus shows the series of rates.
"""

import json

import numpy as np
import pytest
from support.paths import ROOT
from support.reference import safetensors
from support.schedule_runs import LR, STEPS, Files, read_metrics

torch = pytest.importorskip("torch")

from torch.optim import lr_scheduler


def warm(optimizer):
    return lr_scheduler.SequentialLR(
        optimizer,
        [
            lr_scheduler.LambdaLR(optimizer, lambda t: min(1, (t + 1) / 4)),
            lr_scheduler.CosineAnnealingLR(optimizer, STEPS - 4),
        ],
        [4],
    )


# Name: (expression, PyTorch's scheduler).
SCHEDULES = {
    "constant": ("base", lambda o: lr_scheduler.ConstantLR(o, 1)),
    "linear": (
        "base * (0.1 + 0.9 * linear(step, 10))",
        lambda o: lr_scheduler.LinearLR(o, 1, 0.1, 10),
    ),
    "cosine": (
        "0.01 + (base - 0.01) * cosine(step, steps)",
        lambda o: lr_scheduler.CosineAnnealingLR(o, STEPS, 0.01),
    ),
    "warm-up": (
        "base * warmup(step, 4) * cosine(step - 4, steps - 4)",
        warm,
    ),
    "piecewise": (
        "base * piecewise(step, 1, 5, 0.1, 11, 0.01)",
        lambda o: lr_scheduler.MultiStepLR(o, [5, 11]),
    ),
    "interpolate": (
        "base * interpolate(step, 0, 0.5, 4, 1, 8, 0.25)",
        lambda o: lr_scheduler.LambdaLR(
            o, lambda t: np.interp(t, [0, 4, 8], [0.5, 1, 0.25])
        ),
    ),
    "restarts": (
        "base * cosine(cycle(step, 2, 2), 2)",
        lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 2, 2),
    ),
    "equal restarts": (
        "base * cosine(cycle(step, 5, 1), 5)",
        lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 5),
    ),
    "polynomial": (
        "base * (1 - step / steps) ^ 2",
        lambda o: lr_scheduler.PolynomialLR(o, STEPS, 2),
    ),
    "exponential": ("base * 0.9 ^ step", lambda o: lr_scheduler.ExponentialLR(o, 0.9)),
    "condition": (
        "step < 3 ? base : base / 2",
        lambda o: lr_scheduler.LambdaLR(o, lambda t: 1 if t < 3 else 0.5),
    ),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return Files(tmp_path_factory.mktemp("schedules"))


def read_losses(out):
    return read_metrics(out, "loss")


def train_with_pytorch(make_scheduler, rates=(LR, LR)):
    weights = [torch.tensor(2.0, requires_grad=True) for _ in rates]
    groups = [{"params": [w], "lr": lr} for w, lr in zip(weights, rates)]
    optimizer = torch.optim.SGD(groups)
    scheduler = make_scheduler(optimizer)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = sum(weights)
        loss.backward()
        losses.append(loss.item())
        optimizer.step()
        scheduler.step()
    return losses


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", SCHEDULES)
def test_rates_equal_those_of_pytorch(kind, files, tmp_path):
    expression, make_scheduler = SCHEDULES[kind]
    process = files.train(tmp_path / "run", "--schedule", f"lr={expression}")
    assert process.returncode == 0, process.stderr
    losses = read_losses(tmp_path / "run")
    np.testing.assert_allclose(losses, train_with_pytorch(make_scheduler), rtol=2e-6)
    assert kind == "constant" or len(set(np.diff(losses).round(6))) > 1


def test_rates_equal_those_recorded_from_tiger(files, tmp_path):
    """Batches are 0 except around the recorded steps, where the loss shows the rate."""
    golden = json.loads((ROOT / "test/data/golden/tiger.json").read_text())["cases"]
    case = golden["schedule"]
    steps = np.array(case["t"])
    x = np.zeros((steps[-1] + 2, 1), np.float32)
    x[steps] = x[steps + 1] = 1
    safetensors.save(tmp_path / "data.safetensors", {"x": x})
    points = [0, 0, *(value for point in case["sched"].items() for value in point)]
    lines = f"interpolate(step, {', '.join(map(str, points))})"
    process = files.train(
        tmp_path / "run", "--schedule", f"lr=64 * {lines}", steps=len(x),
        data=tmp_path / "data.safetensors",
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    losses = np.array(read_losses(tmp_path / "run"))
    found = (losses[steps] - losses[steps + 1]) / (2 * 64)
    np.testing.assert_allclose(found, case["y"], rtol=4e-6)


def test_groups_keep_their_own_base(files, tmp_path):
    options = ["--group", "b:lr=0.05"]
    process = files.train(
        tmp_path / "run", *options, "--schedule", "lr=base * linear(step, steps)"
    )
    assert process.returncode == 0, process.stderr
    expected = train_with_pytorch(
        lambda o: lr_scheduler.LinearLR(o, 1, 0, STEPS), (LR, 0.05)
    )
    np.testing.assert_allclose(read_losses(tmp_path / "run"), expected, rtol=2e-6)
    # The schedule of a group overrides the general one, in any order of the options.
    schedules = ["--schedule", "lr@1=base", "--schedule", "lr=0"]
    process = files.train(tmp_path / "own", *options, *schedules)
    assert process.returncode == 0, process.stderr
    expected = 4 - 0.05 * np.arange(STEPS)
    np.testing.assert_allclose(read_losses(tmp_path / "own"), expected, rtol=2e-6)


def test_an_expression_in_a_file(files, tmp_path):
    schedule = tmp_path / "schedule.txt"
    schedule.write_text(
        "# Two phases.\nbase * warmup(step, 4)  # at first\n"
        "  * cosine(step - 4, steps - 4)\n\n"
    )
    process = files.train(tmp_path / "file", "--schedule", f"lr=@{schedule}")
    assert process.returncode == 0, process.stderr
    text = SCHEDULES["warm-up"][0]
    process = files.train(tmp_path / "text", "--schedule", f"lr={text}")
    assert process.returncode == 0, process.stderr
    assert read_losses(tmp_path / "file") == read_losses(tmp_path / "text")
    run = json.loads((tmp_path / "file" / "run.json").read_text())
    assert run["schedules"] == {"lr": text}


def test_a_resumed_run_continues_its_schedule(files, tmp_path):
    schedule = ["--schedule", "lr=base * cosine(step, 16)", "--save-every", 5]
    process = files.train(tmp_path / "whole", *schedule)
    assert process.returncode == 0, process.stderr
    for steps in (7, STEPS):
        process = files.train(
            tmp_path / "parts", *schedule, steps=steps, begin=("--resume",)
        )
        assert process.returncode == 0, process.stderr
    assert read_losses(tmp_path / "parts") == read_losses(tmp_path / "whole")
    # A run cannot resume with another schedule, or with another --steps that it reads.
    other = ["--schedule", "lr=base * linear(step, 16)"]
    process = files.train(tmp_path / "parts", *other, begin=("--resume",))
    assert process.returncode == 3 and "schedule lr" in process.stderr
    growing = ["--schedule", "lr=base * linear(step, steps)"]
    process = files.train(tmp_path / "growing", *growing, "--save-every", 5, steps=5)
    assert process.returncode == 0, process.stderr
    process = files.train(tmp_path / "growing", *growing, begin=("--resume",))
    assert process.returncode == 3 and "with steps = 5" in process.stderr
    assert "the schedule depends on --steps" in process.stderr
    assert "another run" not in process.stderr
    # Any other difference makes it another run.
    process = files.train(
        tmp_path / "growing", *growing, "--seed", 7, begin=("--resume",)
    )
    assert process.returncode == 3 and "belongs to another run" in process.stderr


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        ("base * 2", ["--schedule", "NAME=EXPRESSION", "constant, linear, cosine"]),
        ("lr=", ["NAME=EXPRESSION"]),
        ("lrr=base", ["no hyper-parameter 'lrr'", "'lr'", "it has lr=0.25"]),
        ("lr=base * wamup(step, 3)", ["--schedule lr", "wamup", "'wamup(step, 3)'"]),
        ("lr=base * (", ["--schedule lr"]),
        ("lr=base, 2", ["2 expressions, expected one"]),
        ("lr=warmup(step)", ["--schedule lr", "warmup"]),
        ("lr=piecewise(step, 1, 2)", ["an even number of arguments"]),
        ("lr=piecewise(step, 1, 5, 2, 3, 1)", ["steps have to increase"]),
        ("lr=interpolate(step, 1)", ["an odd number of arguments"]),
        ("lr=base - step", ["for step 2", "at least 0", "base = 0.25", "step = 1"]),
        ("lr=base / step", ["for step 1", "finite"]),
    ],
)
def test_invalid_schedules(schedule, words, files, tmp_path):
    process = files.train(tmp_path / "run", "--schedule", schedule)
    assert process.returncode == 2, process.stderr
    for word in words:
        assert word in process.stderr
    assert not (tmp_path / "run").exists()


def test_invalid_schedule_files(files, tmp_path):
    schedule = tmp_path / "schedule.txt"
    process = files.train(tmp_path / "run", "--schedule", f"lr=@{schedule}")
    assert process.returncode == 3 and f"{schedule}: error" in process.stderr
    schedule.write_text("base *\n# nothing more\n")
    process = files.train(tmp_path / "run", "--schedule", f"lr=@{schedule}")
    assert process.returncode == 3 and f"{schedule}: error" in process.stderr
