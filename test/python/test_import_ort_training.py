"""ONNX Runtime's training models: the gradients in them against PyTorch's.

The graphs hold ops of `com.microsoft`. Their outputs say only that gradients were added to
buffers, so that the gradients themselves are made outputs here.
"""

import os
import pathlib
import subprocess

import numpy as np
import pytest
from reference import BUILD, EVAL, ROOT, safetensors

onnx = pytest.importorskip("onnx")

TRANSLATE = BUILD / "bin" / "binade-translate"
MODELS = pathlib.Path(
    os.environ.get("BINADE_MODELS", ROOT.parent / "shared" / "models")
)
NAMES = ["mlp-digits", "gpt2-tiny", "llama-tiny", "lstm-char"]

pytestmark = pytest.mark.skipif(not MODELS.is_dir(), reason=f"{MODELS} is absent")


def expose_gradients(model):
    """Adds the gradients as outputs; their names by those of the parameters."""
    found = {}
    for node in model.graph.node:
        if node.op_type == "InPlaceAccumulatorV2":
            parameter = node.input[0].removesuffix("_grad.accumulation.buffer")
            found[parameter] = node.input[1]
    declared = {value.name: value.type for value in model.graph.input}
    del model.graph.output[1:]
    for parameter, gradient in found.items():
        value = model.graph.output.add(name=gradient)
        value.type.CopyFrom(declared[parameter])
    return found


@pytest.mark.parametrize("name", NAMES)
def test_gradients(name, tmp_path):
    folder = MODELS / name
    reference = np.load(folder / "reference.npz")
    model = onnx.load(folder / "ort-training/training_model.onnx")
    gradients = expose_gradients(model)
    weights = {
        key.removeprefix("net."): value
        for key, value in safetensors.load(folder / "weights.safetensors").items()
    }
    batch = np.load(folder / "inputs.npz")
    given = {}
    for value in model.graph.input:
        key, shape = value.name, value.type.tensor_type.shape.dim
        shape = [size.dim_value for size in shape]
        if key in batch:
            given[key] = batch[key][0]
        elif key.removeprefix("net.") in weights:
            given[key] = weights[key.removeprefix("net.")]
        elif key.endswith(".accumulation.buffer"):
            given[key] = np.zeros(shape, np.float32)
        else:
            assert key == "lazy_reset_grad"
            given[key] = np.ones(shape, np.bool_)
    source, module, out = (tmp_path / n for n in ("m.onnx", "m.mlir", "out.st"))
    onnx.save(model, source)
    subprocess.run(
        [TRANSLATE, "--import-onnx", source, "-o", module], check=True, timeout=120
    )
    used = {k: v for k, v in given.items() if f'"{k}"' in module.read_text()}
    safetensors.save(tmp_path / "in.st", used)
    subprocess.run(
        [EVAL, module, "--inputs", tmp_path / "in.st", "--out", out],
        check=True,
        timeout=300,
    )
    results = safetensors.load(out)
    loss = model.graph.output[0].name
    np.testing.assert_allclose(
        results[loss], reference["loss.adamw.fp64"][0], rtol=2e-6
    )
    compared = 0
    for parameter, gradient in gradients.items():
        key = f"grad.{parameter.removeprefix('net.')}"
        if key not in reference:
            continue
        expected = reference[key]
        atol = 1e-5 * np.abs(expected).max() + 1e-8
        np.testing.assert_allclose(results[gradient], expected, rtol=1e-4, atol=atol)
        compared += 1
    assert compared > 3
