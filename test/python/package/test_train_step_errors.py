"""Steps in Python reject invalid batches, options and values."""

import logging

import numpy as np
import pytest
from support.paths import ROOT

onnx = pytest.importorskip("onnx")

from support import reference  # noqa: E402

if not (reference.BUILD / "python" / "binade").exists():
    pytest.skip("the extension is not built", allow_module_level=True)

import binade  # noqa: E402
import binade.errors  # noqa: E402
from support.linear_step import INPUTS, ROWS, compile_linear, make_model, make_values  # noqa: E402

MINI = ROOT / "examples" / "char-gpt" / "mini.onnx"


def test_non_finite_weights_cause_a_warning_or_an_error(caplog, tmp_path):
    weight, bias, *_ = make_values()
    weight[2, 0] = weight[2, 1] = np.nan
    text = "2 values that are not finite, the first as element 4"
    with caplog.at_level(logging.WARNING, "binade"):
        compile_linear(weight, bias)
    assert f"parameter 'w' starts with {text}" in caplog.text
    with pytest.raises(
        binade.errors.RejectedError, match=f"initializer 'w': error: holds {text}"
    ):
        compile_linear(weight, bias, fail_on_nonfinite=True)
    bundle = tmp_path / "step.bnd"
    compile_linear(weight, bias).write(bundle)
    assert np.isnan(binade.load(bundle).parameters["w"]).sum() == 2
    with pytest.raises(
        binade.errors.RejectedError, match=f"parameter 'w': error: starts with {text}"
    ):
        binade.load(bundle, fail_on_nonfinite=True)


@pytest.mark.parametrize(
    "batch, message",
    [
        ({"x": 0}, "the batch lacks 'target'; the model's inputs are x, target"),
        ({"y": 0}, "there is no batch 'y'; there are x, target"),
        ({"x": np.zeros((ROWS, 1))}, r"batch 'x' has shape \[4, 3\], got \[4, 1\]"),
        (
            {"x": np.zeros((ROWS, INPUTS), complex)},
            "batch 'x' has type float32, got complex128",
        ),
    ],
)
def test_an_invalid_batch_is_rejected(batch, message):
    weight, bias, x, target = make_values()
    if "lacks" not in message:
        batch = {"x": x, "target": target} | batch
    with pytest.raises(binade.errors.UsageError, match=message):
        compile_linear(weight, bias)(batch)


@pytest.mark.parametrize("options, words", [
    ({"dims": {"N": "8"}}, "dims are a dictionary, such as {'batch': 64}, got {'N': '8'}"),
    ({"settings": ["lr=1"]}, "hyper-parameters are a dictionary, such as"),
    ({"groups": {"*": ["lr=1"]}}, "hyper-parameters are a dictionary, such as"),
    ({"policy": None}, "a policy is a name, a file or a dictionary, got NoneType"),
    ({"seed": -1}, r"a seed is a whole number from 0 to 2\^64 - 1, got -1"),
    ({"seed": 0.5}, "a seed is a whole number"),
    ({"threads": 1.5}, "option 'threads' cannot be 1.5"),
    ({"clip": "a"}, "option 'clip' cannot be 'a'"),
])  # fmt: skip
def test_options_of_another_type_are_rejected(options, words):
    weight, bias, _, _ = make_values()
    with pytest.raises(binade.errors.UsageError, match=words):
        compile_linear(weight, bias, **options)


def test_arguments_of_wrong_types():
    weight, bias, x, target = make_values()
    model = make_model(weight, bias)
    step = binade.compile(model, loss="mse(y, target)", train="w")
    assert list(step.parameters) == ["w"]
    batch = {"x": x, "target": target}
    for other in (3, [3], (x, target), None):
        with pytest.raises(
            binade.errors.UsageError, match=r"dictionary .*\(x, target\)"
        ):
            step(other)
    with pytest.raises(binade.errors.UsageError, match="takes 1 batch, got 2"):
        step([batch, batch])
    with pytest.raises(binade.errors.UsageError, match="setting 'lr' is a number, got"):
        step.settings["lr"] = "fast"
    assert step.updates == 0
    step([batch])
    assert step.updates == 1


def test_integer_batches_must_be_integers_in_range():
    step = binade.compile(MINI)
    tokens = np.zeros(step.batch["input_ids"].shape, np.int64)
    step({"input_ids": tokens.astype(np.uint8), "labels": tokens.tolist()})
    with pytest.raises(binade.errors.RejectedError, match=r"is 94, not in \[0, 94\)"):
        step({"input_ids": tokens + 94, "labels": tokens})
    with pytest.raises(binade.errors.UsageError, match="got float32"):
        step({"input_ids": tokens.astype(np.float32), "labels": tokens})


def test_errors_contain_the_messages_of_the_compiler(tmp_path, caplog):
    weight, bias, _, _ = make_values()
    model = make_model(weight, bias)
    with pytest.raises(binade.errors.RejectedError, match="bf16-amp") as caught:
        binade.compile(model, loss="mse(y, target)", policy="bf16-amq", train=["*"])
    assert caught.value.exit_code == 3
    model.graph.node[1].op_type = "NoSuchOp"
    with pytest.raises(binade.errors.BinadeError, match="NoSuchOp") as caught:
        binade.compile(model)
    assert caught.value.where == "./model.onnx" and "'sum'" in caught.value.notes[0]
    with pytest.raises(binade.errors.UsageError, match="no option 'polcy'"):
        binade.compile(model, polcy="fp32")
    with pytest.raises(binade.errors.RejectedError, match="missing.onnx"):
        binade.compile(tmp_path / "missing.onnx")
    with pytest.raises(binade.errors.DeviceError) as caught:
        compile_linear(weight, bias, device="cuda:63", target="cuda:sm_90")
    assert caught.value.exit_code == 6
    with caplog.at_level(logging.WARNING, "binade"):
        compile_linear(weight, bias, policy="coat")
    assert any("warning" in record.message for record in caplog.records)
