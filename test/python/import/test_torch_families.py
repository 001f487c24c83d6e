"""Models of Hugging Face, exported by a plain torch.onnx.export, train as in PyTorch, are
named by modules, and go back."""

import copy
import json

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("onnxscript", reason="the exporter of PyTorch needs onnxscript")

import onnx  # noqa: E402
from binade import safetensors, trained  # noqa: E402
from support.exported_models import BINADE, binade  # noqa: E402
from support.module_families import FAMILIES, make_family  # noqa: E402

STEPS, RATE = 3, 0.05

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(not BINADE.exists(), reason="the tool is not built"),
]


def export(model, inputs, path):
    """Exports with the defaults; if that file lacks parameters, as the error says."""
    torch.onnx.export(model, (), str(path), kwargs=inputs, verbose=False)
    done = binade("import", path, "-o", path.with_suffix(".mlir"))
    if done.returncode == 0:
        return
    assert "optimize=False" in done.stderr, done.stderr
    torch.onnx.export(
        model, (), str(path), kwargs=inputs, optimize=False, verbose=False
    )


def find_shape(path):
    graph = onnx.load(path, load_external_data=False).graph
    dims = graph.output[0].type.tensor_type.shape.dim
    names = [value.name for value in graph.input]
    return names, graph.output[0].name, [dim.dim_value for dim in dims]


def train_in_pytorch(model, inputs, labels):
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    for _ in range(STEPS):
        optimizer.zero_grad()
        logits = model(**inputs).logits
        loss = torch.nn.functional.cross_entropy(
            logits.flatten(0, -2), labels.flatten()
        )
        loss.backward()
        optimizer.step()


@pytest.mark.parametrize("name", FAMILIES)
def test_families_train_as_in_pytorch(name, tmp_path):
    model, inputs = make_family(name)
    path, run = tmp_path / "model.onnx", tmp_path / "run"
    export(model, inputs, path)
    names, output, shape = find_shape(path)
    labels = torch.randint(0, shape[-1], shape[:-1])
    axis = f", axis={len(shape) - 1}" if len(shape) > 2 else ""
    loss = f"cross_entropy({output}, labels{axis})"
    values = [value.numpy() for value in inputs.values()]
    batch = {**dict(zip(names, values, strict=True)), "labels": labels.numpy()}
    safetensors.save(tmp_path / "data.safetensors", batch)
    frozen = [k for k, v in model.named_parameters() if not v.requires_grad]
    done = binade(
        "train", path, "--loss", loss, "--data", tmp_path / "data.safetensors", "--optimizer",
        "sgd", "--lr", RATE, "--steps", STEPS, "--order", "sequential", "--out", run,
        *(word for glob in frozen for word in ("--freeze", glob)),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    back = copy.deepcopy(model)
    trained.load(back, run)
    train_in_pytorch(model, inputs, labels)
    for (key, expected), actual in zip(model.named_parameters(), back.parameters()):
        torch.testing.assert_close(
            actual,
            expected,
            rtol=0,
            atol=1e-6,
            msg=lambda text, key=key: f"{key}: {text}",
        )
    for (key, expected), actual in zip(model.named_buffers(), back.buffers()):
        if "running" in key:
            torch.testing.assert_close(actual, expected, rtol=0, atol=1e-5, msg=key)
    check_names(path, loss, model)


def check_names(path, loss, model):
    """Most modules that hold a matrix have an op with their name."""
    done = binade(
        "explain", path, "--loss", loss, "--policy", "bf16-amp", "--format", "json"
    )
    assert done.returncode == 0, done.stderr
    ops = {op["name"].rsplit("/", 1)[0] for op in json.loads(done.stdout)["ops"]}
    owners = {
        key.rpartition(".")[0] for key, v in model.named_parameters() if v.dim() > 1
    }
    assert len(owners & ops) > 0.8 * len(owners), (owners - ops, ops)
