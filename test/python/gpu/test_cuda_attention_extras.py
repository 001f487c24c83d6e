"""Attention with dropout, masks, biases and a soft cap on a device: one kernel computes it, and a
small model trains as on the CPU, where matmuls and a softmax do."""

import json

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from support.attention_graphs import BATCH, MODELS, SHAPE, TRAINED, compile_model
from support.cuda_runs import CUDNN, SIMULATED, need_simulated_driver, run
from support.reference import safetensors

pytestmark = pytest.mark.usefixtures("with_libraries")

STEPS = 2
LIBRARIES = f"{CUDNN}:{SIMULATED}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    need_simulated_driver()
    folder = tmp_path_factory.mktemp("extras")
    draw = np.random.default_rng(7)
    size = (BATCH * STEPS, *SHAPE[1:])
    data = {key: draw.standard_normal(size, np.float32) for key in ("x", "target")}
    safetensors.save(folder / "data.safetensors", data)
    for name in MODELS:
        for target in ("cpu", "cuda"):
            compile_model(folder, name, target)
    return folder


def train(folder, target, name, out, **environment):
    """Returns the standard error, the parameters, and the calls of attention: forward and gradients
    of the step, forward of the evaluation, where attention may be plain.
    """
    done = run(
        "binade-run", folder / f"{target}-{name}.bnd", "--data",
        folder / "data.safetensors", "--steps", STEPS, "--order", "sequential", "--device",
        target, "--out", out, library_path=LIBRARIES,
        BINADE_SIMULATED_KERNELS=str(folder), **environment,
    )  # fmt: skip
    about = json.loads((out / "run.json").read_text())["invocations"][0]
    calls = [call for call in about["contractions"] if "attention" in call["record"]]
    return done.stderr, safetensors.load(out / "final.safetensors"), calls


def list_records(folder, name):
    plan = json.loads(
        run("binade", "inspect", folder / f"cuda-{name}.bnd", "--json").stdout
    )
    return plan, [r for r in plan["records"] if r["kind"] == "attention"]


@pytest.mark.parametrize("name", MODELS)
def test_own_kernels_train_as_the_cpu_does(name, folder, tmp_path):
    """cuDNN is not asked, so that it refuses nothing. Dropout drops the same probabilities."""
    plan, records = list_records(folder, name)
    assert sorted("gradients" in record for record in records) == [False, True]
    for record in records:
        assert MODELS[name] - set(TRAINED) <= set(record)
        assert "library_scratch" not in record
    gradients = next(r["gradients"] for r in records if "gradients" in r)
    wanted = len(MODELS[name] & set(TRAINED))
    assert len(gradients.get("dbiases", [])) == wanted
    _, expected, _ = train(folder, "cpu", name, tmp_path / "cpu")
    errors, found, calls = train(folder, "cuda", name, tmp_path / "cuda")
    assert [call["by"] for call in calls[:2]] == ["own kernel"] * 2
    assert not any("refusal" in call for call in calls)
    assert "own kernels" not in errors
    start = onnx.load(folder / f"{name}.onnx").graph.initializer
    for initializer in start:
        first = numpy_helper.to_array(initializer, str(folder))
        own, other = found[initializer.name], expected[initializer.name]
        change = np.abs(other - first).max()
        assert change > 0
        np.testing.assert_allclose(own, other, rtol=0, atol=2**-5 * change)


def test_cudnn_refuses_what_its_graphs_have_not(folder, tmp_path):
    errors, _, calls = train(
        folder, "cuda", "dropout", tmp_path / "run", BINADE_CONTRACTION="library"
    )
    assert {call["by"] for call in calls if "refusal" in call} == {"own kernel"}
    assert "the graphs for cuDNN have no mask, bias, soft cap or dropout" in errors


@pytest.mark.parametrize("name", MODELS)
def test_verify_accepts_the_kernels(name, folder):
    done = run(
        "binade", "verify", folder / f"cuda-{name}.bnd", "--device", "cuda", "--data",
        folder / "data.safetensors", BINADE_SIMULATED_KERNELS=str(folder),
    )  # fmt: skip
    assert "are within the bound" in done.stdout + done.stderr
