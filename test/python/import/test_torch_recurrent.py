"""A plain torch.onnx.export folds the parameters of LSTM and GRU layers into tensors in ONNX's
order of gates. Import restores the parameters of the module."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("onnxscript", reason="the exporter of PyTorch needs onnxscript")

import onnx  # noqa: E402
from binade import trained  # noqa: E402
from support.exported_models import BINADE, binade, train  # noqa: E402
from support.plain_exports import check_training, export  # noqa: E402
from torch import nn  # noqa: E402

pytestmark = pytest.mark.skipif(not BINADE.exists(), reason="the tool is not built")

LAYERS = {
    "lstm": lambda: nn.LSTM(8, 6, batch_first=True),
    "lstm-deep": lambda: nn.LSTM(
        8, 6, num_layers=2, bidirectional=True, batch_first=True
    ),
    "lstm-without-bias": lambda: nn.LSTM(8, 6, bias=False, batch_first=True),
    "gru": lambda: nn.GRU(8, 6, batch_first=True),
    "gru-deep": lambda: nn.GRU(
        8, 6, num_layers=3, bidirectional=True, batch_first=True
    ),
}


class Tagger(nn.Module):
    def __init__(self, make):
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.layer = make()
        self.fc = nn.Linear(6 * (1 + self.layer.bidirectional), 5)

    def forward(self, tokens):
        return self.fc(self.layer(self.embedding(tokens))[0])


class Twice(nn.Module):
    """Runs one layer over the tokens in both orders."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.layer = nn.LSTM(8, 5, batch_first=True)

    def forward(self, tokens):
        x = self.embedding(tokens)
        return self.layer(x)[0] + self.layer(x.flip(1))[0]


class Equal(nn.Module):
    """Has layers whose biases are equal, so that the exporter stores them once."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.first = nn.LSTM(8, 8, batch_first=True)
        self.second = nn.LSTM(8, 5, num_layers=2, batch_first=True)
        self.third = nn.LSTM(5, 5, batch_first=True)
        for name, value in self.named_parameters():
            if "bias" in name:
                nn.init.zeros_(value)

    def forward(self, tokens):
        x = self.first(self.embedding(tokens))[0]
        return self.third(self.second(x)[0])[0]


def count_stored(path, name):
    return sum(t.name == name for t in onnx.load(path).graph.initializer)


@pytest.mark.parametrize("layer", LAYERS)
def test_folded_gates_are_trained(layer, tmp_path):
    model, batch = export(lambda: Tagger(LAYERS[layer]), tmp_path / "m.onnx")
    assert not count_stored(tmp_path / "m.onnx", "layer.weight_ih_l0")
    check_training(model, batch, tmp_path / "m.onnx", tmp_path)


@pytest.mark.parametrize("module", [Twice, Equal])
def test_shared_tensors_are_trained(module, tmp_path):
    model, batch = export(module, tmp_path / "m.onnx")
    check_training(model, batch, tmp_path / "m.onnx", tmp_path)


def test_ops_and_parameters_have_the_names_of_the_module(tmp_path):
    model, batch = export(lambda: Tagger(LAYERS["lstm"]), tmp_path / "m.onnx")
    done = train(
        tmp_path / "m.onnx",
        {"tokens": batch.numpy()},
        np.zeros((3, 4), np.int64),
        tmp_path,
    )
    assert "trained: 7 of 7 parameters\n" in done.stdout
    assert set(trained.load_state(tmp_path / "run")) == set(model.state_dict())
    done = binade("explain", tmp_path / "run/run.yaml", "--policy", "bf16-amp")
    assert "matmul at 'layer/lstm" in done.stdout


def test_trained_gates_are_exported(tmp_path):
    """The file of the trained model has the outputs of the module with these weights."""
    runtime = pytest.importorskip("onnxruntime")
    path = tmp_path / "m.onnx"
    model, batch = export(lambda: Tagger(LAYERS["gru-deep"]), path)
    check_training(model, batch, path, tmp_path)
    done = binade("export", tmp_path / "run", "-o", tmp_path / "trained.onnx")
    assert done.returncode == 0, done.stderr
    session = runtime.InferenceSession(tmp_path / "trained.onnx")
    inputs = {session.get_inputs()[0].name: batch.numpy()}
    with torch.no_grad():
        expected = model(batch).numpy()
    np.testing.assert_allclose(session.run(None, inputs)[0], expected, atol=2e-6)
