"""Convolutions on a device: a small network trains as it does on the CPU."""

import functools
import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.cuda_runs import CUDA, CUDNN, SIMULATED, need_simulated_driver, run
from support.reference import safetensors

pytestmark = pytest.mark.usefixtures("with_libraries")

BATCH, STEPS, CLASSES = 4, 2, 5
IMAGE = (6, 9, 7)  # Channels, height and width.
# Kernel, strides, padding, groups, input channels and output channels. The second layer
# is wide enough for tensor cores.
LAYERS = [
    ((3, 3), (1, 1), (1, 0, 1, 2), 2, 6, 24),
    ((3, 3), (2, 2), (1, 1, 1, 1), 1, 24, 32),
    ((1, 1), (1, 1), (0, 0, 0, 0), 1, 32, 20),
]


def make_model(path):
    draw = np.random.default_rng(5)
    nodes, weights, value = [], {}, "images"
    for number, layer in enumerate(LAYERS):
        kernel, strides, pads, groups, inputs, outputs = layer
        weight, bias, out = f"conv{number}.weight", f"conv{number}.bias", f"y{number}"
        shape = (outputs, inputs // groups, *kernel)
        scale = np.sqrt(2 / np.prod(shape[1:]))
        weights[weight] = draw.standard_normal(shape, np.float32) * np.float32(scale)
        weights[bias] = draw.standard_normal(outputs, np.float32)
        nodes += [
            helper.make_node(
                "Conv", [value, weight, bias], [out], kernel_shape=kernel,
                strides=strides, pads=pads, group=groups,
            ),
            helper.make_node("Relu", [out], [f"{out}.relu"]),
        ]  # fmt: skip
        value = f"{out}.relu"
    weights["head.weight"] = draw.standard_normal((CLASSES, outputs), np.float32)
    weights["head.bias"] = np.zeros(CLASSES, np.float32)
    nodes += [
        helper.make_node("GlobalAveragePool", [value], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["features"]),
        helper.make_node(
            "Gemm", ["features", "head.weight", "head.bias"], ["prediction"], transB=1
        ),
    ]
    floats = TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "convolutions",
        [helper.make_tensor_value_info("images", floats, [BATCH, *IMAGE])],
        [helper.make_tensor_value_info("prediction", floats, [BATCH, CLASSES])],
        [numpy_helper.from_array(x, name) for name, x in weights.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=8)
    # Weights in external data are trained.
    onnx.save(model, path, save_as_external_data=True, size_threshold=0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    need_simulated_driver()
    folder = tmp_path_factory.mktemp("convolutions")
    make_model(folder / "model.onnx")
    draw, samples = np.random.default_rng(7), BATCH * STEPS
    images = draw.standard_normal((samples, *IMAGE), np.float32)
    labels = draw.integers(0, CLASSES, samples)
    safetensors.save(folder / "data.safetensors", {"images": images, "labels": labels})
    return folder


@functools.cache
def train(folder, target, policy, libraries=SIMULATED):
    bundle = folder / f"{target}-{policy}.bnd"
    out = folder / f"{target}-{policy}-{len(str(libraries))}"
    more = [*CUDA, "--save-kernels", folder] if target == "cuda" else []
    run(
        "binade", "compile", folder / "model.onnx", "--policy", policy,
        "--loss", "cross_entropy(prediction, labels)", "--optimizer", "sgd",
        "--lr", 0.05, *more, "-o", bundle,
    )  # fmt: skip
    run(
        "binade-run", bundle, "--data", folder / "data.safetensors", "--steps", STEPS,
        "--order", "sequential", "--device", target, "--out", out,
        "--profile", f"{out}.json", library_path=libraries,
        BINADE_SIMULATED_KERNELS=str(folder),
    )  # fmt: skip
    lines = (out / "metrics.jsonl").read_text().splitlines()
    values = {"loss": np.array([json.loads(line)["loss"] for line in lines])}
    events = json.loads(out.with_name(f"{out.name}.json").read_text())["traceEvents"]
    by = {
        event["args"].get("implementation", "") for event in events if "args" in event
    }
    return values | safetensors.load(out / "final.safetensors"), by


@pytest.mark.parametrize("libraries", [SIMULATED, f"{CUDNN}:{SIMULATED}"],
                         ids=["kernels", "cudnn"])  # fmt: skip
@pytest.mark.parametrize("policy, unit", [("fp32", 2.0**-24), ("bf16-amp", 2.0**-8)])
def test_a_device_trains_as_the_cpu_does(policy, unit, libraries, folder):
    """Sums in another order may round differently, in bf16 by a whole unit."""
    expected, _ = train(folder, "cpu", policy)
    found, by = train(folder, "cuda", policy, libraries)
    has_cudnn = any(text.startswith("cudnn 9.24.0 algorithm") for text in by)
    assert has_cudnn == (libraries != SIMULATED)
    start = {
        x.name: numpy_helper.to_array(x)
        for x in onnx.load(folder / "model.onnx").graph.initializer
    }
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        # A parameter's change shows what the network computed.
        gain = np.abs(value - start.get(name, 0)).max()
        assert gain > 0 and (found[name].shape == value.shape)
        bound = 64 * unit * gain + 2.0**-23 * np.abs(value).max()
        if policy != "fp32":
            bound = 4 * unit * gain
        np.testing.assert_allclose(found[name], value, rtol=0, atol=bound, err_msg=name)
