"""`--stable-embedding` adds a LayerNorm after an embedding: compared with PyTorch, in runs, in
checkpoints and in the exported ONNX file."""

import importlib
import sys

import numpy as np
import pytest
from support.paths import ROOT
from support.reference import binade, safetensors

F32 = np.float32
EXAMPLE = ROOT / "examples/char-gpt"
MINI = EXAMPLE / "mini.onnx"
ROWS, COLUMNS = 94, 128
NORM = ["token.norm.weight", "token.norm.bias"]


@pytest.fixture
def data(tmp_path):
    draw = np.random.default_rng(3)
    ids = draw.integers(0, ROWS, (16, 129)).astype(np.int64)
    path = tmp_path / "data.safetensors"
    safetensors.save(path, {
        "input_ids": np.ascontiguousarray(ids[:, :-1]),
        "labels": np.ascontiguousarray(ids[:, 1:]),
    })  # fmt: skip
    return path


def train(data, out, *flags, model=MINI, steps=1):
    process = binade(
        "train", model, "--data", data, "--order", "sequential", "--steps", steps,
        "--out", out, *flags,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    return safetensors.load(out / "final.safetensors")


def make_stable():
    """char-gpt with bitsandbytes' StableEmbedding: an Embedding initialized by
    xavier_uniform_, followed by a LayerNorm."""
    torch = pytest.importorskip("torch")
    sys.path.insert(0, str(EXAMPLE))
    module = importlib.import_module("model")
    sys.path.remove(str(EXAMPLE))

    class StableEmbedding(torch.nn.Embedding):
        def __init__(self, rows, columns):
            super().__init__(rows, columns)
            self.norm = torch.nn.LayerNorm(columns)

        def reset_parameters(self):
            torch.nn.init.xavier_uniform_(self.weight)

        def forward(self, ids):
            return self.norm(super().forward(ids))

    torch.manual_seed(0)
    model = module.make_mini()
    model.token = StableEmbedding(ROWS, COLUMNS)
    with torch.no_grad():  # Values of the norm that are not 1 and 0.
        model.token.norm.weight += 0.1 * torch.randn(COLUMNS)
        model.token.norm.bias += 0.1 * torch.randn(COLUMNS)
    return torch, module, model


def test_losses_and_gradients_match_pytorch(data, tmp_path):
    torch, module, model = make_stable()
    begin = {name: value.detach().numpy().copy()
             for name, value in model.named_parameters()}  # fmt: skip
    safetensors.save(tmp_path / "init.safetensors", begin)
    batch = {name: torch.from_numpy(x) for name, x in safetensors.load(data).items()}
    loss = module.cross_entropy(model(batch["input_ids"]), batch["labels"])
    loss.backward()
    rate = 0.5
    found = train(
        data, tmp_path / "run", "--stable-embedding", "--policy", "fp32", "--optimizer",
        "sgd", "--lr", rate, "--init", tmp_path / "init.safetensors",
    )  # fmt: skip
    metrics = (tmp_path / "run" / "metrics.jsonl").read_text()
    assert abs(float(metrics.split('"loss":')[1].split(",")[0]) - loss.item()) < 1e-5
    for name, value in model.named_parameters():
        gradient = (begin[name] - found[name]) / rate
        wanted = value.grad.numpy()
        allowed = (
            2e-4 * np.abs(wanted).max() + 2**-23 * np.abs(begin[name]).max() / rate
        )
        np.testing.assert_allclose(gradient, wanted, rtol=0, atol=allowed, err_msg=name)


def test_initial_values(data, tmp_path):
    found = train(data, tmp_path / "run", "--stable-embedding", "--lr", 0)
    np.testing.assert_array_equal(found[NORM[0]], np.ones(COLUMNS, F32))
    np.testing.assert_array_equal(found[NORM[1]], np.zeros(COLUMNS, F32))
    bound = np.sqrt(6 / (ROWS + COLUMNS))
    table = found["token.weight"].astype(float)
    assert (
        np.abs(table).max() <= bound * (1 + 1e-6)
        and np.abs(table).max() > 0.999 * bound
    )
    # Mean and variance of 12032 uniform values, within 5 standard deviations.
    assert abs(table.mean()) < 5 * bound / np.sqrt(3 * table.size)
    assert abs(table.var() / (bound**2 / 3) - 1) < 5 * np.sqrt(0.8 / table.size)
    assert not any(name.startswith("position.norm") for name in found)
    plain = train(data, tmp_path / "plain", "--lr", 0)
    np.testing.assert_array_equal(found["position.weight"], plain["position.weight"])
    assert np.abs(plain["token.weight"]).max() < bound


def test_states_of_embeddings_stay_wide(data, tmp_path):
    found = train(data, tmp_path / "run", "--stable-embedding", "--states", "dyn8")
    assert found["state/exp_avg/token.weight"].dtype == F32
    assert found[f"state/exp_avg/{NORM[0]}"].dtype == F32
    assert found["state/exp_avg/blocks.0.mlp.0.weight"].dtype == np.int8


def test_a_run_is_resumed_and_exported(data, tmp_path):
    flags = ["--stable-embedding", "--save-every", 2]
    whole = train(data, tmp_path / "whole", *flags, steps=4)
    train(data, tmp_path / "parts", *flags, steps=2)
    process = binade("train", MINI, "--data", data, "--order", "sequential", "--steps", 4,
                     "--stable-embedding", "--resume", tmp_path / "parts")  # fmt: skip
    assert process.returncode == 0, process.stderr
    parts = safetensors.load(tmp_path / "parts" / "final.safetensors")
    assert NORM[0] in whole and np.any(whole[NORM[0]] != 1)
    for name in whole:
        np.testing.assert_array_equal(whole[name], parts[name], name)

    exported = tmp_path / "trained.onnx"
    process = binade("export", tmp_path / "whole", "-o", exported)
    assert process.returncode == 0 and "left out" not in process.stderr, process.stderr
    onnx = pytest.importorskip("onnx")
    evaluator = pytest.importorskip("onnx.reference").ReferenceEvaluator
    model = onnx.load(exported)
    onnx.checker.check_model(model, full_check=True)
    torch, _, stable = make_stable()
    stable.load_state_dict({name: torch.from_numpy(whole[name].copy())
                            for name, _ in stable.named_parameters()}, strict=False)  # fmt: skip
    ids = safetensors.load(data)["input_ids"]
    with torch.no_grad():
        wanted = stable(torch.from_numpy(ids)).numpy()
    (found,) = evaluator(model).run(None, {"input_ids": ids})
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)

    # In the exported file the norm is an ordinary parameter.
    again = train(
        data, tmp_path / "again", "--lr", 0, "--loss", "cross_entropy(prediction, labels)",
        model=exported,
    )  # fmt: skip
    np.testing.assert_array_equal(again[NORM[0]], whole[NORM[0]])


def test_models_without_an_embedding_are_rejected(tmp_path):
    process = binade("compile", ROOT / "examples/mlp/mlp.onnx", "--stable-embedding",
                     "--loss", "cross_entropy(prediction, labels)",
                     "-o", tmp_path / "x.bnd")  # fmt: skip
    assert process.returncode == 3
    # Errors about the whole graph name the file, not the graph.
    file = ROOT / "examples/mlp/mlp.onnx"
    assert process.stderr.startswith(f"{file}: error: has no embedding")
    assert not (tmp_path / "x.bnd").exists()
