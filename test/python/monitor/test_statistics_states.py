"""Statistics of quantized states are those of the dequantized values, which numpy
decodes from the checkpoints of the run."""

import numpy as np
import pytest
from binade.run import read_statistics
from support.codec import formats
from support.reference import ONE_WEIGHT, binade, safetensors, write_model

pytest.importorskip("onnx")
F32 = np.float32
# Neither a multiple of a group nor of the two elements of a byte.
SHAPE = (39, 65)
STEPS = 4
PARTS = ("", ".scale", ".power", ".centre")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("states")
    draw = np.random.default_rng(5)
    text = ONE_WEIGHT.replace("[2, 4]", f"[2, {SHAPE[0]}]")
    text = text.replace("[4, 4]", str(list(SHAPE)))
    write_model(folder, text, ["weight"], draw.standard_normal(SHAPE).astype(F32))
    x = draw.standard_normal((2 * STEPS, SHAPE[0])).astype(F32)
    safetensors.save(folder / "data.safetensors", {"x": x})
    return folder


@pytest.mark.parametrize("name", [name for name in formats(True) if name != "f32"])
def test_statistics_are_those_of_dequantized_states(folder, tmp_path, name):
    process = binade(
        "train", folder / "model.onnx", "--data", folder / "data.safetensors",
        "--optimizer", "adamw", "--steps", STEPS, "--save-every", 1, "--keep", 9,
        "--states", f"*:{name}", "--stats", "state:absmax,zeros,norm", "--out",
        tmp_path / "run",
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    found = {
        (line["step"], line["layer"]): line
        for line in read_statistics(tmp_path / "run")
    }
    count = int(np.prod(SHAPE))
    for step in range(2, STEPS + 1):
        path = tmp_path / f"run/checkpoints/step-{step - 1:06d}/state.safetensors"
        kept = safetensors.load(path)
        for state in ("exp_avg/weight", "exp_avg_sq/weight"):
            codec = formats(state == "exp_avg/weight")[name]
            parts = [
                kept[f"state/{state}{part}"].ravel()
                for part in PARTS
                if f"state/{state}{part}" in kept
            ]
            x = codec.decode(parts, count)
            line = found[step, state]
            # Range expansion computes a power, whose last bits may differ.
            rtol = 1e-5 if codec.expand else 0
            np.testing.assert_allclose(line["absmax"], np.abs(x).max(), rtol=rtol)
            assert line["zeros"] == np.mean(x == 0)
            norm = np.linalg.norm(x.astype(np.float64))
            np.testing.assert_allclose(line["norm"], norm, rtol=max(rtol, 1e-9))
            for part in PARTS[1 : len(parts)]:
                largest = np.abs(kept[f"state/{state}{part}"]).max()
                assert found[step, state + part]["absmax"] == largest
