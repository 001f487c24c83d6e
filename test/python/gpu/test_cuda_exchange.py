"""Graphs of a device are cut where a step exchanges gradients, on the simulated driver."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from support.cuda_runs import SIMULATED, need_simulated_driver, run
from support.paths import ROOT

onnx = pytest.importorskip("onnx")

from support.exchanged_steps import BATCHES, make_model  # noqa: E402


STEPS = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    need_simulated_driver()
    return tmp_path_factory.mktemp("cuda_exchange")


def compile_for_device(path, exchange=None, code=0):
    model = path.parent / "net.onnx"
    onnx.save(make_model(), model)
    more = ["--exchange", exchange] if exchange else []
    return run(
        "binade", "compile", model, "--loss", "mse(y, t)", "--train", "w*", "--train", "b*",
        "--optimizer", "adamw", "--accumulate", BATCHES, "--target", "cuda:sm_90",
        "--save-kernels", path.parent, *more, "-o", path, code=code,
    )  # fmt: skip


def train(folder, bundle, size):
    """Returns what `simulated_exchange.py` printed and saved."""
    out = folder / f"{bundle.stem}-{size}.npz"
    done = subprocess.run(
        [sys.executable, ROOT / "test/python/support/simulated_exchange.py", bundle, out,
         str(size)],
        env=dict(
            os.environ, LD_LIBRARY_PATH=str(SIMULATED), PYTHONPATH=os.pathsep.join(sys.path),
            BINADE_SIMULATED_KERNELS=str(folder),
        ),
        capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), dict(np.load(out))


def test_a_group_of_one_computes_the_bits_of_a_step_without_exchange(folder):
    plain, exchanging = folder / "plain.bnd", folder / "f32.bnd"
    compile_for_device(plain)
    compile_for_device(exchanging, "f32")
    _, expected = train(folder, plain, 0)
    report, found = train(folder, exchanging, 1)
    _, alone = train(folder, exchanging, 0)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
        np.testing.assert_array_equal(alone[name], value, err_msg=name)
    count = report["events"][-1][1]
    assert count >= 4
    step = [["start", bucket] for bucket in range(count)] + [["join", count]]
    assert report["events"] == step * STEPS
    assert (report["streams"], report["null"]) == (1, False)
    _, other = train(folder, exchanging, 2)
    assert any(not np.array_equal(other[name], expected[name]) for name in expected)
    # The generator is that of all batches of the steps.
    np.testing.assert_array_equal(other["rng"], [3, BATCHES * STEPS])
    np.testing.assert_array_equal(expected["rng"], [3, BATCHES * STEPS])


@pytest.mark.parametrize("exchange", ["exact", "bf16", "e4m3"])
def test_formats_that_a_device_lacks_are_rejected(exchange, folder):
    done = compile_for_device(folder / "other.bnd", exchange, code=3)
    assert "use '--exchange f32'" in done.stderr
