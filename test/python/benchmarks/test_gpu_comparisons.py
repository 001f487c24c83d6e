"""What benchmarks/gpu does if a peer fails, and what it says about it."""

import sys
import types

import numpy as np
import pytest
from support.paths import ROOT

sys.path.insert(0, str(ROOT / "benchmarks" / "gpu"))

import autotune
import comparison
import kernels
import peers
import selection
import timing
import whole
from cases import CASES
from comparison import OURS, Comparison
from steps import COMPILED, STEPS


@pytest.fixture
def with_device(monkeypatch):
    """As if PyTorch saw a device."""
    monkeypatch.setattr(peers, "HAS_DEVICE", True)


def fail_at(number):
    """Returns a call that fails when it runs for the `number`th time."""
    count = 0

    def call():
        nonlocal count
        count += 1
        if count == number:
            raise RuntimeError("an illegal memory access was encountered")

    return call


def make_failing(number):
    if number == 0:
        raise ModuleNotFoundError("No module named 'torchao'")
    return fail_at(number)


REASON = "RuntimeError: an illegal memory access was encountered"


@pytest.mark.parametrize("number, reason", [
    (0, "ModuleNotFoundError: No module named 'torchao'"),  # When it is made.
    (1, REASON),  # When it runs first.
    (3, REASON),  # When it warms up.
    (6, REASON),  # In the second round.
])  # fmt: skip
def test_a_peer_that_fails_is_left_out(number, reason, with_device):
    row = Comparison("row")
    row.sides[OURS] = ours = fail_at(-1)
    row.add("broken", lambda: make_failing(number))
    row.add("good", lambda: ours)
    row.measure(4)
    assert row.times.keys() == {OURS, "good"}
    assert all(len(times) == 4 for times in row.times.values())
    fields = row.describe({"broken": 0.9, "good": None, "other": 1.0})
    assert fields["peers"].keys() == {"good"} and fields["peers"]["good"]["ms"] >= 0
    assert fields["unavailable"] == {"broken": {"goal": 0.9, "reason": reason}}


def test_an_error_of_binade_is_not_hidden(with_device):
    row = Comparison("row")
    row.sides[OURS] = fail_at(5)
    with pytest.raises(RuntimeError, match="illegal"):
        row.measure(4)


def test_without_a_device_peers_are_not_made(monkeypatch):
    monkeypatch.setattr(peers, "HAS_DEVICE", False)
    row = Comparison("row")
    row.add("peer", lambda: pytest.fail("was made"))
    assert row.unavailable == {"peer": comparison.NO_DEVICE}


class Program:
    def __init__(self):
        self.run = fail_at(-1)

    def __getitem__(self, key):
        assert key == ("metric", "loss")
        return np.float32(9.5)


class Loaded(whole.LoadedStep):
    """A step of 7 GiB that has no bundle."""

    def __init__(self, step, folder, random):
        self.step, self.program, self.memory, self.batch = step, Program(), 7 << 30, {}
        plan = {"records": [], "arena_bytes": 7 << 30}
        self.bundle = types.SimpleNamespace(plan=plan, live_bytes=lambda: 7 << 30)


def measure_steps(monkeypatch, make):
    monkeypatch.setattr(whole, "LoadedStep", Loaded)
    monkeypatch.setattr(whole, "make_peer", make)
    monkeypatch.setattr(whole.profiles, "measure", lambda *_: {})
    known = whole.Known()
    return [whole.measure(step, None, known, None) for step in STEPS[:2]]


def test_a_step_is_compared_with_peers_and_other_steps(with_device, monkeypatch):
    made = []

    def make(step, batch):
        made.append(step.name)
        return fail_at(-1), lambda: 14 << 30

    first, second = measure_steps(monkeypatch, make)
    assert made == ["gpt2-bf16"]  # Both steps are of this model.
    assert first["memory_peers"][COMPILED]["ratio"] == 0.5
    assert first["peers"][COMPILED]["goal"] == 0.95
    assert second["peers"].keys() == {COMPILED, "gpt2-bf16"}
    assert second["memory_peers"][COMPILED] == {
        "ratio": 0.5,
        "goal": 0.45,
        "bytes": 14 << 30,
    }
    assert "unavailable" not in first | second


@pytest.mark.parametrize("number", [0, 1])
def test_a_step_without_its_peer_says_why(number, with_device, monkeypatch):
    def make(step, batch):
        return make_failing(number), lambda: 0

    first, second = measure_steps(monkeypatch, make)
    for row in (first, second):
        assert COMPILED not in row["peers"] and row["memory_peers"] == {}
        assert "Error: " in row["unavailable"][COMPILED]["reason"]
        assert "Error: " in row["memory_unavailable"][COMPILED]["reason"]
    assert first["unavailable"][COMPILED]["goal"] == 0.95
    assert first["memory_unavailable"][COMPILED]["goal"] == 0.60
    assert second["peers"].keys() == {"gpt2-bf16"}


def test_the_other_step_was_not_measured():
    row = {"memory": 1}
    whole.Known().compare(row, STEPS[3], [1.0])
    reason = row["unavailable"]["llama-bf16"]["reason"]
    assert reason == "llama-bf16 was not measured in this run"


def test_autotuning_is_a_row_of_its_own(with_device, monkeypatch, tmp_path):
    modes = []

    def make(step, batch, mode):
        modes.append(mode)
        return fail_at(-1), lambda: 14 << 30

    monkeypatch.setattr(whole, "LoadedStep", Loaded)
    monkeypatch.setattr(whole, "make_peer", make)
    monkeypatch.setattr(autotune, "read_manifest", lambda _: {"tiny": False})
    monkeypatch.setattr(autotune, "list_made", lambda steps, _: steps)
    rows = []
    monkeypatch.setattr(autotune.Rows, "add", lambda self, row: rows.append(row))
    autotune.main(tmp_path, tmp_path / "out.json")
    assert modes == ["max-autotune"]
    (row,) = rows
    assert (row["part"], row["name"]) == ("autotune", "gpt2-bf16")
    assert row["peers"].keys() == {"torch.compile, bf16, max-autotune"}
    assert row["memory_peers"]["torch.compile, bf16, max-autotune"]["ratio"] == 0.5


def test_quick_runs_leave_out_what_takes_long(with_device, monkeypatch):
    for name, value in selection.write(["row"], True, False).items():
        monkeypatch.setenv(name, value)
    assert selection.is_wanted("row") and not selection.is_wanted("group")
    assert selection.count_rounds(25) == 8 and selection.count_rounds(3) == 3
    cases = {case.name: case for case in CASES}
    row = Comparison("row")
    kernels.add_peer(row, cases["row"], "torch.compile", kernels.Inputs(None))
    assert "left out with --quick" in row.unavailable["torch.compile"]
    monkeypatch.setitem(peers.UPDATES, "fused", lambda _: fail_at(-1))
    inputs = types.SimpleNamespace(values=dict)
    kernels.add_peer(row, cases["adamw"], "fused", inputs)
    assert "fused" in row.sides


def test_no_side_is_always_the_first():
    order = []
    sides = {name: lambda name=name: order.append(name) for name in "abc"}
    timing.alternate(sides, rounds=3, warmup=0)
    assert order == [*"abc", *"bca", *"cab"]
