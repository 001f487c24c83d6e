"""`binade verify` finds compiled models within the error bounds of the reference."""

import json

import numpy as np
import onnx
import onnx.numpy_helper
import pytest
from onnx import helper
from support.cuda_runs import CUDA, LOSS, run
from support.paths import MODELS
from support.policies import POLICIES
from support.shared_models import FOLD


def verify(bundle, *more, code=0, **environment):
    done = run("binade", "verify", bundle, "--json", *more, code=code, **environment)
    return json.loads(done.stdout)


def verify_model(name, policy, tmp_path, *more, file="loss.onnx"):
    graph, bundle = MODELS / name / file, tmp_path / "model.bnd"
    if not graph.exists():
        pytest.skip(f"{graph} is absent; BINADE_MODELS names its folder")
    run("binade", "compile", graph, "--policy", policy, *more, *CUDA, "-o", bundle)
    report = verify(bundle, "--device", "simulator")
    assert report["equal"] and report["modules"]["other_ptx"] == []
    return report["records"]


@pytest.mark.parametrize(
    "policy",
    [
        "bf16-amp",
        pytest.param("fp8-current", marks=pytest.mark.nightly),
        pytest.param("fp8-block", marks=pytest.mark.nightly),
    ],
)
def test_a_language_model_is_within_its_bounds(policy, tmp_path):
    """Its matmuls use matrix units; those of the mlp are too small."""
    records = verify_model("gpt2-tiny", policy, tmp_path)
    matmuls = [record for record in records if record["kind"] == "matmul"]
    # Matmuls of FP8 values are often exact, so that their results are equal.
    ratios = [record["ratio"] for record in matmuls if not record["equal"]]
    assert len(matmuls) > 10 and ratios and all(0 < ratio <= 1 for ratio in ratios)
    # For each of two layers: in the step, its gradient, and in the evaluation.
    ratios = [r["ratio"] for r in records if r["kind"] == "attention"]
    assert len(ratios) == 6 and 0 < max(ratios) <= 1
    # Attention reads and writes the layout of the matmuls; quantized values are transposed.
    moved = [r for r in records if r.get("kernel", "").startswith("transpose")]
    assert policy != "bf16-amp" or not moved


@pytest.mark.nightly
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("model", ["mlp-digits", "gpt2-tiny", "llama-tiny"])
def test_every_policy_is_within_its_bounds(model, policy, tmp_path):
    more = ["--optimizer", "tiger"] if policy.startswith("tiger") else []
    verify_model(model, policy, tmp_path, *more, *FOLD.get(model, []))


@pytest.mark.nightly
@pytest.mark.parametrize("policy", ["bf16-amp", "coat"])
@pytest.mark.parametrize(
    "model", ["lstm-char", "clip-tiny", "detector-tiny", "resnet18-cifar-w8"]
)
def test_larger_models_are_within_their_bounds(model, policy, tmp_path):
    """Recurrent models and models with convolutions or batch normalization, some minutes
    each."""
    verify_model(model, policy, tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize("policy", ["bf16-amp", "coat"])
@pytest.mark.parametrize("file", ["grads.onnx", "train_step.adamw.onnx"])
@pytest.mark.parametrize("model", ["mlp-digits", "gpt2-tiny"])
def test_exported_gradients_are_within_their_bounds(model, file, policy, tmp_path):
    verify_model(model, policy, tmp_path, file=file)


def convolution_model(path):
    """A model whose convolutions have groups, strides, dilations and uneven padding."""
    draw = np.random.default_rng(3)
    weights = {
        "first": draw.standard_normal((4, 3, 3, 2), np.float32),
        "shift": draw.standard_normal(4, np.float32),
        "second": draw.standard_normal((6, 2, 2, 3), np.float32),
        "last": draw.standard_normal((6 * 4 * 4, 5), np.float32) / 8,
    }
    nodes = [
        helper.make_node("Conv", ["x", "first", "shift"], ["a"],
                         strides=[2, 1], pads=[1, 0, 2, 1], name="one"),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "second"], ["c"], group=2,
                         dilations=[1, 2], pads=[0, 1, 0, 0], name="two"),
        helper.make_node("Flatten", ["c"], ["d"]),
        helper.make_node("MatMul", ["d", "last"], ["prediction"]),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes, "convolutions",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 3, 8, 7])],
        [helper.make_tensor_value_info("prediction", onnx.TensorProto.FLOAT, [2, 5])],
        [onnx.numpy_helper.from_array(w, n) for n, w in weights.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    onnx.checker.check_model(onnx.shape_inference.infer_shapes(model, True, True))
    onnx.save(model, path)


@pytest.mark.parametrize("contraction", ["own", "library"])
@pytest.mark.parametrize("policy", ["fp32", "bf16-amp"])
def test_convolutions_are_within_their_bounds(policy, contraction, tmp_path):
    convolution_model(tmp_path / "model.onnx")
    run("binade", "compile", tmp_path / "model.onnx", "--policy", policy,
        "--loss", LOSS, "--train", "*", "-o", tmp_path / "c.bnd")  # fmt: skip
    report = verify(tmp_path / "c.bnd", BINADE_CONTRACTION=contraction)
    assert report["equal"]
    found = [r for r in report["records"] if r["kind"] == "convolution"]
    # Five in the step, as the first needs no gradient of its input, and two in the evaluation.
    assert len(found) == 5 + 2
    assert all(0 < record["ratio"] <= 1 for record in found)


def test_convolutions_of_a_device_are_within_their_bounds(tmp_path):
    convolution_model(tmp_path / "model.onnx")
    run("binade", "compile", tmp_path / "model.onnx", "--loss", LOSS, "--train", "*",
        *CUDA, "-o", tmp_path / "c.bnd")  # fmt: skip
    report = verify(tmp_path / "c.bnd", "--device", "simulator")
    assert report["equal"]
    assert [r["kind"] for r in report["records"]].count("convolution") == 5 + 2
