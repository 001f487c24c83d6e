"""Messages about losses and labels name the error in the model or in the data."""

import json

import numpy as np
import pytest
from support.reference import safetensors

onnx = pytest.importorskip("onnx")

from support.message_models import BATCH, check, draw, train, write  # noqa: E402

F32 = np.float32
LEAST = "-9223372036854775808"
rng = np.random.default_rng(0)


@pytest.fixture
def folder(tmp_path):
    labels = rng.integers(0, 5, 16)
    labels[3] = 5
    least = labels.clip(max=4)
    least[3] = np.iinfo(np.int64).min
    safetensors.save(tmp_path / "d.safetensors", {"x": draw(16, 4), "y": labels})
    safetensors.save(tmp_path / "least.safetensors", {"x": draw(16, 4), "y": least})
    return tmp_path


@pytest.mark.parametrize("output, type_", [
    ("float[8, 3] loss", "it is f32 [8, 3]"), ("float[1, 3] loss", "it is f32 [1, 3]"),
    ("int64 loss", "it is i64\n"),
])  # fmt: skip
def test_a_loss_must_be_a_float_scalar(folder, output, type_):
    body = {
        "float[8, 3] loss": "loss = MatMul(x, w)",
        "float[1, 3] loss": "p = MatMul(x, w)\nloss = ReduceSum<keepdims = 1>(p, a)",
        "int64 loss": "loss = Size(x)",
    }[output]
    weights = {"w": draw(4, 3), "a": np.array([0])}
    model = write(
        folder / "m.onnx", body, output=output, weights=weights, trainable=["w"]
    )
    found = "'loss' has to have one floating-point element, but it is"
    check(train(model), 3, found, type_, "--loss-output NAME")
    found = "'loss' has to have one floating-point element, but it is"
    check(train(model, "--loss-output", "loss"), 3, found, type_)


def test_a_model_without_a_loss_lists_its_outputs(folder):
    model = write(folder / "m.onnx", "y = MatMul(x, w)", output="float[8, 3] y",
                  weights={"w": draw(4, 3)}, trainable=["w"])  # fmt: skip
    check(train(model), 3, "none of its outputs is called 'loss'", "outputs are 'y' f32 [8, 3]\n",
          "--loss 'cross_entropy(OUTPUT, LABELS)'")  # fmt: skip


LOSSES = {
    "SoftmaxCrossEntropyLoss": "p = MatMul(x, w)\nloss = SoftmaxCrossEntropyLoss{}(p, y)",
    "NegativeLogLikelihoodLoss": "p = MatMul(x, w)\nq = LogSoftmax<axis = 1>(p)\n"
    "loss = NegativeLogLikelihoodLoss{}(q, y)",
    "NegativeLogLikelihoodLoss of a Tanh": "p = MatMul(x, w)\nq = Tanh(p)\n"
    "loss = NegativeLogLikelihoodLoss{}(q, y)",
}


@pytest.mark.parametrize("data", ["d.safetensors", "least.safetensors"])
@pytest.mark.parametrize("kind", LOSSES)
def test_labels_out_of_range_are_named(folder, kind, data):
    """-2^63 is invalid, too: the compiler uses it to encode that no label is ignored."""
    model = write(folder / "m.onnx", LOSSES[kind].format(""), f"{BATCH}, int64[8] y",
                  weights={"w": draw(4, 5)}, trainable=["w"])  # fmt: skip
    found = "5" if data == "d.safetensors" else LEAST
    process = train(model, data=data)
    check(process, 3, f"is {found}", "0 to 4", without=["ignored"])


@pytest.mark.parametrize("kind", LOSSES)
def test_messages_name_the_ignored_label(folder, kind):
    body = LOSSES[kind].format("<ignore_index = -7>")
    model = write(folder / "m.onnx", body, f"{BATCH}, int64[8] y",
                  weights={"w": draw(4, 5)}, trainable=["w"])  # fmt: skip
    check(train(model), 3, "is 5", "0 to 4 and -7 (ignored)")
    check(train(model, data="least.safetensors"), 3, f"is {LEAST}", "-7 (ignored)")


@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize("integer", ["int32", "int64"])
def test_without_ignore_index_all_labels_count(folder, kind, integer):
    """The loss, also of label 0, equals that of NumPy."""
    weight, x = draw(4, 5), draw(8, 4)
    model = write(folder / "m.onnx", LOSSES[kind].format(""), f"{BATCH}, {integer}[8] y",
                  weights={"w": weight}, trainable=["w"])  # fmt: skip
    labels = np.array([0, 0, 1, 2, 3, 4, 0, 1], integer)
    safetensors.save(folder / "good.safetensors", {"x": x, "y": labels})
    process = train(model, "--order", "sequential", data="good.safetensors")
    assert process.returncode == 0, process.stderr
    scores = x.astype(float) @ weight
    logarithms = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    if "Tanh" in kind:
        logarithms = np.tanh(scores)
    expected = -logarithms[np.arange(8), labels].mean()
    (line,) = (folder / "run/metrics.jsonl").read_text().splitlines()
    assert json.loads(line)["loss"] == pytest.approx(expected, rel=1e-5)
