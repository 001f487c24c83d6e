"""Files that Optimum exported train like the Hugging Face model.

Optimum calls PyTorch's TorchScript exporter. The expected values are from PyTorch
(`test/data/exports-optimum/export.py`).
"""

import pytest
from binade import trained
from support.exported_models import (
    BINADE,
    DATA,
    check_losses,
    check_state,
    load_values,
    train,
)

pytestmark = pytest.mark.skipif(not BINADE.exists(), reason="the tool is not built")

SIZES = {
    "bert": ["sequence_length=6"],
    "gpt2": ["sequence_length=6"],
    "vit": ["num_channels=3", "height=8", "width=8"],
}


def run(model, folder, *options):
    known = load_values("exports-optimum", model)
    batch = load_values("exports-optimum", model, "batch/")
    sizes = [word for size in SIZES[model] for word in ("--dim", size)]
    path = DATA / "exports-optimum" / f"{model}.onnx"
    return train(path, batch, known["labels"], folder, *sizes, *options)


@pytest.mark.parametrize("model", list(SIZES))
def test_parameters_are_trained(model, tmp_path):
    result = run(model, tmp_path)
    assert result.returncode == 0, result.stderr
    after = load_values("exports-optimum", model, "after/")
    assert f"trained: {len(after)} of {len(after)} parameters\n" in result.stdout
    check_losses(tmp_path, load_values("exports-optimum", model)["losses"])
    check_state(tmp_path, after)


def test_tied_weights_are_one_parameter(tmp_path):
    """The exporter stores the transpose of the embedding's table for the last layer."""
    assert run("gpt2", tmp_path).returncode == 0
    state = trained.load_state(tmp_path / "run")
    assert "transformer.wte.weight" in state
    assert "lm_head.weight" not in state
