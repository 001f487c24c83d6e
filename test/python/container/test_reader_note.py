"""`binade train` names a reader for files with formats that safetensors.numpy rejects."""

import ml_dtypes
import numpy as np
import pytest
from support.reference import binade, safetensors
from support.traced_models import TWO_LAYERS, write

pytest.importorskip("onnx")
numpy_reader = pytest.importorskip("safetensors.numpy")

F32 = np.float32
RANDOM = np.random.default_rng(3)
SIZE = 64  # States of 8 bits need parameters of 4096 elements or more.
MODEL = TWO_LAYERS.replace("4, 8", f"4, {SIZE}").replace("8, 8", f"{SIZE}, {SIZE}")


@pytest.mark.parametrize(
    "states, formats",
    [("f32", set()), ("e4m3", {"F8_E4M3"}), ("e5m2", {"F8_E5M2"}), ("bf16", set())],
)
def test_train_names_formats_that_numpy_cannot_read(states, formats, tmp_path):
    weights = {
        name: (RANDOM.standard_normal((SIZE, SIZE)) / 8).astype(F32)
        for name in ("first", "second")
    }
    write(tmp_path, MODEL, RANDOM.standard_normal((16, SIZE)).astype(F32), **weights)
    process = binade(
        "train", tmp_path / "model.onnx", "--data", tmp_path / "data.safetensors",
        "--policy", "bf16-amp", "--states", states, "--steps", 2, "--lr", 1e-3, "--out",
        tmp_path / "run",
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    final = tmp_path / "run/final.safetensors"
    kinds = {
        np.dtype(ml_dtypes.float8_e4m3fn): "F8_E4M3",
        np.dtype(ml_dtypes.float8_e5m2): "F8_E5M2",
    }
    found = {kinds.get(array.dtype) for array in safetensors.load(final).values()}
    assert found - {None} == formats
    note = f"final.safetensors has tensors in {', '.join(sorted(formats))}: binade."
    assert ("binade.safetensors.load" in process.stdout) == bool(formats)
    assert not formats or note in process.stdout
    # The numpy reader fails exactly where the note is printed.
    if formats:
        with pytest.raises((KeyError, AttributeError)):
            numpy_reader.load_file(final)
    else:
        numpy_reader.load_file(final)
