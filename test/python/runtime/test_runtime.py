"""The C interface of the runtime, called from Python by ctypes.

The tests write bundles from the description of the format, without Binade's writer.
BINADE_BUILD names the build directory (default: build/release).
"""

import ctypes
import os
import subprocess
import sys

import pytest
from support.paths import ROOT
from support.runtime import (
    KERNELS,
    LIBRARY,
    Runtime,
    T,
    Tensor,
    X,
    regression_plan,
    write_bundle,
)

np = pytest.importorskip("numpy")


pytestmark = pytest.mark.skipif(
    not (LIBRARY.exists() and KERNELS.exists()), reason=f"{LIBRARY} is not built"
)


@pytest.fixture(scope="module")
def runtime():
    return Runtime()


def descend(w, lr, steps):
    """Gradient descent of the same regression, by NumPy in f64."""
    losses = []
    for _ in range(steps):
        error = w * X.astype(np.float64) - T
        losses.append(np.mean(error**2))
        w -= lr * np.mean(2 * error * X)
    return w, losses


@pytest.fixture
def program(runtime):
    code, program = runtime.load(write_bundle(regression_plan()), seed=11)
    assert code == 0, runtime.error()
    return program


def test_a_step_trains(program):
    assert program.assign("batch", "x", X) == 0
    assert program.assign("batch", "t", T) == 0
    assert program.assign("hyper", "lr", np.array(0.25)) == 0
    losses = []
    for _ in range(20):
        assert program.run() == 0
        losses.append(float(program.find("metric", "loss")))
    w, expected = descend(2.0, 0.25, 20)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    np.testing.assert_allclose(program.find("parameter", "w"), [w], rtol=1e-6)
    assert program.find("step", "step") == 20
    np.testing.assert_array_equal(program.find("output", "outer"), np.outer(X, X))


def test_initial_values(program):
    assert program.find("parameter", "w") == [2]
    assert program.find("hyper", "lr") == 0.5
    assert program.find("buffer", "running") == [7]
    np.testing.assert_array_equal(program.find("rng", "rng"), [11, 0])


def test_tensors_are_listed(program, runtime):
    assert program.tensor_count() == 11
    seen = []
    for index in range(11):
        tensor = Tensor()
        assert program.tensor_at(ctypes.c_size_t(index), ctypes.byref(tensor)) == 0
        seen.append((tensor.role.decode(), tensor.name.decode(), tensor.rank))
    assert seen[0] == ("parameter", "w", 1)
    assert seen[10] == ("output", "outer", 2)
    assert program.tensor_at(ctypes.c_size_t(11), ctypes.byref(Tensor())) == 2
    assert runtime.error() == "binade: error: no tensor 11, the program has 11"


def test_state_is_saved_and_restored(program, runtime, tmp_path):
    program.find("parameter", "w")[0] = 5
    program.find("step", "step")[...] = 3
    path = os.fsencode(tmp_path / "state.safetensors")
    assert program.save(path) == 0
    _, other = runtime.load(write_bundle(regression_plan()))
    assert other.restore(path) == 0
    assert other.find("parameter", "w") == [5]
    assert other.find("step", "step") == 3
    assert other.restore(os.fsencode(tmp_path / "none")) == 3
    assert "none" in runtime.error()
    assert program.save(os.fsencode(tmp_path / "no" / "directory")) != 0


def test_errors_of_invalid_calls(program, runtime):
    assert program.assign("batch", "y", X) == 2
    assert runtime.error() == "binade: error: the program has no batch 'y'"
    assert program.assign("input", "x", X) == 2
    assert runtime.error() == "binade: error: no role is called 'input'"
    assert program.assign("batch", "x", X[:3]) == 2
    assert runtime.error() == "binade: error: batch 'x' has 16 bytes, got 12"
    assert program.assign("batch", "t", np.int64([1, 2, 100, 3])) == 3
    assert runtime.error() == "batch 't': error: element 2 is 100, not in [0, 100)"
    assert program.assign("batch", "t", np.int64([1, 2, -1, 3])) == 0


def test_hyper_parameters_out_of_range_are_rejected(program, runtime):
    for value, wrong in [
        (-0.5, "at least 0, got -0.5"),
        (1.0, "below 1, got 1"),
        (np.nan, "finite, got nan"),
    ]:
        assert program.assign("hyper", "lr", np.array(value)) == 3
        assert runtime.error() == f"hyper 'lr': error: lr must be {wrong}"
    assert program.find("hyper", "lr") == 0.5
    assert program.assign("hyper", "lr", np.array(0.0)) == 0
    assert program.find("hyper", "lr") == 0


def test_errors_of_invalid_bundles(runtime, tmp_path):
    code, _ = runtime.load(tmp_path / "absent")
    assert code == 3 and "absent" in runtime.error()
    code, _ = runtime.load(b"not a bundle")
    assert code == 3 and runtime.error().startswith("bundle in memory: error: ")
    plan = regression_plan()
    plan["records"][1]["m"] = 5
    code, _ = runtime.load(write_bundle(plan))
    assert code == 3
    assert runtime.error() == (
        "bundle in memory:record 1 'outer': error: lhs reaches element 4 of buffer "
        "'x', which has 4"
    )
    path = tmp_path / "good"
    path.write_bytes(write_bundle(regression_plan()))
    code, program = runtime.load(path, threads=1)
    assert code == 0 and program.run() == 0


def test_only_the_interface_is_exported(runtime):
    symbols = subprocess.run(
        ["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True
    ).stdout.split("\n")
    names = {line.split()[-1].split("@")[0] for line in symbols if line}
    assert {name for name in names if not name.startswith("binade_")} <= {"BINADE_1"}
    assert "binade_program_run" in names
    assert runtime.library.binade_c_api_version() == 5
    assert runtime.library.binade_version().decode().count(".") == 2


def test_a_process_with_torch_has_one_openmp(tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "bundle").write_bytes(write_bundle(regression_plan()))
    script = f"""
import sys
sys.path.insert(0, {str(ROOT / "test/python")!r})
import torch
torch.set_num_threads(2)
before = torch.ones(300, 300) @ torch.ones(300, 300)
from support.runtime import Runtime
runtime = Runtime()
code, program = runtime.load({str(tmp_path / "bundle")!r})
assert code == 0 and program.run() == 0, runtime.error()
assert torch.get_num_threads() == 2
assert torch.equal(torch.ones(300, 300) @ torch.ones(300, 300), before)
lines = open("/proc/self/maps").read().split("\\n")
print(len({{line.split()[-1] for line in lines if "gomp" in line}}))
"""
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=600
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "1"
