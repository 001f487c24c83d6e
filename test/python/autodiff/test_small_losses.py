"""Losses near 0, and logits with probabilities near 0, compared with numpy in f64."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from support import reference  # noqa: E402

if not (reference.BUILD / "python" / "binade").exists():
    pytest.skip("the extension is not built", allow_module_level=True)

import binade  # noqa: E402

HEAD = '<ir_version: 10, opset_import: ["" : 20]>'


def run(text, weight, policy="fp32", **batch):
    """The loss of a graph whose only initializer is `w`, and the gradient of `w`."""
    model = onnx.parser.parse_model(f"{HEAD} {text}")
    model.graph.initializer.append(onnx.numpy_helper.from_array(weight, "w"))
    step = binade.compile(model, policy=policy, train=["w"], keep_gradients=True)
    metrics = step(batch)
    return metrics.loss, step.gradients["w"] / np.float32(metrics.scale)


def test_a_small_loss_of_large_logits():
    """The sum of exponentials is slightly above 1. Adding its logarithm to the largest
    logit, which f32 resolves only to about 2^-18, would round the loss away."""
    logits = np.array([[64.3, 50.0, 47.0, -70.0], [-90.2, -110.0, -75.1, -88.0]])
    labels = np.array([0, 2])
    text = """model (int64[2] t) => (float[] loss)
        { loss = SoftmaxCrossEntropyLoss <reduction = "sum"> (w, t) }"""
    loss, gradient = run(text, logits.astype(np.float32), t=labels)
    x = logits.astype(np.float32).astype(np.float64)
    others = np.exp(x - x[range(2), labels][:, None])
    others[range(2), labels] = 0
    totals = others.sum(1)
    np.testing.assert_allclose(loss, np.log1p(totals).sum(), atol=2**-23)
    expected = others / (1 + totals)[:, None]
    is_label = np.arange(4) == labels[:, None]
    np.testing.assert_allclose(
        gradient[~is_label], expected[~is_label], rtol=1e-5, atol=1e-38
    )
    np.testing.assert_allclose(gradient[is_label], -totals / (1 + totals), atol=2**-23)


@pytest.mark.parametrize("policy", ["fp32", "fp16-amp", "bf16-amp"])
def test_log_of_a_sigmoid_that_underflows(policy):
    """PyTorch's exporter writes Log(Sigmoid) for binary cross-entropy of logits. f16
    rounds probabilities below 2^-25 to 0, f32 below 2^-150; the logs stay finite."""
    logits = np.array([-300.0, -120.0, -40.0, -18.0, -1.0, 0.0, 3.0, 30.0], np.float32)
    text = """model (float[8] x) => (float[] loss) {
        z = Mul(w, x)  s = Sigmoid(z)  l = Log(s)
        loss = ReduceSum <keepdims = 0> (l) }"""
    loss, gradient = run(text, logits, policy, x=np.ones(8, np.float32))
    x = logits.astype(np.float64)
    np.testing.assert_allclose(loss, -np.logaddexp(0, -x).sum(), rtol=2e-3)
    np.testing.assert_allclose(gradient, 1 / (1 + np.exp(x)), rtol=1e-2, atol=1e-6)
