"""Imports steps whose learning rate is an input, and compares training with onnxruntime.

Import finds the learning rate by data flow: only updates read it, and the change of each
parameter is proportional to it.
"""

import re
import subprocess

import numpy as np
import onnx
import pytest
from support import training_graphs as graphs
from support.paths import BUILD
from support.recovery import PIPELINES, Exported, compare_steps, get_roles, lower

RATE = 0.03
# A decay that depends on an input is not a constant, so the graph has to compute it.
DECAY = """
  lost = Mul(rate, share)
  decay = Sub(one, lost)
"""


@pytest.fixture
def given(monkeypatch):
    """Makes steps whose `rate` is an input; some are changed line by line."""

    def make(optimizer, seed=0, changes=(), rates=("rate",)):
        nodes = graphs.UPDATES[optimizer]
        for line, instead in dict(changes).items():
            assert line in nodes
            nodes = nodes.replace(line, instead)
        monkeypatch.setitem(graphs.UPDATES, optimizer, nodes)
        numbers = {name: value for name, value in graphs.NUMBERS.items()
                   if name not in ("rate", "decay")}  # fmt: skip
        monkeypatch.setattr(graphs, "NUMBERS", numbers | {"share": 0.1})
        data = [*graphs.DATA, *(f"float {name}" for name in rates)]
        monkeypatch.setattr(graphs, "DATA", data)
        if optimizer == "adamw":
            monkeypatch.setattr(graphs, "FORWARD", graphs.FORWARD + DECAY)
        exported = Exported(optimizer, seed)
        for name in rates:
            exported.inputs[exported.new[name]] = np.array(RATE, np.float32)
        return exported

    return make


def check_training(exported, tmp_path, settings=f"lr={RATE}"):
    module = lower(tmp_path, exported.model, *PIPELINES[:2],
                   f"{PIPELINES[2]}=settings={settings}")  # fmt: skip
    roles = get_roles(module, "step")
    batch = set(exported.pick("xy"))
    assert {name for name, role in roles.items() if role == "batch"} == batch
    compare_steps(exported, module, tmp_path, RATE)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    "optimizer, rule",
    [("sgd", "sgd"), ("momentum", "sgd"), ("adamw", "adamw"), ("unknown", "exported")],
)
def test_steps_train_with_a_rate_from_an_input(optimizer, rule, seed, given, tmp_path):
    exported = given(optimizer, seed)
    text = lower(tmp_path, exported.model, *PIPELINES[:1])
    assert re.findall(r"binade.optimizer @(\w+) ", text) == [rule]
    check_training(exported, tmp_path)


def test_a_step_count_can_be_an_input(given, monkeypatch, tmp_path):
    """It starts at 1: with 0, bias correction would divide by 0 in the first update."""
    nodes = graphs.COUNT.replace("Add(step, one)", "Cast <to = 1> (count)")
    monkeypatch.setattr(graphs, "FORWARD", graphs.FORWARD + nodes)
    monkeypatch.setattr(graphs, "COUNTS", set())
    monkeypatch.setattr(graphs, "DATA", [*graphs.DATA, "int64 count"])
    exported = given("adamw")
    count, step = exported.new["count"], exported.step
    exported.inputs[count] = np.array(1)

    def step_and_count():
        loss = step()
        exported.inputs[count] += 1
        return loss

    monkeypatch.setattr(exported, "step", step_and_count)
    text = lower(tmp_path, exported.model, *PIPELINES[:1])
    assert re.findall(r"binade.optimizer @(\w+) ", text) == ["adamw"]
    check_training(exported, tmp_path)


def test_rates_of_groups_are_one_setting(given, tmp_path):
    """Each parameter has its own input; `--group` sets different values."""
    exported = given("sgd", 0, {"Mul(rate, g)": "Mul(rate_p, g)"},
                     [f"rate_{name}" for name in graphs.SHAPES])  # fmt: skip
    slow = ["w1", "b1"]
    for name in slow:
        exported.inputs[exported.new[f"rate_{name}"]] /= 2
    groups = ",".join(f"{exported.new[name]}:lr={RATE / 2}" for name in slow)
    check_training(exported, tmp_path, f"lr={RATE} group={groups}")


