"""Models that `binade.export` writes compute PyTorch's values after import."""

import copy
import re

import numpy as np
import pytest
from support.paths import BUILD

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("onnxscript", reason="PyTorch's exporter needs onnxscript")

from binade import export, safetensors
from support import export_models as models
from support.processes import call

TRANSLATE = BUILD / "bin" / "binade-translate"
EVAL = BUILD / "bin" / "binade-interpret"

pytestmark = pytest.mark.skipif(
    not (TRANSLATE.exists() and EVAL.exists()), reason="the tools are not built"
)


def import_model(folder, model, batch, loss=models.cross_entropy, **options):
    """Exports `model`, imports the file and returns the module's text."""
    export.export_onnx(model, batch, folder / "m.onnx", loss=loss, **options)
    text = call(TRANSLATE, "--import-onnx", folder / "m.onnx")
    (folder / "m.mlir").write_text(text)
    return text


def evaluate(folder, batch):
    inputs = {name: value.numpy() for name, value in batch.items()}
    safetensors.save(folder / "inputs.safetensors", inputs)
    call(
        EVAL, folder / "m.mlir", "--inputs", folder / "inputs.safetensors",
        "--out", folder / "results.safetensors",
    )  # fmt: skip
    return safetensors.load(folder / "results.safetensors")


@pytest.mark.parametrize(
    "make_model, make_batch",
    [
        (models.MLP, models.vectors),
        (models.MiniGPT, models.tokens),
        (models.ConvNet, models.images),
        (lambda: models.ConvNet().eval(), models.images),
    ],
)
def test_loss_prediction_and_buffers_equal_those_of_torch(
    tmp_path, make_model, make_batch
):
    torch.manual_seed(0)
    model, batch = make_model(), make_batch()
    import_model(tmp_path, copy.deepcopy(model), batch)
    found = evaluate(tmp_path, batch)
    *inputs, labels = batch.values()
    prediction = model(*inputs)
    loss = models.cross_entropy(prediction, labels)
    np.testing.assert_allclose(found["loss"], loss.item(), rtol=2e-6)
    np.testing.assert_allclose(
        found["prediction"], prediction.detach(), rtol=2e-5, atol=2e-6
    )
    updated = {
        name: value.numpy()
        for name, value in model.named_buffers()
        if model.training and name.startswith("norm.running_")
    }
    assert set(found) == {"loss", "prediction", *updated}
    for name, value in updated.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=1e-6)


def test_attention_and_gelu_are_one_op_each(tmp_path):
    text = import_model(tmp_path, models.MiniGPT(), models.tokens())
    ops = re.findall(r"= binade\.(\w+)", text)
    assert ops.count("attention") == 1
    assert ops.count("gelu") == 1
    assert ops.count("softmax") == 0
    # One linear layer per weight, with its bias. The head has no bias and is tied.
    assert ops.count("matmul") == 5
    assert "tanh>" in text and "{causal" in text


def test_constants_keep_their_bits(tmp_path):
    torch.manual_seed(0)
    model, batch = models.Constants(), models.vectors()
    text = import_model(tmp_path, model, {"x": batch["x"]}, loss=models.mean)
    found = evaluate(tmp_path, {"x": batch["x"]})
    np.testing.assert_allclose(
        found["prediction"], model(batch["x"]).detach(), rtol=1e-6, atol=1e-7
    )
    # Only `weight` is trained; the other tensors are constants.
    assert text.count("binade.role<parameter>") == 1
    assert 'binade.name = "weight"' in text


def test_rules_become_initial_values(tmp_path):
    from binade.record import InitialRules

    with InitialRules() as rules:
        model = models.ConvNet()
    text = import_model(tmp_path, model, models.images(), rules=rules)
    arguments = text.splitlines()[1]
    assert arguments.count("binade.role<parameter>") == 5
    found = re.search(r'init = #binade.random<"uniform", (\S+) : f64, (\S+) : f64>, '
                      r'binade.name = "conv.weight"', arguments)  # fmt: skip
    bound = 1 / np.sqrt(2 * 9)
    assert float(found[1]) == pytest.approx(-bound)
    assert float(found[2]) == pytest.approx(2 * bound)
    assert re.search(r"init = dense<1.0+(e\+00)?> : tensor<4xf32>, "
                     r'binade.name = "norm.weight"', arguments)  # fmt: skip
    assert re.search(r"init = dense<0.0+(e\+00)?> : tensor<4xf32>, "
                     r'binade.name = "norm.running_mean", '
                     r"binade.role = #binade.role<buffer>", arguments)  # fmt: skip


def test_dropout_draws_from_the_generator_of_the_step(tmp_path):
    batch = models.vectors()
    text = import_model(tmp_path, models.Dropping(), batch)
    assert re.search(r"binade\.dropout .* \{ratio = 2.5\d*E-1 : f64|"
                     r"binade\.dropout .* \{ratio = 2.5\d*e-01 : f64", text)  # fmt: skip
    rng = np.array([7, 3])
    found = evaluate(tmp_path, {**batch, "rng": torch.tensor(rng)})
    np.testing.assert_array_equal(found["rng"], rng + [0, 1])
    # 0 with probability 1/4, otherwise 4/3 of the result of the linear layer.
    weights = safetensors.load(tmp_path / "m.safetensors")
    linear = batch["x"].numpy() @ weights["fc.weight"].T + weights["fc.bias"]
    kept = found["prediction"] != 0
    np.testing.assert_allclose(
        found["prediction"][kept], linear[kept] * 4 / 3, rtol=1e-5, atol=1e-6
    )
    assert 0 < kept.sum() < kept.size
