"""A plain torch.onnx.export stores a class token only as expanded to the batch, and a weight only
as transposed. Import restores the parameters, unless their shape is unknown."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("onnxscript", reason="the exporter of PyTorch needs onnxscript")

from support.exported_models import BINADE, train  # noqa: E402
from support.plain_exports import check_training, export  # noqa: E402
from torch import nn  # noqa: E402

pytestmark = pytest.mark.skipif(not BINADE.exists(), reason="the tool is not built")


class WithToken(nn.Module):
    """Prepends the rows `token` to each sequence."""

    def __init__(self, token):
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.token = nn.Parameter(token)
        self.fc = nn.Linear(8, 5)

    def forward(self, tokens):
        first = self.token.expand(tokens.shape[0], -1, -1)
        x = torch.cat([first, self.embedding(tokens)], 1)
        return self.fc(torch.tanh(x.cumsum(1)[:, -tokens.shape[1] :]))


class Multiplied(nn.Module):
    """Multiplies by transposed weights, one of them square."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.square = nn.Parameter(torch.randn(8, 8) / 4)
        self.wide = nn.Parameter(torch.randn(5, 8) / 4)

    def forward(self, tokens):
        x = torch.tanh(self.embedding(tokens) @ self.square.T)
        return x @ self.wide.transpose(0, 1)


def refuse(module, folder):
    _, batch = export(module, folder / "m.onnx")
    labels = np.zeros((3, 4), np.int64)
    done = train(folder / "m.onnx", {"tokens": batch.numpy()}, labels, folder)
    assert done.returncode == 3
    assert not (folder / "run").exists()
    return done.stderr


@pytest.mark.parametrize("rows", [1, 2])
def test_expanded_tokens_are_trained(rows, tmp_path):
    path = tmp_path / "m.onnx"
    model, batch = export(lambda: WithToken(torch.randn(1, rows, 8)), path)
    done = check_training(model, batch, path, tmp_path)
    assert (
        "note: the file has parameter 'token' expanded to 3 equal rows; it is restored as "
        f"[1, {rows}, 8]\n" in done.stderr
    )


@pytest.mark.parametrize(
    "token", [torch.zeros(1, 1, 8), torch.ones(1, 2, 8), torch.arange(8.0).expand(1, 2, 8)]
)  # fmt: skip
def test_tokens_of_equal_elements_have_no_known_shape(token, tmp_path):
    message = refuse(lambda: WithToken(token.clone()), tmp_path)
    assert "1 of the module's 4 parameters is not in the file: 'token'\n" in message
    assert "torch.onnx.export(..., optimize=False)" in message


def test_weights_that_are_only_read_transposed_are_trained(tmp_path):
    model, batch = export(Multiplied, tmp_path / "m.onnx")
    check_training(model, batch, tmp_path / "m.onnx", tmp_path)


class Scaled(nn.Module):
    """Reads a token only in an expression."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.token = nn.Parameter(torch.randn(1, 1, 8))
        self.fc = nn.Linear(8, 5)

    def forward(self, tokens):
        first = (self.token * 2).expand(tokens.shape[0], -1, -1)
        return self.fc(torch.cat([first, self.embedding(tokens)], 1))


def test_expanded_expressions_are_an_error(tmp_path):
    assert "is not in the file: 'token'\n" in refuse(Scaled, tmp_path)
