"""Tied parameters in files of torch.onnx.export, which stores them once, by one of their
names."""

import copy

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("onnxscript", reason="the exporter of PyTorch needs onnxscript")

from binade import trained  # noqa: E402
from support.exported_models import BINADE, train  # noqa: E402
from support.plain_exports import export  # noqa: E402
from torch import nn  # noqa: E402

pytestmark = pytest.mark.skipif(not BINADE.exists(), reason="the tool is not built")

NOTE = (
    "the file stores tied parameters once: 'head.weight' is also 'embedding.weight'\n"
)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.head = nn.Linear(8, 11)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        return self.head(torch.tanh(self.embedding(tokens)))


class Placed(Tied):
    """Also has positions, whose rows the exporter folds into a constant."""

    def __init__(self):
        super().__init__()
        self.position = nn.Embedding(6, 8)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1])
        return self.head(torch.tanh(self.embedding(tokens) + self.position(places)))


class Spare(Tied):
    """Has a parameter that nothing reads."""

    def __init__(self):
        super().__init__()
        self.spare = nn.Parameter(torch.ones(3))


def train_in_pytorch(model, batch, labels):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        scores = model(batch).flatten(0, 1)
        torch.nn.functional.cross_entropy(scores, labels.flatten()).backward()
        optimizer.step()


@pytest.mark.parametrize("module", [Tied, Placed, Spare])
@pytest.mark.parametrize(
    "names",
    [{}, {"input_names": ["ids"], "output_names": ["scores"]}],
    ids=["own", "renamed"],
)
def test_tied_parameters_train_as_in_pytorch(module, names, tmp_path):
    """The file may have other names of inputs and outputs than the traced program."""
    model, batch = export(module, tmp_path / "m.onnx", optimize=False, **names)
    labels = torch.arange(12).reshape(3, 4) % 11
    data = {names.get("input_names", ["tokens"])[0]: batch.numpy()}
    done = train(tmp_path / "m.onnx", data, labels.numpy(), tmp_path)
    assert (done.returncode, NOTE in done.stderr) == (0, True), done.stderr
    back = copy.deepcopy(model)
    trained.load(back, tmp_path / "run", strict=module is not Spare)
    assert back.head.weight is back.embedding.weight
    train_in_pytorch(model, batch, labels)
    for (key, expected), actual in zip(model.named_parameters(), back.parameters()):
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-6, msg=key)


def test_errors_list_folded_parameters_only(tmp_path):
    _, batch = export(Placed, tmp_path / "m.onnx")
    done = train(
        tmp_path / "m.onnx", {"tokens": batch.numpy()}, batch.numpy(), tmp_path
    )
    assert done.returncode == 3
    assert NOTE in done.stderr
    assert (
        "error: 1 of the module's 4 parameters is not in the file: 'position.weight'\n"
        in done.stderr
    )
