"""Alarm rules and files of a PyTorch loop that `binade.torch.monitor` watches."""

import json
import logging

import binade.torch
import pytest
import torch
from binade.errors import AlarmError, BinadeError, RejectedError, UsageError
from binade.run import read_statistics
from support.loop_values import take_step
from support.reference import binade as run_binade
from support.torch_loops import make_batch, make_module

JUMP = """
- name: loss-jump
  value: loss
  window: 20
  when: "n >= 5 && value > 3 * usual"
  says: "the loss is {value}, three times what it was"
"""


def make(dtype=torch.float32):
    module = make_module(dtype)
    return module, torch.optim.SGD(module.parameters(), lr=1e-3)


def train(module, optimizer, watch, steps, scaler=None, collapses=None):
    for step in steps:
        x, y = make_batch(step, next(module.parameters()).dtype)
        x = x * (torch.inf if collapses and step >= collapses else 1)
        take_step(module, optimizer, x, y, watch, scaler)


def test_a_collapsing_loss_scale(tmp_path, caplog):
    module, optimizer = make()
    scaler = torch.amp.GradScaler("cpu")
    watch = binade.torch.monitor(module, optimizer, scaler=scaler, out=tmp_path / "run")
    with caplog.at_level(logging.WARNING, logger="binade"):
        train(module, optimizer, watch, range(1, 70), scaler, collapses=60)
    watch.close()
    assert [(one.step, one.rule) for one in watch.alarms] == [
        (63, "scale-collapse"), (69, "repeated-skips"),
    ]  # fmt: skip
    assert watch.alarms[0].message.startswith("the loss scale fell by 2^3")
    assert str(watch.alarms[0]) in caplog.text
    lines = [json.loads(line) for line in (tmp_path / "run/alarms.jsonl").open()]
    assert [line["rule"] for line in lines] == ["scale-collapse", "repeated-skips"]
    assert lines[0]["action"] == "warn" and "let the scale" in lines[0]["remedy"]
    # The command evaluates the same rules on the files.
    process = run_binade("alarms", tmp_path / "run")
    assert process.returncode == 0, process.stderr
    assert process.stdout.count("alarm scale-collapse") == 1
    assert "step 63: alarm scale-collapse" in process.stdout


def test_an_alarm_that_stops(tmp_path):
    module, optimizer = make()
    scaler = torch.amp.GradScaler("cpu")
    watch = binade.torch.monitor(
        module, optimizer, scaler=scaler, on_alarm="stop", out=tmp_path / "run"
    )
    with watch, pytest.raises(AlarmError) as found:
        train(module, optimizer, watch, range(1, 90), scaler, collapses=60)
    assert [one.rule for one in found.value.alarms] == ["scale-collapse"]
    assert watch.steps == 63 and not module[0]._forward_hooks
    assert len((tmp_path / "run/metrics.jsonl").read_text().splitlines()) == 63


def test_lost_updates_are_an_alarm_by_default():
    module, optimizer = make(torch.bfloat16)
    optimizer.param_groups[0]["lr"] = 1e-7
    watch = binade.torch.monitor(module, optimizer)
    train(module, optimizer, watch, range(1, 31))
    assert {one.rule for one in watch.alarms} == {"lost-updates"}
    assert {one.step for one in watch.alarms} == {30}
    assert "narrow_weight/0.weight" in {one.where for one in watch.alarms}


def test_zero_gradients():
    module, optimizer = make()
    with torch.no_grad():
        module[0].weight.fill_(0)
        module[0].bias.fill_(-100)  # GELU and its derivative are 0.
    watch = binade.torch.monitor(module, optimizer, alarms="zero-gradient")
    train(module, optimizer, watch, range(1, 31))
    where = {one.where for one in watch.alarms if one.rule == "zero-gradient"}
    assert where == {"gradient/0.weight", "gradient/0.bias", "gradient/2.weight"}


def test_rules_in_a_file(tmp_path):
    (tmp_path / "mine.yaml").write_text(JUMP)
    module, optimizer = make()
    watch = binade.torch.monitor(module, optimizer, alarms=str(tmp_path / "mine.yaml"))
    for step in range(1, 11):
        watch.loss(torch.tensor(9.0 if step == 8 else 1.0))
        train(module, optimizer, _Silent, [step])
    assert [(one.step, one.rule) for one in watch.alarms] == [(8, "loss-jump")]
    (tmp_path / "bad.yaml").write_text(JUMP.replace("usual", "unusual"))
    with pytest.raises(BinadeError, match="loss-jump"):
        binade.torch.monitor(module, optimizer, alarms=str(tmp_path / "bad.yaml"))
    with pytest.raises(RejectedError):
        binade.torch.monitor(module, optimizer, alarms="absent.yaml")
    with pytest.raises(UsageError, match="no alarm is called 'roomy'.*'room'"):
        binade.torch.monitor(module, optimizer, alarms="roomy")


class _Silent:
    """Takes the losses of a loop whose user gives others."""

    @staticmethod
    def loss(loss):
        return loss


def test_files_and_resumption(tmp_path):
    out = tmp_path / "runs" / "one"
    module, optimizer = make()
    options = {"statistics": "gradient:norm", "every": 2, "out": out}
    with binade.torch.monitor(module, optimizer, **options) as watch:
        train(module, optimizer, watch, range(1, 6))
    with pytest.raises(UsageError, match="has the steps of another run"):
        binade.torch.monitor(module, optimizer, **options)
    with binade.torch.monitor(module, optimizer, step=3, **options) as watch:
        train(module, optimizer, watch, range(4, 8))
        with pytest.raises(BinadeError, match="in use"):
            binade.torch.monitor(module, optimizer, step=3, **options)
    assert watch.steps == 7
    lines = [json.loads(line) for line in (out / "metrics.jsonl").open()]
    assert [line["step"] for line in lines] == list(range(1, 8))
    norms = [line["grad_norm"] for line in lines]
    assert [norm is None for norm in norms] == [True, False] * 3 + [True]
    found = read_statistics(out)
    assert {line["step"] for line in found} == {2, 4, 6}
    assert {line["layer"] for line in found} == set(dict(module.named_parameters()))
    last = sum(line["norm"] ** 2 for line in found if line["step"] == 6) ** 0.5
    assert norms[5] == pytest.approx(last)


def test_a_directory_without_steps_is_new(tmp_path):
    """A monitor that was closed before the first step leaves its directory usable."""
    module, optimizer = make()
    for _ in range(2):
        binade.torch.monitor(module, optimizer, out=tmp_path).close()
    with binade.torch.monitor(module, optimizer, out=tmp_path) as watch:
        train(module, optimizer, watch, [1])
    with pytest.raises(UsageError, match="has the steps of another run"):
        binade.torch.monitor(module, optimizer, out=tmp_path)


def test_events_for_tensorboard(tmp_path):
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator",
        reason="tensorboard is not installed",
    )
    module, optimizer = make()
    watch = binade.torch.monitor(
        module, optimizer, statistics="weight:norm,exponents", out=tmp_path
    )
    train(module, optimizer, watch, range(1, 4))
    expected = watch.statistics["weight/0.weight/norm"]
    watch.close()
    events = accumulator.EventAccumulator(str(tmp_path))
    events.Reload()
    assert [one.step for one in events.Scalars("train/loss")] == [1, 2, 3]
    found = events.Scalars("values-weight-norm/0.weight")[-1].value
    assert found == pytest.approx(expected)
    assert "values-weight-exponents/0.weight" in events.Tags()["histograms"]
