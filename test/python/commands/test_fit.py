"""Compares the memory that `binade fit` predicts with the memory of runs.

Predictions are compared with the memory of a training process of the same sizes, predicted
depths with models that PyTorch exports at these depths.
"""

import json
import re

import numpy as np
import onnx
import pytest
from support import processes
from support.reference import binade, safetensors

torch = pytest.importorskip("torch")
pytest.importorskip("onnxscript", reason="PyTorch's exporter needs onnxscript")

import torch.nn.functional as F
from binade import export
from torch import nn

pytestmark = pytest.mark.usefixtures("with_libraries")

MIB = 1 << 20
WIDTH, CLASSES, CONTEXT = 64, 10, 40


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.inner = nn.Linear(WIDTH, 4 * WIDTH)
        self.outer = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + F.dropout(self.outer(F.gelu(self.inner(self.norm(x)))), 0.1)


class Stacked(nn.Module):
    """Scores the next token from each token and its position."""

    def __init__(self, depth):
        super().__init__()
        self.token = nn.Embedding(CLASSES, WIDTH)
        self.place = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(depth))
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, tokens):
        x = self.token(tokens) + self.place(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Residual(nn.Module):
    """A network with batch norm: each block has its own running statistics."""

    def __init__(self, depth):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1)
        self.layers = nn.Sequential(*(self.block() for _ in range(depth)))
        self.head = nn.Linear(16, CLASSES)

    @staticmethod
    def block():
        return nn.Sequential(
            nn.Conv2d(16, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16)
        )

    def forward(self, images):
        x = F.relu(self.stem(images))
        for layer in self.layers:
            x = F.relu(x + layer(x))
        return self.head(x.mean((2, 3)))


def cross_entropy(prediction, labels):
    return F.cross_entropy(prediction.flatten(0, -2), labels.flatten())


def write_stacked(path, depth=3):
    tokens = torch.zeros(4, 32, dtype=torch.int64)
    export.export_onnx(
        Stacked(depth).train(),
        {"tokens": tokens, "labels": tokens},
        path,
        loss=cross_entropy,
        dims={"tokens": ["batch", "context"], "labels": ["batch", "context"]},
    )


def write_residual(path, depth=3):
    batch = {
        "images": torch.zeros(4, 3, 16, 16),
        "labels": torch.zeros(4, dtype=torch.int64),
    }
    export.export_onnx(
        Residual(depth).train(),
        batch,
        path,
        loss=cross_entropy,
        dims={"images": ["batch", "", "", ""], "labels": ["batch"]},
    )


WRITERS = {"stacked": write_stacked, "residual": write_residual}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fit")
    for name, write in WRITERS.items():
        write(folder / f"{name}.onnx")
    return folder


def fit(model, *arguments):
    process = binade("fit", model, "--format", "json", *arguments)
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


def predict(model, *arguments):
    """Returns the predicted bytes of the only variant that the arguments select."""
    [variant] = fit(model, "--memory", "1KiB", *arguments)["variants"]
    return variant["bytes"]


