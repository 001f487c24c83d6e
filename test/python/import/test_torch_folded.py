"""The optimizer of a plain torch.onnx.export folds expressions of parameters into constants.
Import restores transposes, and refuses other constants, because they do not change with their
parameters."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("onnxscript", reason="the exporter of PyTorch needs onnxscript")

from support.exported_models import BINADE, binade, train  # noqa: E402
from support.plain_exports import check_training, export  # noqa: E402
from torch import nn  # noqa: E402

pytestmark = pytest.mark.skipif(not BINADE.exists(), reason="the tool is not built")


class Tied(nn.Module):
    """Reads one table as rows, and transposed."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.fc = nn.Linear(8, 8)

    def forward(self, tokens):
        return torch.tanh(self.fc(self.embedding(tokens))) @ self.embedding.weight.T


class Gated(nn.Module):
    """Reads each gate directly and in an expression."""

    def __init__(self):
        super().__init__()
        self.alpha = nn.Parameter(torch.tensor(0.3))
        self.gate = nn.Parameter(torch.rand(8))
        self.embedding = nn.Embedding(11, 8)
        self.fc = nn.Linear(8, 5)

    def forward(self, tokens):
        x = self.embedding(tokens)
        x = self.alpha * x + (1 - self.alpha) * torch.tanh(x)
        return self.fc(self.gate * x + x.abs() * (1 - self.gate))


def test_transposes_of_tied_tables_are_restored(tmp_path):
    model, batch = export(Tied, tmp_path / "m.onnx")
    check_training(model, batch, tmp_path / "m.onnx", tmp_path)


def test_other_constants_are_an_error(tmp_path):
    model, batch = export(Gated, tmp_path / "m.onnx")
    labels = np.zeros((3, 4), np.int64)
    done = train(tmp_path / "m.onnx", {"tokens": batch.numpy()}, labels, tmp_path)
    assert done.returncode == 3
    assert (
        "error: the file has constants that the exporter computed from parameters: "
        "'alpha' in 'sub', 'gate' in 'sub_1'\n" in done.stderr
    )
    assert "torch.onnx.export(..., optimize=False)" in done.stderr
    assert "--freeze NAME keeps a parameter as it is" in done.stderr
    assert not (tmp_path / "run").exists()


def test_constants_of_frozen_parameters_are_accepted(tmp_path):
    model, batch = export(Gated, tmp_path / "m.onnx")
    names = ("alpha", "gate")
    options = [word for name in names for word in ("--freeze", name)]
    check_training(model, batch, tmp_path / "m.onnx", tmp_path, *options, frozen=names)


def test_unoptimized_files_have_no_such_constants(tmp_path):
    model, batch = export(Gated, tmp_path / "m.onnx", optimize=False)
    check_training(model, batch, tmp_path / "m.onnx", tmp_path)


def test_constants_of_torchscript_files_are_reported(tmp_path):
    """Such a file does not say from what the exporter computed a constant."""
    _, batch = export(Gated, tmp_path / "m.onnx", dynamo=False, input_names=["tokens"])
    labels = np.zeros((3, 4), np.int64)
    done = train(tmp_path / "m.onnx", {"tokens": batch.numpy()}, labels, tmp_path)
    assert done.returncode == 0, done.stderr
    note = next(
        line for line in done.stderr.splitlines() if "which are not trained" in line
    )
    assert note.count("'onnx::Mul_") == 2
    assert "do_constant_folding=False" in note


class Recurrent(nn.Module):
    """Has a GRU, whose gates ONNX has in another order."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.gru = nn.GRU(8, 6, batch_first=True)
        self.fc = nn.Linear(6, 5)

    def forward(self, tokens):
        return self.fc(self.gru(self.embedding(tokens))[0])


def test_slices_of_the_gates_in_torchscript_files_are_not_merged_parameters(tmp_path):
    path, options = tmp_path / "m.onnx", {"dynamo": False, "do_constant_folding": False}
    model, batch = export(Recurrent, path, input_names=["tokens"], **options)
    labels = np.zeros((3, 4), np.int64)
    done = train(path, {"tokens": batch.numpy()}, labels, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "7 are trained" in done.stderr and "is read by" not in done.stderr
    check_training(model, batch, path, tmp_path, "--overwrite")


class Stacked(nn.Module):
    """Has containers, whose children TorchScript names `/body/body.0`."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        inner = nn.Sequential(nn.Linear(8, 5, bias=False))
        self.body = nn.Sequential(nn.Linear(8, 8, bias=False), nn.Tanh(), inner)

    def forward(self, tokens):
        return self.body(self.embedding(tokens))


def test_children_of_sequential_have_their_names_in_torchscript_files(tmp_path):
    path = tmp_path / "m.onnx"
    model, batch = export(Stacked, path, dynamo=False, input_names=["tokens"])
    check_training(model, batch, path, tmp_path)
    done = binade("explain", tmp_path / "run/run.yaml", "--policy", "bf16-amp")
    assert done.returncode == 0, done.stderr
    assert "matmul at 'body.0/MatMul'" in done.stdout
    assert "matmul at 'body.2.0/MatMul'" in done.stdout
