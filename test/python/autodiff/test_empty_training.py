"""Training with tensors of 0 elements: a slice, a split, a parameter, a feature axis.

Empty tensors contribute nothing to a sum. The expected values are therefore those of the
model without them, computed by numpy or by Binade.
"""

import functools
import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.paths import ROOT
from support.policies import CONVERTED_POLICIES, GPU_POLICIES, POLICIES
from support.reference import binade, safetensors

RULES = sorted(path.stem for path in (ROOT / "lib/Optimizer/Rules").glob("*.mlir"))
STATES = ["f32", "bf16", "dyn8", "e4m3x", "dyn4", "softsign8"]
RANDOM = np.random.default_rng(5)
X = RANDOM.standard_normal((8, 4)).astype(np.float32)
W = RANDOM.standard_normal((4, 3)).astype(np.float32)


def integers(name, *values):
    return numpy_helper.from_array(np.array(values, np.int64), name)


def zeros(name, *shape):
    return numpy_helper.from_array(np.zeros(shape, np.float32), name)


def node(op, reads, gives, **attributes):
    return helper.make_node(op, reads, gives, name=f"{op}.{gives[0]}", **attributes)


# Nodes that compute an empty tensor `e` from `h` [2, 3], and the initializers they read.
NOTHING = {
    "slice": ([node("Slice", ["h", "a", "a"], ["e"])], [integers("a", 0)]),
    "split": ([node("Split", ["h", "s"], ["e", "rest"], axis=0)], [integers("s", 0, 2)]),
    "gather": ([node("Gather", ["h", "i"], ["e"])], [integers("i")]),
    "softmax": (
        [node("Slice", ["h", "a", "a"], ["f"]), node("Softmax", ["f"], ["e"])],
        [integers("a", 0)],
    ),
    "matmul": (
        [node("Slice", ["h", "a", "a"], ["f"]), node("Transpose", ["f"], ["t"]),
         node("MatMul", ["t", "f"], ["e"])],
        [integers("a", 0)],
    ),
    "layer_norm": (
        [node("Slice", ["h", "a", "a"], ["f"]),
         node("LayerNormalization", ["f", "g"], ["e"])],
        [integers("a", 0), zeros("g", 3)],
    ),
}  # fmt: skip


def save(folder, nodes, stored, trainable, rows=2, columns=4):
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "g", [value("x", TensorProto.FLOAT, (rows, columns))],
        [value("loss", TensorProto.FLOAT, ())], stored,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    model.metadata_props.add(key="binade.trainable", value=json.dumps(trainable))
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, folder / "model.onnx")
    safetensors.save(folder / "data.safetensors", {"x": X[:, :columns]})
    return folder / "model.onnx"


def save_slice(folder, kind):
    nodes, stored = NOTHING[kind]
    nodes = [
        node("MatMul", ["x", "w"], ["h"]), *nodes,
        node("ReduceSum", ["e"], ["z"], keepdims=0),
        node("ReduceMean", ["h"], ["l"], keepdims=0), node("Add", ["l", "z"], ["loss"]),
    ]  # fmt: skip
    return save(folder, nodes, [numpy_helper.from_array(W, "w"), *stored], ["w"])


def save_parameter(folder, has_empty=True):
    """mean((x [w; e])^2) with `e` of shape [0, 3]."""
    nodes = [
        node("MatMul", ["x", "we" if has_empty else "w"], ["p"]),
        node("Mul", ["p", "p"], ["s"]), node("ReduceMean", ["s"], ["loss"], keepdims=0),
    ]  # fmt: skip
    stored = [numpy_helper.from_array(W, "w")]
    if has_empty:
        nodes.insert(0, node("Concat", ["w", "e"], ["we"], axis=0))
        stored.append(zeros("e", 0, 3))
    return save(folder, nodes, stored, ["w", "e"] if has_empty else ["w"], rows=8)


def train(model, *flags, steps=2):
    run = model.with_name("run")
    where = "--resume" if run.exists() else "--out"
    done = binade(
        "train", model, "--data", model.with_name("data.safetensors"), "--steps", steps,
        "--order", "sequential", "--lr", 0.01, where, run, *flags,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return run


def read(run):
    return safetensors.load(run / "final.safetensors")


def read_losses(run):
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line)["loss"] for line in lines if "loss" in json.loads(line)]


@pytest.mark.parametrize("kind", NOTHING)
def test_sum_of_an_empty_tensor_is_zero(kind, tmp_path):
    """The gradient of mean(x w) is x^T 1 / 6, from which numpy computes the SGD steps."""
    run = train(save_slice(tmp_path, kind), "--optimizer", "sgd", "--set", "momentum=0")
    w, losses = W.astype(np.float64), []
    for batch in (X[:2], X[2:4]):
        losses.append((batch @ w).mean())
        w = w - 0.01 * batch.sum(0)[:, None] / 6 * np.ones((1, 3))
    np.testing.assert_allclose(read_losses(run), losses, rtol=1e-5)
    np.testing.assert_allclose(read(run)["w"], w, rtol=1e-5, atol=1e-6)


@functools.cache
def train_without(folder, *flags):
    folder.mkdir()
    return read(train(save_parameter(folder, has_empty=False), *flags))


