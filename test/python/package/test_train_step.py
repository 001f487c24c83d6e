"""The Python package: steps from models and bundles, their memory, and errors.

NumPy computes the expected values: gradient descent on a linear model.
"""

import gc
import json
import logging
import subprocess

import numpy as np
import pytest
from support.paths import ROOT

onnx = pytest.importorskip("onnx")

from support import reference  # noqa: E402

if not (reference.BUILD / "python" / "binade").exists():
    pytest.skip("the extension is not built", allow_module_level=True)

import binade  # noqa: E402
import binade.errors  # noqa: E402
from support.linear_step import RATE, compile_linear, make_values  # noqa: E402

MINI = ROOT / "examples" / "char-gpt" / "mini.onnx"


def descend(weight, bias, x, target, rate=RATE):
    """Computes one step in f64. Returns the loss and the new parameters."""
    error = x.astype(np.float64) @ weight + bias - target
    gradient = 2 * error / error.size
    return (
        (error**2).mean(),
        weight - rate * x.T.astype(np.float64) @ gradient,
        bias - rate * gradient.sum(0),
    )


def test_a_step_descends_the_gradient():
    weight, bias, x, target = make_values()
    step = compile_linear(weight, bias)
    assert set(step.parameters) == {"w", "b"} and set(step.batch) == {"x", "target"}
    np.testing.assert_array_equal(step.parameters["w"], weight)
    for rate in (RATE, RATE, RATE / 2):
        step.settings["lr"] = rate
        loss, weight, bias = descend(weight, bias, x, target, rate)
        metrics = step({"x": x, "target": target})
        assert metrics.loss == pytest.approx(loss, rel=1e-5)
        assert not metrics.skipped and metrics.scale == 1
        np.testing.assert_allclose(step.parameters["w"], weight, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(step.parameters["b"], bias, rtol=1e-5, atol=1e-6)
    assert step.updates == 3
    assert step.evaluate({"x": x, "target": target}) == pytest.approx(
        descend(weight, bias, x, target)[0], rel=1e-5
    )


def test_arrays_are_the_memory_of_the_step():
    weight, bias, x, target = make_values()
    step = compile_linear(weight, bias)
    step.parameters["w"][:] = 0
    loss = step({"x": x, "target": target}).loss
    assert loss == pytest.approx(descend(0 * weight, bias, x, target)[0], rel=1e-5)
    kept = step.parameters["b"]
    expected = kept.copy()
    del step
    gc.collect()
    np.testing.assert_array_equal(kept, expected)


def test_a_step_of_several_batches():
    weight, bias, x, target = make_values()
    _, _, more, others = make_values(1)
    step = compile_linear(weight, bias, accumulate=2)
    metrics = step([{"x": x, "target": target}, {"x": more, "target": others}])
    both = descend(weight, bias, np.vstack([x, more]), np.vstack([target, others]))
    np.testing.assert_allclose(step.parameters["w"], both[1], rtol=1e-5, atol=1e-6)
    assert metrics.loss == pytest.approx(both[0], rel=1e-5)
    with pytest.raises(binade.errors.UsageError, match="2 batches, got 1"):
        step({"x": x, "target": target})


def test_a_training_loop_shows_its_loss(capsys, caplog):
    weight, bias, x, target = make_values()
    batches = [{"x": x, "target": target}] * 3
    step, other = (compile_linear(weight, bias, policy="fp16-amp") for _ in range(2))
    expected = [step(batch) for batch in batches]
    assert other.train(batches, progress=True) == expected
    printed = capsys.readouterr().err
    assert "3/3" in printed and f"loss {expected[-1].loss:.4g}" in printed
    spoiled = {"x": x, "target": target + np.inf}
    with caplog.at_level(logging.INFO, "binade"):
        (metrics,) = other.train([spoiled], progress=False)
    assert metrics.skipped and "step 1 was skipped" in caplog.text
    assert capsys.readouterr().err == ""


def test_every_call_computes_all_statistics():
    """The port of a statistic has a new value after each call, even with `@every=100`."""
    weight, bias, x, target = make_values()
    policy = {"name": "watched", "extends": "fp32",
              "statistics": ["weight/w:norm@every=100"]}  # fmt: skip
    step = compile_linear(weight, bias, policy=policy)
    for _ in range(2):
        norm = np.linalg.norm(step.parameters["w"].astype(np.float64))
        step({"x": x, "target": target})
        found = step.ports("statistic")["weight/w/norm"]
        np.testing.assert_allclose(found, norm, rtol=1e-9)


def test_tensors_of_other_libraries_are_accepted():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    weight, bias, x, target = make_values()
    narrow = torch.from_numpy(x).to(torch.bfloat16)
    batch = {"x": narrow, "target": torch.from_numpy(target).T.contiguous().T}
    batch["target"].requires_grad_()
    loss = compile_linear(weight, bias)(batch).loss
    expected, _, _ = descend(weight, bias, narrow.float().numpy(), target)
    assert loss == pytest.approx(expected, rel=1e-5)


class Elsewhere:
    """An array that claims to be on a GPU, with the methods by which its library copies it
    to the CPU."""

    def __init__(self, **copies):
        self.__dict__ |= copies

    def __dlpack__(self, **_):
        raise BufferError

    def __dlpack_device__(self):
        return 2, 0


class ElsewhereInNumpy(Elsewhere):
    def __array__(self, dtype=None, copy=None):
        return self.here


def test_arrays_of_a_device_are_copied():
    weight, bias, x, target = make_values()
    expected, _, _ = descend(weight, bias, x, target)
    for there in (
        Elsewhere(cpu=lambda: x), Elsewhere(get=lambda: x), ElsewhereInNumpy(here=x),
    ):  # fmt: skip
        loss = compile_linear(weight, bias)({"x": there, "target": target}).loss
        assert loss == pytest.approx(expected, rel=1e-5)
    with pytest.raises(
        binade.errors.UsageError, match="batch 'x': is on DLPack device"
    ):
        compile_linear(weight, bias)({"x": Elsewhere(), "target": target})


def test_a_loaded_bundle_computes_the_same_step(tmp_path):
    weight, bias, x, target = make_values()
    step = compile_linear(weight, bias, optimizer="adamw", states="dyn8")
    step.write(tmp_path / "step.bnd")
    loaded = binade.load(tmp_path / "step.bnd")
    for _ in range(2):
        assert step({"x": x, "target": target}) == loaded({"x": x, "target": target})
    step.save(tmp_path / "state.safetensors")
    other = binade.load(tmp_path / "step.bnd")
    assert other.restore(tmp_path / "state.safetensors") == []
    assert other.updates == 2
    for kind in ("parameters", "states"):
        ours, theirs = getattr(step, kind), getattr(other, kind)
        assert list(ours) == list(theirs) and len(ours) > 0
        for name in ours:
            np.testing.assert_array_equal(
                ours[name].view(np.uint8), theirs[name].view(np.uint8)
            )
    with pytest.raises(binade.errors.UsageError, match="loaded from a bundle"):
        other.explain()


def test_explanation_and_plan_equal_those_of_the_command(tmp_path):
    options = ["--policy", "bf16-amp", "--optimizer", "adamw"]
    driver = reference.BUILD / "bin" / "binade"
    printed = subprocess.run(
        [driver, "explain", MINI, *options, "--format", "json"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    step = binade.compile(MINI, policy="bf16-amp", optimizer="adamw")
    expected, explained = json.loads(printed), step.explain()
    assert explained["ops"] == expected["ops"] and len(expected["ops"]) > 100
    assert explained["summary"] == expected["summary"]
    step.write(tmp_path / "step.bnd")
    inspected = subprocess.run(
        [driver, "inspect", tmp_path / "step.bnd", "--json"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert step.plan()["ledger"] == json.loads(inspected)["ledger"]


def test_policies_are_data(tmp_path):
    weight, bias, x, target = make_values()
    assert "bf16-amp" in binade.Policy.names()
    assert binade.Policy.read("bf16-amp")["narrow"] == "bf16"
    mine = binade.Policy(
        name="mine", extends="bf16-amp",
        rules=[{"match": {"op": "matmul", "phase": "forward"}, "compute": "f32"}],
    )  # fmt: skip

    def formats(policy):
        ops = compile_linear(weight, bias, policy=policy).explain()["ops"]
        return {(op["op"], op["phase"]): op["format"] for op in ops}

    ours, theirs = formats(mine), formats("bf16-amp")
    assert theirs["matmul", "forward"] == "bf16"
    assert ours["matmul", "forward"] == "f32"
    assert ours["matmul", "backward"] == "bf16"
    mine.write(tmp_path / "mine.yaml")
    assert formats(tmp_path / "mine.yaml") == ours


def test_metrics_of_a_batch(tmp_path):
    """The scores are the input, because the trained shift is 0 at the start."""
    graph = """<ir_version: 9, opset_import: ["" : 20]>
    net (float[4, 3] x, int64[4] y) => (float loss) <float[3] shift = {0, 0, 0}> {
      p = Add(x, shift)
      loss = SoftmaxCrossEntropyLoss(p, y)
    }"""
    model = onnx.parser.parse_model(graph)
    model.metadata_props.add(key="binade.trainable", value='["shift"]')
    onnx.save(model, tmp_path / "net.onnx")
    step = binade.compile(tmp_path / "net.onnx", metric=["accuracy", "perplexity"])
    x = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    y = np.array([x[0].argmax(), x[1].argmax(), x[2].argmin(), x[3].argmax()])
    logs = x - np.log(np.exp(x).sum(1, keepdims=True))
    loss = -logs[np.arange(4), y].mean()
    found = step.evaluate_metrics({"x": x, "y": y})
    assert found == pytest.approx(
        {"loss": loss, "accuracy": 0.75, "perplexity": np.exp(loss)}, rel=1e-5
    )
    with pytest.raises(binade.errors.RejectedError, match="expected metric 'accuracy'"):
        binade.compile(tmp_path / "net.onnx", metric="f1")
