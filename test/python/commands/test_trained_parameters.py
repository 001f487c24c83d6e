"""`binade train` prints how many of the model's parameters it trains, for an ONNX file and for a
module of each phase."""

import json
import shutil

import numpy as np
import pytest
from support.exported_models import DATA
from support.reference import binade, safetensors

onnx = pytest.importorskip("onnx")

# The loss does not depend on `unread`; `scale` is frozen.
GRAPH = """
<ir_version: 10, opset_import: ["" : 20]>
g (float[4, 2] x) => (float loss) <float[2, 3] weight, float[3] scale, float[5] unread> {
  product = MatMul(x, weight)
  scaled = Mul(product, scale)
  loss = ReduceMean <keepdims = 0> (scaled)
}
"""
SHAPES = {"weight": (2, 3), "scale": (3,), "unread": (5,)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("trained")
    model = onnx.parser.parse_model(GRAPH)
    for name, shape in SHAPES.items():
        value = np.full(shape, 0.5, np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    for key, names in {"trainable": ["weight", "unread"], "frozen": ["scale"]}.items():
        model.metadata_props.add(key=f"binade.{key}", value=json.dumps(names))
    onnx.save(model, path / "model.onnx")
    run("import", path / "model.onnx", "-o", path / "import.mlir")
    for phase in ("autodiff", "optimizer"):
        run(
            "compile",
            path / "model.onnx",
            f"--to={phase}",
            "-o",
            path / f"{phase}.mlir",
        )
    safetensors.save(path / "data.safetensors", {"x": np.ones((8, 2), np.float32)})
    return path


def run(*arguments):
    done = binade(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def train(model, data, out, *options):
    return run("train", model, "--data", data, "--steps", 1, "--out", out, *options)


@pytest.mark.parametrize(
    "name", ["model.onnx", "import.mlir", "autodiff.mlir", "optimizer.mlir"]
)
def test_untrained_parameters_are_counted(name, folder, tmp_path):
    text = train(folder / name, folder / "data.safetensors", tmp_path / "run")
    first, rest = text.split("\n", 1)
    counted, names = first.split("; not trained: ")
    assert counted == "trained: 1 of 3 parameters" and "trained: " not in rest
    assert set(names.split(", ")) == {"'scale'", "'unread'"}


def test_running_statistics_are_not_counted(tmp_path):
    model, known = tmp_path / "m.onnx", tmp_path / "data.npz"
    shutil.copy(DATA / "torch-exports/2.14/image-kept-train.onnx", model)
    values = safetensors.load(DATA / "torch-exports/image.safetensors")
    name = onnx.load(model).graph.input[0].name
    np.savez(known, **{name: values["batch"], "labels": values["labels"]})
    loss = f"cross_entropy({onnx.load(model).graph.output[0].name}, labels)"
    run("import", model, "--loss", loss, "-o", tmp_path / "m.mlir")
    text = train(tmp_path / "m.mlir", known, tmp_path / "run")
    assert text.startswith("trained: 6 of 6 parameters\n")
