"""The best state of a run is exported as ONNX and loaded into arrays and modules."""

import json

import numpy as np
import pytest
from support.checkpoint_runs import Runs
from support.reference import binade, safetensors

from binade import trained
from binade.errors import RejectedError

onnx = pytest.importorskip("onnx")

WEIGHTS = ["up", "gain", "shift", "down"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return Runs(tmp_path_factory.mktemp("best"))


@pytest.fixture(scope="module")
def run(runs):
    """A run whose held-out loss rises at the end."""
    out = runs.folder / "run"
    runs.train("--out", out, "--eval-fraction", 0.32, "--eval-every", 2, "--optimizer", "adamw", "--lr", 0.1,
               "--keep-best", bundle=False, steps=24, every=0)  # fmt: skip
    return out


def test_the_best_state_is_exported(run, tmp_path):
    process = binade("export", run, "--best", "-o", tmp_path / "best.onnx")
    assert process.returncode == 0, process.stderr
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    losses = {x["step"]: x["eval_loss"] for x in lines if x["eval_loss"] is not None}
    step = min(losses, key=losses.get)
    assert 0 < step < 24
    assert f"best.safetensors after step {step};" in process.stdout
    stored = onnx.load(tmp_path / "best.onnx").graph.initializer
    found = {x.name: onnx.numpy_helper.to_array(x) for x in stored}
    best = safetensors.load(run / "best.safetensors")
    assert all(np.array_equal(found[name], best[name]) for name in WEIGHTS)


def test_the_best_state_is_loaded(run):
    best, final = (trained.load_state(run, best=x) for x in (True, False))
    for state, file in ((best, "best.safetensors"), (final, "final.safetensors")):
        expected = safetensors.load(run / file)
        assert all(np.array_equal(state[name], expected[name]) for name in WEIGHTS)
    assert not np.array_equal(best["up"], final["up"])


def test_the_best_state_is_loaded_into_a_module(run):
    torch = pytest.importorskip("torch")

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            for name, shape in (("up", (6, 32)), ("down", (32, 3))):
                self.register_parameter(name, torch.nn.Parameter(torch.zeros(shape)))
            for name in ("gain", "shift"):
                self.register_parameter(name, torch.nn.Parameter(torch.zeros(32)))
            for name in ("mean", "var"):
                self.register_buffer(name, torch.zeros(32))

    net = Net()
    trained.load(net, run, best=True)
    expected = safetensors.load(run / "best.safetensors")
    for name, value in net.state_dict().items():
        assert np.array_equal(value.numpy(), expected[name]), name


def test_a_run_without_a_best_state(runs, tmp_path):
    run = tmp_path / "run"
    runs.train("--out", run, bundle=False, steps=1, every=0)
    process = binade("export", run, "--best", "-o", tmp_path / "best.onnx")
    assert process.returncode == 3
    assert f"{run}/best.safetensors: error: does not exist" in process.stderr
    assert "--keep-best or --patience" in process.stderr
    with pytest.raises(RejectedError, match="has no best.safetensors"):
        trained.load_state(run, best=True)
    process = binade("export", run, "--best", "--checkpoint", 1, "-o", "x.onnx")
    assert process.returncode == 2
