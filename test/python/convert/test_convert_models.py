"""`binade convert` accepts every valid ONNX file: ONNX's node tests and exported models.

BINADE_MODELS names a folder of exported training graphs.
"""

import json

import numpy as np
import onnx
import pytest
from binade import safetensors
from support.convert import collect_node_tests, convert, is_valid, run, strip
from support.paths import MODELS

needs_models = pytest.mark.skipif(
    not MODELS.is_dir(), reason="BINADE_MODELS names no folder of models"
)
FOLDERS = [
    "clip-tiny", "detector-tiny", "gpt2-tiny", "llama-tiny", "lstm-char", "mlp-digits",
    "resnet18-cifar-w8",
]  # fmt: skip
KINDS = ["model", "loss", "grads", "train_step.adamw"]
# The graphs of a fast run; the others are nightly tests.
FEW = [
    ("mlp-digits", "grads"),
    ("gpt2-tiny", "loss"),
    ("gpt2-tiny", "train_step.adamw"),
]
GRAPHS = [
    pytest.param(
        folder, kind, marks=() if (folder, kind) in FEW else pytest.mark.nightly
    )
    for folder in FOLDERS
    for kind in KINDS
]  # fmt: skip
# A fast run takes one of this many node tests.
SHARE = 20


def check_nodes(folder, share, policy):
    """Valid models stay valid; policy fp32 changes nothing."""
    cases = collect_node_tests()[::share]
    for case in filter(lambda case: is_valid(case.model), cases):
        converted, _ = convert(case.model, folder, policy)
        kept = [node.name for node in converted.graph.node if node.op_type != "Cast"]
        made = [node.name for node in case.model.graph.node if node.op_type != "Cast"]
        assert kept == made, case.name
        if policy == "fp32":
            assert converted.SerializeToString() == case.model.SerializeToString()


@pytest.mark.parametrize("policy", ["fp32", "autocast-onnx"])
def test_some_node_tests_stay_valid(tmp_path, policy):
    check_nodes(tmp_path, SHARE, policy)


@pytest.mark.nightly
@pytest.mark.parametrize("policy", ["fp32", "fp16-amp", "bf16", "autocast-onnx"])
def test_all_node_tests_stay_valid(tmp_path, policy):
    check_nodes(tmp_path, 1, policy)


def read_feeds(folder, model):
    """Returns the first batch, the initial parameters and zero states."""
    batch = np.load(folder / "inputs.npz")
    weights = safetensors.load(folder / "weights.safetensors")
    feeds = {}
    for value in model.graph.input:
        type = value.type.tensor_type
        dtype = onnx.helper.tensor_dtype_to_np_dtype(type.elem_type)
        if value.name in batch.files:
            array = batch[value.name][0]
        elif value.name in weights:
            array = weights[value.name]
        else:
            shape = [size.dim_value for size in type.shape.dim]
            array = np.full(shape, value.name == "step")
        feeds[value.name] = np.asarray(array).astype(dtype)
    return feeds


@needs_models
@pytest.mark.parametrize("folder, kind", GRAPHS)
def test_exported_models_run_in_f16(tmp_path, folder, kind):
    """Loss, gradients and predictions in f16 are close to those in f32."""
    source = MODELS / folder / f"{kind}.onnx"
    model = onnx.load(source)
    convert(model, tmp_path, "fp16-amp")
    feeds = read_feeds(source.parent, model)
    exact, narrow = (run(tmp_path / name, feeds) for name in ("in.onnx", "out.onnx"))
    info = json.loads((source.parent / "info.json").read_text())
    vanishing = {"grad." + name for name in info.get("zero_gradient_params", [])}
    difference = total = 0.0
    for name, value in exact.items():
        assert np.isfinite(narrow[name]).all(), name
        if name not in vanishing:
            difference += np.square(np.float64(narrow[name] - value)).sum()
            total += np.square(np.float64(value)).sum()
    # The error of eight roundings to f16, half an ulp each.
    assert np.sqrt(difference / total) < 8 * 2.0**-11


@needs_models
@pytest.mark.parametrize("folder", ["mlp-digits", "gpt2-tiny"])
def test_fp32_does_not_change_exported_models(tmp_path, folder):
    model = onnx.load(MODELS / folder / "grads.onnx")
    converted, _ = convert(model, tmp_path, "fp32")
    assert strip(converted) == strip(model)
