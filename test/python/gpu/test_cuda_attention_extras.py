"""Attention with dropout, masks, biases and a soft cap on a device: one kernel computes it, and a
small model trains as on the CPU, where matmuls and a softmax do."""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.cuda_runs import CUDA, CUDNN, SIMULATED, need_simulated_driver, run
from support.reference import safetensors

pytestmark = pytest.mark.usefixtures("with_libraries")

BATCH, STEPS, HEADS, ROWS, COLUMNS = 2, 2, 2, 72, 16
SHAPE = (BATCH, HEADS, ROWS, COLUMNS)
LIBRARIES = f"{CUDNN}:{SIMULATED}"
RATIO, CAP = 0.25, 2.0

# What each model has, and what its records say of it.
MODELS = {
    "dropout": {"dropout"},
    "mask": {"mask"},
    "fill": {"mask", "fill", "dropout"},
    "bias": {"biases"},
    "softcap": {"softcap"},
    "all": {"softcap", "biases", "mask", "dropout"},
}


class Graph:
    """Attention whose query, key and value are matmuls of the input with a weight each. The mask
    [B, 1, 1, K] and the bias [B, H, 1, K] depend on the input, so that no gradient of theirs is
    needed."""

    def __init__(self):
        self.nodes, self.constants = [], []

    def add(self, kind, *inputs, **attributes):
        name = f"{kind.lower()}.{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name, **attributes))
        return name

    def constant(self, value, dtype=np.float32):
        tensor = numpy_helper.from_array(np.array(value, dtype))
        return self.add("Constant", value=tensor)

    def columns(self, heads):
        """The first column of the input, of one or all heads, as a row."""
        limits = [self.constant(v, np.int64) for v in ([0, 0], [heads, 1], [1, 3])]
        return self.add("Transpose", self.add("Slice", "x", *limits), perm=[0, 1, 3, 2])

    def attend(self, has):
        query, key, value = (self.add("MatMul", "x", f"w.{n}") for n in "qkv")
        key = self.add("Transpose", key, perm=[0, 1, 3, 2])
        scores = self.add("MatMul", query, key)
        scores = self.add("Mul", scores, self.constant(COLUMNS**-0.5))
        if "softcap" in has:
            cap = self.constant(CAP)
            scores = self.add(
                "Mul", self.add("Tanh", self.add("Div", scores, cap)), cap
            )
        if "biases" in has:
            scores = self.add("Add", scores, self.columns(HEADS))
        if "mask" in has:
            visible = self.add("Greater", self.columns(1), self.constant(-0.5))
            fill = self.constant(-1e9 if "fill" in has else -np.inf)
            scores = self.add("Where", visible, scores, fill)
        p = self.add("Softmax", scores, axis=-1)
        if "dropout" in has:
            p = self.add("Dropout", p, self.constant(RATIO), self.constant(True, bool))
        self.nodes.append(helper.make_node("MatMul", [p, value], ["y"], "y"))


def make_model(path, has):
    graph = Graph()
    graph.attend(has)
    draw = np.random.default_rng(5)
    weights = [
        draw.standard_normal((COLUMNS, COLUMNS), np.float32) / COLUMNS**0.5
        for _ in "qkv"
    ]
    info = helper.make_tensor_value_info
    made = helper.make_graph(
        graph.nodes, "attention", [info("x", TensorProto.FLOAT, SHAPE)],
        [info("y", TensorProto.FLOAT, SHAPE)],
        [numpy_helper.from_array(w, f"w.{n}") for w, n in zip(weights, "qkv")],
    )  # fmt: skip
    opset = [helper.make_opsetid("", 17)]
    model = helper.make_model(made, opset_imports=opset, ir_version=9)
    onnx.save(model, path, save_as_external_data=True, size_threshold=256)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    need_simulated_driver()
    folder = tmp_path_factory.mktemp("extras")
    draw = np.random.default_rng(7)
    size = (BATCH * STEPS, *SHAPE[1:])
    data = {key: draw.standard_normal(size, np.float32) for key in ("x", "target")}
    safetensors.save(folder / "data.safetensors", data)
    for name, has in MODELS.items():
        make_model(folder / f"{name}.onnx", has)
        targets = {"cpu": [], "cuda": [*CUDA, "--save-kernels", folder]}
        for target, more in targets.items():
            run(
                "binade", "compile", folder / f"{name}.onnx", "--policy", "bf16-amp",
                "--loss", "mse(y, target)", "--optimizer", "sgd", "--lr", 0.5, *more,
                "-o", folder / f"{target}-{name}.bnd",
            )  # fmt: skip
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
        assert MODELS[name] <= set(record)
        assert "library_scratch" not in record
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
