"""The optimizer of a plain torch.onnx.export removes `detach()`, and merges nodes that are equal
only in inference. Import restores the former, and refuses the latter."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("onnxscript", reason="the exporter of PyTorch needs onnxscript")

from support.exported_models import BINADE, train  # noqa: E402
from support.plain_exports import check_training, export  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

pytestmark = pytest.mark.skipif(not BINADE.exists(), reason="the tool is not built")


class Rounded(nn.Module):
    """Passes gradients straight through a rounding; the differences have a gradient in one
    operand only."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.fc = nn.Linear(8, 5)

    def forward(self, tokens):
        x = self.embedding(tokens)
        x = x + (torch.round(x * 4) / 4 - x).detach()
        y = torch.tanh(x)
        y = (y.detach() - y) * 3 + y
        return self.fc(y) + self.fc(x.detach())


class Cut(nn.Module):
    """Detaches an operand of an op with a list of operands."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.fc = nn.Linear(24, 5)

    def forward(self, tokens):
        x = torch.tanh(self.embedding(tokens))
        return self.fc(torch.cat([x, x.detach(), x * 2], -1))


class Drawn(nn.Module):
    """Averages the scores under several masks of dropout."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.fc = nn.Linear(8, 5)

    def forward(self, tokens):
        x = torch.tanh(self.embedding(tokens))
        return sum(self.fc(F.dropout(x, 0.5)) for _ in range(3)) / 3


class Mirrored(nn.Module):
    """Computes two differences that are equal without `detach()`."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.fc = nn.Linear(8, 5)

    def forward(self, tokens):
        x = torch.tanh(self.embedding(tokens))
        return self.fc((x.detach() - x) * 3 + (x - x.detach()) + x)


@pytest.mark.parametrize("module", [Rounded, Cut])
@pytest.mark.parametrize("options", [{}, {"optimize": False}], ids=["plain", "kept"])
def test_detached_values_have_no_gradient(module, options, tmp_path):
    model, batch = export(module, tmp_path / "m.onnx", **options)
    check_training(model, batch, tmp_path / "m.onnx", tmp_path)


@pytest.mark.parametrize("module, value", [(Drawn, "linear"), (Mirrored, "sub")])
def test_merged_nodes_that_may_differ_are_an_error(module, value, tmp_path):
    _, batch = export(module, tmp_path / "m.onnx")
    labels = np.zeros((3, 4), np.int64)
    done = train(tmp_path / "m.onnx", {"tokens": batch.numpy()}, labels, tmp_path)
    assert done.returncode == 3
    assert (
        f"reads '{value}', with which the exporter's optimizer merged '{value}_1', "
        "although each may depend on its own dropout or detach()\n" in done.stderr
    )
    assert "torch.onnx.export(..., optimize=False)" in done.stderr


def test_kept_dropouts_are_trained(tmp_path):
    _, batch = export(Drawn, tmp_path / "m.onnx", optimize=False)
    labels = np.zeros((3, 4), np.int64)
    done = train(tmp_path / "m.onnx", {"tokens": batch.numpy()}, labels, tmp_path)
    assert done.returncode == 0, done.stderr


def test_kept_differences_have_their_gradients(tmp_path):
    model, batch = export(Mirrored, tmp_path / "m.onnx", optimize=False)
    check_training(model, batch, tmp_path / "m.onnx", tmp_path)