def test_the_plan_equals_that_of_training(models, tmp_path):
    policy = tmp_path / "narrow.yaml"
    policy.write_text(
        "name: narrow\nextends: bf16-amp\nrules:\n"
        "- {match: {op: optimizer_update}, state: bf16}\n"
    )
    save_tokens(tmp_path / "data.safetensors", 64, 24)
    found = predict(
        models / "stacked.onnx", "--dim", "batch=24", "--dim", "context=24",
        "--policy", "bf16-amp", "--states", "bf16", "--optimizer", "sgd",
        "--accumulate", 2,
    )  # fmt: skip
    process = binade(
        "train", models / "stacked.onnx", "--data", tmp_path / "data.safetensors",
        "--dim", "batch=24", "--dim", "context=24", "--policy", policy,
        "--optimizer", "sgd", "--accumulate", 2, "--steps", 1,
        "--out", tmp_path / "run",
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    assert about["arena_bytes"] == found
    assert about["invocations"][0]["extra_bytes"] == 0


def save_tokens(path, samples, context):
    tokens = np.random.default_rng(0).integers(0, CLASSES, (samples, context))
    safetensors.save(path, {"tokens": tokens, "labels": tokens})


def measure(model, data, batch, folder):
    """Returns the peak memory in bytes of a process that only trains."""
    folder.mkdir()
    process = binade(
        "compile", model, "--dim", f"batch={batch}", "--policy", "fp32",
        "-o", folder / "step.bnd",
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    arguments = ["--data", data, "--steps", "2", "--out", folder / "run"]
    return processes.measure("binade-run", folder / "step.bnd", *arguments)[1]


def test_a_process_uses_the_predicted_memory(models, tmp_path):
    model, data = models / "stacked.onnx", tmp_path / "data.safetensors"
    save_tokens(data, 4096, 32)
    variant = ["--policy", "fp32", "--states", "f32"]
    answer = fit(model, "--memory", "600MiB", *variant)
    batch = answer["variants"][0]["largest"]["dims"]["batch"]["size"]
    predicted = predict(model, *variant, "--dim", f"batch={batch}")
    assert 0.99 * 600 * MIB < predicted <= 600 * MIB
    # Both processes use the same additional memory for the program itself.
    small = measure(model, data, 8, tmp_path / "small")
    other = small - predict(model, *variant, "--dim", "batch=8")
    measured = measure(model, data, batch, tmp_path / "large")
    assert abs((measured - other) / predicted - 1) < 0.01


@pytest.mark.parametrize("axis", ["batch", "context"])
def test_larger_sizes_do_not_fit(models, axis):
    model, variant = models / "stacked.onnx", ["--policy", "bf16", "--states", "bf16"]
    memory = {"batch": 60, "context": 8}[axis]
    answer = fit(model, "--memory", f"{memory}MiB", *variant, "--dim", "batch=64")
    found = answer["variants"][0]["largest"]["dims"][axis]
    arguments = ["--dim", "batch=64"] if axis == "context" else []
    assert found["limit"] == "" and found["bytes"] <= memory * MIB
    assert (
        predict(model, *variant, *arguments, "--dim", f"{axis}={found['size']}")
        == (found["bytes"])
    )
    for more in range(1, 4):
        size = found["size"] + more
        assert (
            predict(model, *variant, *arguments, "--dim", f"{axis}={size}")
            > memory * MIB
        )


@pytest.mark.parametrize(
    ("name", "stack", "memory", "deeper"),
    [("stacked", "blocks", 4, True), ("stacked", "blocks", 2, False),
     ("residual", "layers", 3, True)],
)  # fmt: skip
def test_predicted_depths_match_exported_models(
    models, tmp_path, name, stack, memory, deeper
):
    variant = ["--policy", "bf16-amp", "--states", "f32"]
    answer = fit(models / f"{name}.onnx", "--memory", f"{memory}MiB", *variant)
    assert answer["depths"] == {stack: 3}
    found = answer["variants"][0]["largest"]["depths"][stack]
    # On other CPUs, libraries need other workspaces.
    assert found["size"] > 3 if deeper else 0 < found["size"] <= 3
    for depth, fits in ((found["size"], True), (found["size"] + 1, False)):
        path = tmp_path / f"{depth}.onnx"
        WRITERS[name](path, depth)
        taken = predict(path, *variant)
        assert (taken <= memory * MIB) == fits
        if fits:
            assert abs(taken / found["bytes"] - 1) < 0.01


def test_limits_of_the_model_are_marked(models):
    process = binade("fit", models / "stacked.onnx", "--memory", "8MiB")
    assert process.returncode == 0
    assert re.search(r"^fp32 +f32 +\d+ +40 \* +\d+$", process.stdout, re.M)
    assert "* no larger context: index 40 is outside of axis 0" in process.stdout


def test_small_savings_are_reported_as_not_worth_it(models):
    """In a convolutional network, states are small compared with activations."""
    process = binade("fit", models / "residual.onnx", "--memory", "8MiB")
    [line] = re.findall(r"^fp32: .*$", process.stdout, re.M)
    share = float(re.fullmatch(r"fp32: .* save ([\d.]+)%: not worth it", line)[1])
    states = {
        variant["states"]: variant["bytes"]
        for variant in fit(models / "residual.onnx", "--memory", "8MiB")["variants"]
        if variant["policy"] == "fp32"
    }
    assert share == pytest.approx(100 * (1 - states["bf16"] / states["f32"]), abs=0.05)


def test_bytes_are_listed_by_category(models):
    """Parameters and states have the sizes that follow from the model."""
    [variant] = fit(
        models / "residual.onnx", "--memory", "1KiB", "--policy", "fp32",
        "--states", "bf16", "--optimizer", "adamw",
    )["variants"]  # fmt: skip
    parameters = sum(p.numel() for p in Residual(3).parameters())
    ledger = variant["ledger"]
    assert ledger["parameter"] == pytest.approx(4 * parameters, abs=64 * 20)
    assert ledger["state"] == pytest.approx(4 * parameters, abs=64 * 40)
    assert sum(ledger.values()) == variant["bytes"]
    assert variant["largest"]["dims"]["batch"]["size"] == 0


def test_models_of_fixed_sizes(tmp_path):
    model = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 20]>
        net (float[8, 4] x, int64[8] labels) => (float loss) <float[4, 3] w> {
          scores = MatMul(x, w)
          loss = SoftmaxCrossEntropyLoss(scores, labels)
        }"""
    )
    weight = np.ones((4, 3), np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    model.metadata_props.add(key="binade.trainable", value='["w"]')
    onnx.save(model, tmp_path / "fixed.onnx")
    process = binade("fit", tmp_path / "fixed.onnx", "--memory", "1MiB")
    assert process.returncode == 0, process.stderr
    assert "all sizes of the model are fixed" in process.stdout
    assert "largest that" not in process.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--memory", "much"], 2, "--memory expects a size such as 24GiB, got 'much'"),
        (["--memory", "-1GiB"], 2, "--memory expects a size"),
        (["--memory", "1GiB", "--policy", "fp23"], 2, "fp23"),
        (["--memory", "1GiB", "--dim", "rows=3"], 3, "no input has such a dimension"),
        (["--memory", "1GiB", "--dim", "context=41"], 3, "outside of axis 0"),
        (
            ["--memory", "1GiB", "--states", "f8"],
            2,
            "no format of states is called 'f8'",
        ),
    ],
)
def test_invalid_options_are_refused(models, arguments, code, message):
    process = binade("fit", models / "stacked.onnx", *arguments)
    assert process.returncode == code, process.stderr
    assert message in process.stderr
    assert process.stdout == ""