def check_parameter(folder, *flags):
    (folder / "with").mkdir()
    found = read(train(save_parameter(folder / "with"), *flags))
    assert found["e"].shape == (0, 3)
    for name, expected in train_without(folder / "without", *flags).items():
        assert found[name].tobytes() == expected.tobytes(), name
    for name, value in found.items():
        if value.dtype.kind == "f":
            assert np.isfinite(value.astype(np.float64)).all(), name


@pytest.mark.slow
@pytest.mark.parametrize("states", STATES)
@pytest.mark.parametrize("rule", RULES)
def test_every_rule_accepts_an_empty_parameter(rule, states, tmp_path):
    check_parameter(tmp_path, "--optimizer", rule, "--states", f"*:{states}")


@pytest.mark.parametrize(
    "flags",
    [
        ["--accumulate", "2"],
        ["--accumulate", "2", "--accumulate-in-momentum", "--optimizer", "sgd"],
        ["--clip", "0.1", "--optimizer", "lamb"],
        ["--optimizer", "adafactor", "--states", "*:dyn8"],
    ],
    ids=["accumulate", "momentum", "clip", "states"],
)
def test_runs_with_an_empty_parameter(flags, tmp_path):
    check_parameter(tmp_path, *flags)


def test_a_run_with_an_empty_parameter_resumes(tmp_path):
    model = save_parameter(tmp_path)
    whole = read(train(model, "--save-every", "1", steps=4))
    (tmp_path / "run").rename(tmp_path / "whole")
    train(model, "--save-every", "1", steps=2)
    train(model, "--save-every", "1", steps=4)
    for name, value in read(tmp_path / "run").items():
        assert value.tobytes() == whole[name].tobytes(), name


def check_policy(policy, model, target):
    flags = ["--policy", policy]
    if policy.startswith("tiger"):
        flags += ["--optimizer", "tiger"]
    if not target:
        train(model, *flags)
        return
    bundle = model.with_name("gpu.bnd")
    done = binade("compile", model, *flags, "--target", "cuda:sm_90", "-o", bundle)
    assert done.returncode == 0, done.stderr
    done = binade("verify", bundle, "--device", "simulator")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "target"),
    [(policy, "") for policy in POLICIES]
    + [(policy, "simulator") for policy in GPU_POLICIES],
)
def test_every_policy_accepts_empty_tensors(policy, target, tmp_path):
    for kind in ("slice", "parameter"):
        folder = tmp_path / kind
        folder.mkdir()
        save_model = save_parameter if kind == "parameter" else save_slice
        model = save_model(folder) if kind == "parameter" else save_model(folder, kind)
        check_policy(policy, model, target)


@pytest.mark.parametrize("policy", ["fp32", "coat"])
def test_gpu_kernels_accept_empty_tensors(policy, tmp_path):
    check_policy(policy, save_parameter(tmp_path), "simulator")


def test_a_batch_without_samples_is_rejected(tmp_path):
    nodes = [
        node("MatMul", ["x", "w"], ["h"]),
        node("ReduceSum", ["h"], ["loss"], keepdims=0),
    ]
    model = save(tmp_path, nodes, [numpy_helper.from_array(W, "w")], ["w"], rows=0)
    done = binade(
        "train", model, "--data", tmp_path / "data.safetensors", "--steps", 1,
        "--out", tmp_path / "run",
    )  # fmt: skip
    assert done.returncode == 3
    assert "tensor 'x': error: a batch of the model takes 0 samples" in done.stderr
    assert not (tmp_path / "run").exists()


def test_features_of_length_0(tmp_path):
    """x [2, 0] times w [0, 3] is 0: the loss is sum((0 + b)^2)."""
    nodes = [
        node("MatMul", ["x", "w"], ["p"]), node("Add", ["p", "b"], ["q"]),
        node("Mul", ["q", "q"], ["s"]), node("ReduceSum", ["s"], ["loss"], keepdims=0),
    ]  # fmt: skip
    stored = [zeros("w", 0, 3), numpy_helper.from_array(np.ones(3, np.float32), "b")]
    model = save(tmp_path, nodes, stored, ["w", "b"], columns=0)
    run = train(model, "--optimizer", "sgd")
    np.testing.assert_allclose(read_losses(run), [6.0, 6 * 0.96**2], rtol=1e-6)
    assert read(run)["w"].shape == (0, 3)


# Policies that onnxruntime has CPU kernels for; it has none for 8-bit formats and bf16.
ON_A_CPU = ["fp32", "tf32", "fp16-amp", "torch-cuda-fp16", "grappler-fp16", "tiger-half",
            "autocast-onnx"]  # fmt: skip


@pytest.mark.parametrize("kind", [*NOTHING, "parameter"])
def test_converted_files_run_in_onnxruntime(kind, tmp_path):
    ort = pytest.importorskip("onnxruntime")
    is_slice = kind in NOTHING
    model = save_slice(tmp_path, kind) if is_slice else save_parameter(tmp_path)
    x, out = X[: 2 if is_slice else 8], tmp_path / "converted.onnx"
    expected = (x @ W).mean() if is_slice else ((x @ W) ** 2).mean()
    for policy in CONVERTED_POLICIES:
        done = binade("convert", model, "--policy", policy, "-o", out)
        assert done.returncode == 0, (policy, done.stderr)
        if policy in ON_A_CPU:
            session = ort.InferenceSession(out, providers=["CPUExecutionProvider"])
            (loss,) = session.run(None, {"x": x})
            np.testing.assert_allclose(loss, expected, rtol=3e-3, err_msg=policy)