# Updates that read a scalar input which is not a learning rate: no optimizer is recovered.
OTHERS = {
    "weight of the gradient in a state": ("momentum", {
        "n.m.p = Add(kept_p, g)": "gs_p = Mul(g, rate)\n  n.m.p = Add(kept_p, gs_p)",
        "step_p = Mul(n.m.p, rate)": "step_p = Mul(n.m.p, one)"}),
    "share of the momentum": ("momentum", {
        "kept_p = Mul(m.p, c9)": "kept_p = Mul(m.p, rate)",
        "step_p = Mul(n.m.p, rate)": "step_p = Mul(n.m.p, c1)"}),
    "bound of the change": ("momentum", {
        "step_p = Mul(n.m.p, rate)": "up_p = Min(n.m.p, rate)\n"
        "  low_p = Neg(rate)\n  step_p = Max(up_p, low_p)"}),
    "its square, too": ("momentum", {
        "step_p = Mul(n.m.p, rate)": "half_p = Mul(n.m.p, rate)\n"
        "  more_p = Add(rate, one)\n  step_p = Mul(half_p, more_p)"}),
}  # fmt: skip


@pytest.mark.parametrize("other", OTHERS)
def test_other_scalar_inputs_are_not_learning_rates(other, given, tmp_path):
    optimizer, changes = OTHERS[other]
    text = lower(tmp_path, given(optimizer, 0, changes).model, *PIPELINES[:1])
    assert "func.func @forward(" in text and "binade.optimizer" not in text


def test_a_scalar_that_the_loss_reads_is_a_batch_input(given, monkeypatch, tmp_path):
    monkeypatch.setattr(graphs, "FORWARD", graphs.FORWARD.replace(
        "loss =", "mean =") + "  loss = Mul(mean, rate)\n")  # fmt: skip
    text = lower(tmp_path, given("momentum").model, *PIPELINES[:1])
    assert "binade.optimizer" not in text


def test_a_gradient_seed_is_not_a_learning_rate(given, monkeypatch, tmp_path):
    """The graph has two scalar inputs: the rate, and the seed of the backward pass."""
    monkeypatch.setattr(graphs, "BACKWARD", graphs.BACKWARD.replace(
        "dr = Mul(d, mean_slope)",
        "dm = Mul(d, mean_slope)\n  dr = Mul(dm, seed)"))  # fmt: skip
    exported = given("momentum", rates=("rate", "seed"))
    text = lower(tmp_path, exported.model, *PIPELINES[:1])
    roles = get_roles(text, "gradient")
    assert {name for name, role in roles.items() if role == "batch"} == set(
        exported.pick(["x", "y", "seed"])
    )
    assert f'binade.rates = ["{exported.new["rate"]}"]' in text


def run_binade(folder, command, model, *flags):
    onnx.save(model, folder / "m.onnx")
    return subprocess.run(
        [BUILD / "bin" / "binade", command, folder / "m.onnx", *flags],
        check=False, capture_output=True, text=True, timeout=600,
    )  # fmt: skip


@pytest.mark.parametrize("optimizer", ["adamw", "unknown"])
def test_a_rate_without_a_value(optimizer, given, tmp_path):
    """Known optimizers use their default and warn. Others are not compiled."""
    exported = given(optimizer)
    name, out = exported.new["rate"], tmp_path / "step.bnd"
    done = run_binade(tmp_path, "import", exported.model, "--report",
                      "-o", tmp_path / "m.mlir")  # fmt: skip
    assert f"learning rate: 1 inputs: '{name}'" in done.stderr
    is_known = optimizer == "adamw"
    assert ("lr = 0.001" if is_known else "lr = to be given") in done.stderr
    done = run_binade(tmp_path, "compile", exported.model, "-o", out)
    if is_known:
        assert done.returncode == 0, done.stderr
        assert f"'{name}'" in done.stderr
        assert "takes the default of 'adamw', 0.001" in done.stderr
    else:
        assert done.returncode == 3
        assert "no default for 'lr'" in done.stderr
    done = run_binade(tmp_path, "compile", exported.model, "--lr", "0.1", "-o", out)
    assert done.returncode == 0, done.stderr
    assert "default" not in done.stderr
