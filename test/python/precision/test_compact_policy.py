"""`--policy bf16-compact`: bytes per parameter, and training close to that with f32 states."""

import re

import numpy as np
import pytest
from support.message_models import write
from support.reference import BF16, binade, safetensors
from support.shared_models import Model
from support.storage import decode_error

LAYERS, WIDTH = 6, 512
COUNT = LAYERS * WIDTH * WIDTH
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20}


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    """A model of square layers and one row of data, so that weights take nearly all memory."""
    names = [f"w{index}" for index in range(LAYERS)]
    layers = "".join(
        f"h{i + 1} = MatMul(h{i}, {name})\n" for i, name in enumerate(names)
    )
    draw = np.random.default_rng(0)
    return write(
        tmp_path_factory.mktemp("stack") / "model.onnx",
        f"h0 = Identity(x)\n{layers}loss = SoftmaxCrossEntropyLoss(h{LAYERS}, labels)",
        inputs=f"float[1, {WIDTH}] x, int64[1] labels",
        weights={
            name: draw.standard_normal((WIDTH, WIDTH)).astype("f4") for name in names
        },
        trainable=names,
    )


@pytest.mark.parametrize("options, parameter, state, gradient", [
    # Weights and both moments in f32, and the gradient.
    (["fp32"], 4, 8, 4),
    # bf16; a rounding error, two moments, and two scales in 2 bytes for 32 elements; bf16.
    (["bf16-compact"], 2, 1 + 2 * (1 + 2 / 32), 2),
    (["bf16-compact", "--release-gradients"], 2, 1 + 2 * (1 + 2 / 32), 0),
])  # fmt: skip
def test_bytes_per_parameter(options, parameter, state, gradient, stack):
    process = binade("inspect", stack, "--optimizer", "adamw", "--policy", *options)
    assert process.returncode == 0, process.stderr
    line = re.search(r"^memory .*", process.stdout, re.MULTILINE)[0]
    found = {
        name: float(size) * UNITS[unit] / COUNT
        for name, size, unit in re.findall(r"(\w+) ([\d.]+) (\w+)", line)
    }
    assert found["parameter"] == pytest.approx(parameter, abs=0.05)
    assert found["state"] == pytest.approx(state, abs=0.05)
    # The gradients of one layer are released together.
    assert found["gradient"] == pytest.approx(gradient, abs=2 / LAYERS + 0.05)
    assert found["memory"] == pytest.approx(parameter + state + gradient, abs=0.5)


def test_losses_match_pytorch(tmp_path):
    model = Model("mlp-digits", tmp_path)
    run = model.train("bf16-compact", "adamw")
    single = model.autocast["fp32"]["adamw"]["loss"]
    narrow = model.autocast["bf16-amp"]["adamw"]["loss"]
    allowed = 8 * np.abs(np.subtract(single, narrow)).max()
    np.testing.assert_allclose(run.column("loss"), single, rtol=0, atol=allowed)
    weight = run.final["fc1.weight"]
    assert weight.dtype == BF16
    assert run.final["state/remainder/fc1.weight"].dtype == np.int8
    assert run.final["state/exp_avg/fc1.weight"].dtype == np.int8
    assert run.final["state/exp_avg_sq/fc1.weight.scale"].dtype == np.float16
    exact = decode_error(weight, run.final["state/remainder/fc1.weight"])
    far = np.abs(exact - model.recorded["adamw.step10.fc1.weight"]) > 2e-3
    assert far.mean() < 0.01


def test_a_resumed_run_has_the_same_bits(stack, tmp_path):
    data = tmp_path / "data.safetensors"
    draw = np.random.default_rng(1)
    x = draw.standard_normal((8, WIDTH)).astype("f4") / 100
    safetensors.save(data, {"x": x, "labels": np.arange(8)})

    def train(out, steps, option="--out"):
        process = binade("train", stack, "--data", data, "--policy", "bf16-compact",
                         "--optimizer", "adamw", "--lr", 1e-3, "--steps", steps,
                         "--release-gradients", "--save-every", 3, option, tmp_path / out)  # fmt: skip
        assert process.returncode == 0, process.stderr
        return safetensors.load(tmp_path / out / "final.safetensors")

    whole = train("whole", 6)
    train("half", 3)
    resumed = train("half", 6, "--resume")
    assert whole.keys() == resumed.keys()
    for name, value in whole.items():
        assert value.tobytes() == resumed[name].tobytes(), name
