"""Schedules by name equal the schedules of transformers and PyTorch."""

import re

import numpy as np
import pytest
from support.reference import binade
from support.schedule_runs import LR, STEPS, Files, read_metrics

torch = pytest.importorskip("torch")
theirs = pytest.importorskip("transformers.optimization")

from torch.optim import lr_scheduler

# Name: (--schedule, --warmup, the other library's schedule). 5% of 16 steps are 1.
SCHEDULES = {
    "constant": ("constant", 0, theirs.get_constant_schedule),
    "warm-up": (
        None, 5, lambda o: theirs.get_constant_schedule_with_warmup(o, 5)
    ),
    "linear": (
        "linear", 5, lambda o: theirs.get_linear_schedule_with_warmup(o, 5, STEPS)
    ),
    "linear with a share": (
        "linear", "20%",
        lambda o: theirs.get_linear_schedule_with_warmup(o, 4, STEPS),
    ),
    "linear to a minimum": (
        "linear:min_lr_ratio=0.1", 0, lambda o: lr_scheduler.LinearLR(o, 1, 0.1, STEPS)
    ),
    "cosine": (
        "cosine", 5, lambda o: theirs.get_cosine_schedule_with_warmup(o, 5, STEPS)
    ),
    "cosine to a rate": (
        "cosine:min_lr=0.01", 5,
        lambda o: theirs.get_cosine_with_min_lr_schedule_with_warmup(
            o, 5, STEPS, min_lr=0.01
        ),
    ),
    "cosine to a ratio": (
        "lr=cosine:min_lr_ratio=0.3", 5,
        lambda o: theirs.get_cosine_with_min_lr_schedule_with_warmup(
            o, 5, STEPS, min_lr_rate=0.3
        ),
    ),
    "annealing": (
        "cosine:min_lr=0.01", 0,
        lambda o: lr_scheduler.CosineAnnealingLR(o, STEPS, 0.01),
    ),
    "polynomial": (
        "polynomial", 5,
        lambda o: theirs.get_polynomial_decay_schedule_with_warmup(o, 5, STEPS),
    ),
    "polynomial of a power": (
        "polynomial:power=2.5,min_lr=0.02", 5,
        lambda o: theirs.get_polynomial_decay_schedule_with_warmup(
            o, 5, STEPS, lr_end=0.02, power=2.5
        ),
    ),
    "polynomial to 0": (
        "polynomial:power=2,min_lr=0", 0,
        lambda o: lr_scheduler.PolynomialLR(o, STEPS, 2),
    ),
    "wsd": ("wsd:decay=4", 5, lambda o: theirs.get_wsd_schedule(o, 5, 4, STEPS)),
    "wsd by shares": (
        "wsd:decay=25%,min_lr_ratio=0.1", "25%",
        lambda o: theirs.get_wsd_schedule(o, 4, 4, STEPS, min_lr_ratio=0.1),
    ),
    "wsd by default": (
        "wsd", 0, lambda o: theirs.get_wsd_schedule(o, 0, 4, STEPS)
    ),
    "one-cycle": (
        "one-cycle", 0,
        lambda o: lr_scheduler.OneCycleLR(o, LR, STEPS, cycle_momentum=False),
    ),
    "one-cycle with parameters": (
        "one-cycle:div_factor=10,final_div_factor=100", "50%",
        lambda o: lr_scheduler.OneCycleLR(
            o, LR, STEPS, pct_start=0.5, div_factor=10, final_div_factor=100,
            cycle_momentum=False,
        ),
    ),
    "an expression after a warm-up": (
        "lr=base * 0.5 ^ step", 5,
        lambda o: lr_scheduler.LambdaLR(o, lambda t: min(1, t / 5) * 0.5**t),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return Files(tmp_path_factory.mktemp("schedules"))


def list_rates(make_schedule, rates=(LR,)):
    """Returns the rates of each group in each step, by the other library."""
    groups = [
        {"params": [torch.zeros(1, requires_grad=True)], "lr": rate} for rate in rates
    ]
    optimizer = torch.optim.SGD(groups, lr=LR)
    schedule = make_schedule(optimizer)
    found = []
    for _ in range(STEPS):
        found.append([group["lr"] for group in optimizer.param_groups])
        optimizer.step()
        schedule.step()
    return np.array(found).T


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", SCHEDULES)
def test_rates_equal_those_of_other_libraries(kind, files, tmp_path):
    schedule, warmup, make_schedule = SCHEDULES[kind]
    words = ["--schedule", schedule] if schedule else []
    words += ["--warmup", warmup] if warmup else []
    process = files.train(tmp_path / "run", *words)
    assert process.returncode == 0, process.stderr
    [expected] = list_rates(make_schedule)
    np.testing.assert_allclose(
        read_metrics(tmp_path / "run", "lr"), expected, rtol=1e-12, atol=1e-18
    )
    assert len(set(expected)) > 2 or kind == "constant"
    assert re.search(r"^schedule: lr = \S", process.stdout, re.M)


def test_groups_keep_their_base_and_a_rate_below_the_minimum(files, tmp_path):
    """The losses show the sum of both rates."""
    words = ["--group", "b:lr=0.001", "--schedule", "cosine:min_lr=0.01", "--warmup", 3]
    process = files.train(tmp_path / "run", *words)
    assert process.returncode == 0, process.stderr
    rates = list_rates(
        lambda o: theirs.get_cosine_with_min_lr_schedule_with_warmup(
            o, 3, STEPS, min_lr=0.01
        )
    )[0] + 0.001 * np.minimum(1, np.arange(STEPS) / 3)
    expected = 4 - np.concatenate([[0], np.cumsum(rates)[:-1]])
    np.testing.assert_allclose(
        read_metrics(tmp_path / "run", "loss"), expected, rtol=2e-6
    )


def test_other_settings_have_schedules_by_name_but_no_warm_up(files, tmp_path):
    words = ["--set", "momentum=0.5", "--schedule", "momentum=linear", "--warmup", 4]
    process = files.train(tmp_path / "run", *words)
    assert process.returncode == 0, process.stderr
    assert "schedule: momentum = base * linear(step, steps)\n" in process.stdout
    assert "schedule: lr = min(1, step / 4) * base\n" in process.stdout


def test_the_list_of_schedules_is_complete(files, tmp_path):
    """Each expression of the list gives the rates of the name."""
    process = binade("list", "schedules")
    assert process.returncode == 0, process.stderr
    text = process.stdout
    names = re.findall(r"^(\S+)", text, re.M)
    assert names == ["constant", "linear", "cosine", "polynomial", "wsd", "one-cycle"]
    expressions = re.findall(r"^  --warmup W  (.*)$", text, re.M)
    for name, expression in zip(names, expressions, strict=True):
        rates = []
        expression = re.sub(r"\bW\b", "5", expression)
        for kind, words in (
            ("name", [name, "--warmup", 5]),
            ("text", [f"lr={expression}"]),
        ):
            run = tmp_path / name / kind
            process = files.train(run, "--schedule", *words)
            assert process.returncode == 0, process.stderr
            rates.append(read_metrics(run, "lr"))
        assert rates[0] == rates[1], name
    for function in re.findall(r"transformers' (\w+)", text):
        assert hasattr(theirs, function)


INVALID = {
    "misspelled": (["--schedule", "cosin"], [
        "no schedule is called 'cosin'; did you mean 'cosine'?",
        "'lr=base * cosine(step, steps)'", "binade list schedules",
    ]),
    "misspelled for lr": (["--schedule", "lr=lienar"], ["did you mean 'linear'?"]),
    "with parameters": (["--schedule", "wds:decay=5%"], ["did you mean 'wsd'?"]),
    "parameter": (["--schedule", "cosine:min_rl=1"], [
        "--schedule cosine: error: has no parameter 'min_rl'; did you mean 'min_lr'?",
        "its parameters are min_lr=0,min_lr_ratio=0",
    ]),
    "no parameters": (["--schedule", "constant:power=1"], ["it has no parameters"]),
    "no value": (["--schedule", "cosine:min_lr"], ["expected KEY=VALUE after ':'"]),
    "no number": (["--schedule", "cosine:min_lr=1e"], ["expected a number, got '1e'"]),
    "a negative power": (["--schedule", "polynomial:power=-1"], ["at least 0, got -1"]),
    "a ratio above 1": (["--schedule", "linear:min_lr_ratio=2"], ["at most 1, got 2"]),
    "two minima": (["--schedule", "linear:min_lr=0,min_lr_ratio=0"], ["together"]),
    "a share": (["--schedule", "wsd:decay=120%"], ["a percentage of all steps"]),
    "a warm-up": (["--warmup", "5 %"], ["--warmup: error: expected a number of steps"]),
    "a fraction": (["--warmup", "0.05"], ["such as 5%, got '0.05'"]),
}  # fmt: skip


@pytest.mark.parametrize("kind", INVALID)
def test_invalid_names_and_parameters(kind, files, tmp_path):
    words, texts = INVALID[kind]
    process = files.train(tmp_path / "run", *words)
    assert process.returncode == 2, process.stderr
    for text in texts:
        assert text in process.stderr
    assert not (tmp_path / "run").exists()


def test_only_schedules_that_depend_on_steps_refuse_other_steps(files, tmp_path):
    run = tmp_path / "fixed"
    words = ["--schedule", "constant", "--warmup", 3, "--save-every", 5]
    for steps in (8, STEPS):
        process = files.train(run, *words, steps=steps, begin=("--resume",))
        assert process.returncode == 0, process.stderr
    process = files.train(tmp_path / "whole", *words)
    assert read_metrics(run, "loss") == read_metrics(tmp_path / "whole", "loss")
    for number, words in enumerate(
        (["--schedule", "cosine"], ["--warmup", "10%"], ["--schedule", "wsd:decay=3"])
    ):
        run = tmp_path / str(number)
        process = files.train(run, *words, "--save-every", 5, steps=8)
        assert process.returncode == 0, process.stderr
        process = files.train(run, *words, begin=("--resume",))
        assert process.returncode == 3, process.stderr
        assert "the schedule depends on --steps" in process.stderr
        assert "with steps = 8" in process.stderr
